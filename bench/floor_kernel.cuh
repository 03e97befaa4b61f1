// SPDX-License-Identifier: Apache-2.0
#pragma once

// The yardstick: the sum of sender rows, written by hand in the plainest way that is not slow. One
// warp a row, rows above 256 edges in chunks whose parts meet by float atomics on a cleared output,
// 16-byte loads, several edges in flight. It knows nothing of the library.

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace yardstick {

constexpr int chunk_edges = 256;

struct chunk {
  std::int32_t row;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t shared;  // 1: other chunks write this row too
};

/// Rows in order; long rows as consecutive chunks.
inline std::vector<chunk> make_chunks(const std::vector<std::int32_t>& offsets) {
  std::vector<chunk> chunks;
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    const auto begin = offsets[r], end = offsets[r + 1];
    const bool shared = end - begin > chunk_edges;
    for (auto b = begin; b == begin || b < end; b += chunk_edges) {
      chunks.push_back({static_cast<std::int32_t>(r), b, std::min(end, b + chunk_edges), shared});
    }
  }
  return chunks;
}

/// F features in fp32; each lane holds F / 128 float4, or half a warp an edge when F is 64.
template <int F, int Unroll>
__global__ void __launch_bounds__(256) row_kernel(const chunk* chunks, int count, const int* indices,
                                                  const float* x, float* y) {
  constexpr int lanes = F / 4 < 32 ? F / 4 : 32;
  constexpr int vectors = F / 4 / lanes;
  constexpr int parts = 32 / lanes;
  const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (warp >= count) return;
  const chunk c = chunks[warp];
  const int lane = threadIdx.x % lanes;
  const int part = threadIdx.x % 32 / lanes;
  float4 sum[vectors];
#pragma unroll
  for (int v = 0; v < vectors; ++v) sum[v] = make_float4(0, 0, 0, 0);
  for (int k = c.begin + part; k < c.end; k += parts * Unroll) {
    float4 row[Unroll][vectors];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      const int edge = k + u * parts;
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        row[u][v] = edge < c.end
                        ? __ldg(reinterpret_cast<const float4*>(x + static_cast<std::int64_t>(indices[edge]) * F) +
                                lane + v * lanes)
                        : make_float4(0, 0, 0, 0);
      }
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        sum[v].x += row[u][v].x;
        sum[v].y += row[u][v].y;
        sum[v].z += row[u][v].z;
        sum[v].w += row[u][v].w;
      }
    }
  }
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    for (int offset = lanes; offset < 32; offset *= 2) {
      sum[v].x += __shfl_xor_sync(0xffffffffu, sum[v].x, offset);
      sum[v].y += __shfl_xor_sync(0xffffffffu, sum[v].y, offset);
      sum[v].z += __shfl_xor_sync(0xffffffffu, sum[v].z, offset);
      sum[v].w += __shfl_xor_sync(0xffffffffu, sum[v].w, offset);
    }
    if (part != 0) continue;
    float* to = y + static_cast<std::int64_t>(c.row) * F + (lane + v * lanes) * 4;
    if (c.shared) {
      atomicAdd(to, sum[v].x);
      atomicAdd(to + 1, sum[v].y);
      atomicAdd(to + 2, sum[v].z);
      atomicAdd(to + 3, sum[v].w);
    } else {
      *reinterpret_cast<float4*>(to) = sum[v];
    }
  }
}

/// Clears the output if any row is cut, then one launch. F must be 64, 128 or 256.
template <int F>
void sum_rows(const chunk* chunks, int count, bool any_shared, const int* indices, const float* x,
              float* y, std::int64_t rows, cudaStream_t stream) {
  if (any_shared) (void)cudaMemsetAsync(y, 0, static_cast<std::size_t>(rows) * F * sizeof(float), stream);
  constexpr int unroll = F == 256 ? 2 : 4;
  const int blocks = (count + 7) / 8;
  row_kernel<F, unroll><<<blocks, 256, 0, stream>>>(chunks, count, indices, x, y);
}

}  // namespace yardstick
