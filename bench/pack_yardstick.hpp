// SPDX-License-Identifier: Apache-2.0
#pragma once

// Yardsticks of packed tables, and the numbers that tables hold. Like yardstick.hpp they know
// nothing of the library.

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace yardstick {

/// What a table holds: independent draws that depend on seed and position alone.
enum class numbers : std::uint8_t {
  normal,        ///< mean 0, deviation 1
  small_normal,  ///< 0.02 of that
  relu,          ///< its positive part
  ones,          ///< 1 with probability 0.02, else 0
  once_fp16,     ///< normal, rounded to fp16
};
void fill_numbers(numbers what, float* to, std::int64_t count, std::uint64_t seed,
                  cudaStream_t stream);
void fill_numbers(numbers what, __nv_bfloat16* to, std::int64_t count, std::uint64_t seed,
                  cudaStream_t stream);

/// Ids in [0, rows), any of them more than once.
void fill_ids(std::int32_t* to, std::int64_t count, std::int64_t rows, std::uint64_t seed,
              cudaStream_t stream);

/// How a gather is launched: as many blocks of eight warps (0: one piece a warp), and 16-byte
/// vectors that a lane has in flight, 4 or 8.
struct gather_launch {
  int blocks;
  int depth;
};

/// out[k] = rows[ids[k]], rows of `row_bytes`, a power of two from 16 on, in device memory or in
/// pinned memory of the host. A warp takes 32 x depth vectors of the output at a time: a part of a
/// row, or several rows side by side, so that all lanes read whatever the width.
void gather(const void* rows, std::int64_t row_bytes, const std::int32_t* ids, std::int64_t count,
            void* out, gather_launch how, cudaStream_t stream);

/// *found = how many of the 16-byte vectors of a and b differ; `bytes` is a multiple of 16.
void count_differences(const void* a, const void* b, std::int64_t bytes, unsigned long long* found,
                       cudaStream_t stream);

}  // namespace yardstick
