// SPDX-License-Identifier: Apache-2.0
#pragma once

// The yardsticks, written by hand in the plainest way that is not slow. They know nothing of the
// library: no bar is measured against something that shares its code.

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace yardstick {

/// A part of a row that one warp sums.
struct chunk {
  std::int32_t row;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t shared;  // 1: other chunks write this row too
};

constexpr int chunk_edges = 256;

/// Rows in order; rows above 256 edges as consecutive chunks.
std::vector<chunk> make_chunks(const std::vector<std::int32_t>& offsets);

/// The floor: Y[i] = sum of X[j], fp32, `features` 64, 128 or 256 packed. Clears the output, then
/// one warp a chunk with 16-byte loads, two edges at a time (four of 64 features, which fill half a
/// warp); the parts of a cut row meet by float atomics.
void sum_rows(int features, const chunk* chunks, int count, const std::int32_t* indices,
              const float* x, float* y, std::int64_t rows, cudaStream_t stream);

/// The same of 64 features with either half of the warp at an edge of its own: quicker.
void sum_rows_by_halves(const chunk* chunks, int count, const std::int32_t* indices, const float* x,
                        float* y, std::int64_t rows, cudaStream_t stream);

/// The floor of sampled products: for every edge of a chunk both rows are gathered, the receiver's
/// through an id of its own as if edges lay in any order, and multiplied into one fp32 row a chunk,
/// of which 16 bytes a lane are written. `features` 64, 128 or 256.
void multiply_two_rows(int features, const chunk* chunks, int count, const std::int32_t* receivers,
                       const std::int32_t* senders, const float* left, const float* right,
                       float* written, cudaStream_t stream);

/// Numbers in [-1, 1) that depend on the position alone.
void fill(float* to, std::int64_t count, cudaStream_t stream);
void fill_half(__half* to, std::int64_t count, cudaStream_t stream);

/// The peers' max backward: clears dX, then one thread an element adds its gradient to the winning
/// sender, whose id was saved as int32 (-1: none).
void scatter_add(const std::int32_t* winners, const float* gradient, float* result,
                 std::int64_t rows, std::int64_t columns, int features, cudaStream_t stream);

/// Keeps the stream busy for a while, so that what is enqueued behind it runs back to back, and
/// what is timed is the device alone.
void hold(double microseconds, cudaStream_t stream);

}  // namespace yardstick
