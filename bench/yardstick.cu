// SPDX-License-Identifier: Apache-2.0
#include "yardstick.hpp"

#include <algorithm>

namespace yardstick {

std::vector<chunk> make_chunks(const std::vector<std::int32_t>& offsets) {
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

namespace {

/// F features in fp32: a warp a row, a float4 a lane. Of 64 features only half the warp has any;
/// the other half rests, or, with `BothHalves`, takes every second edge.
template <int F, int Unroll, bool BothHalves>
__global__ void __launch_bounds__(256)
    row_kernel(const chunk* chunks, int count, const int* indices, const float* x, float* y) {
  constexpr int lanes = F / 4 < 32 ? F / 4 : 32;
  constexpr int vectors = F / 4 / lanes;
  constexpr int parts = BothHalves ? 32 / lanes : 1;
  const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (warp >= count) return;
  const chunk c = chunks[warp];
  const int lane = threadIdx.x % lanes;
  const int part = threadIdx.x % 32 / lanes;
  if (part >= parts) return;
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
        row[u][v] = edge < c.end ? __ldg(reinterpret_cast<const float4*>(
                                             x + static_cast<std::int64_t>(indices[edge]) * F) +
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
    for (int offset = lanes; BothHalves && offset < 32; offset *= 2) {
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

template <int F, int Unroll, bool BothHalves = false>
void launch_rows(const chunk* chunks, int count, const int* indices, const float* x, float* y,
                 cudaStream_t stream) {
  row_kernel<F, Unroll, BothHalves>
      <<<(count + 7) / 8, 256, 0, stream>>>(chunks, count, indices, x, y);
}

template <int F, int Unroll>
__global__ void __launch_bounds__(256)
    two_rows_kernel(const chunk* chunks, int count, const int* receivers, const int* senders,
                    const float* left, const float* right, float* written) {
  constexpr int lanes = F / 4 < 32 ? F / 4 : 32;
  constexpr int vectors = F / 4 / lanes;
  constexpr int parts = 32 / lanes;
  const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (warp >= count) return;
  const chunk c = chunks[warp];
  const int lane = threadIdx.x % lanes;
  const int part = threadIdx.x % 32 / lanes;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int k = c.begin + part; k < c.end; k += parts * Unroll) {
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      const int edge = k + u * parts;
      if (edge >= c.end) continue;
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        const auto at = [&](const float* rows, const int* ids) {
          return __ldg(
              reinterpret_cast<const float4*>(rows + static_cast<std::int64_t>(ids[edge]) * F) +
              lane + v * lanes);
        };
        const float4 a = at(left, receivers), b = at(right, senders);
        sum.x += a.x * b.x;
        sum.y += a.y * b.y;
        sum.z += a.z * b.z;
        sum.w += a.w * b.w;
      }
    }
  }
  reinterpret_cast<float4*>(written)[warp * 32 + threadIdx.x % 32] = sum;
}

__device__ void put(float* to, float x) { *to = x; }
__device__ void put(__half* to, float x) { *to = __float2half(x); }
template <class T>
__global__ void fill_kernel(T* to, std::int64_t count) {
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= count) return;
  const auto bits =
      static_cast<std::uint32_t>(k * 2654435761u) ^ static_cast<std::uint32_t>(k >> 7);
  put(to + k, static_cast<float>(bits >> 8) * (2.0f / 16777216.0f) - 1.0f);
}

__global__ void scatter_kernel(const std::int32_t* winners, const float* gradient, float* result,
                               std::int64_t count, int features) {
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= count) return;
  const std::int32_t sender = winners[k];
  if (sender < 0) return;
  atomicAdd(result + static_cast<std::int64_t>(sender) * features + k % features, gradient[k]);
}

__global__ void hold_kernel(unsigned long long nanoseconds) {
  unsigned long long begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

}  // namespace

void hold(double microseconds, cudaStream_t stream) {
  hold_kernel<<<1, 1, 0, stream>>>(static_cast<unsigned long long>(microseconds * 1000));
}

void sum_rows(int features, const chunk* chunks, int count, const std::int32_t* indices,
              const float* x, float* y, std::int64_t rows, cudaStream_t stream) {
  (void)cudaMemsetAsync(y, 0, static_cast<std::size_t>(rows * features) * sizeof(float), stream);
  if (features == 64) launch_rows<64, 4>(chunks, count, indices, x, y, stream);
  if (features == 128) launch_rows<128, 2>(chunks, count, indices, x, y, stream);
  if (features == 256) launch_rows<256, 2>(chunks, count, indices, x, y, stream);
}

void sum_rows_by_halves(const chunk* chunks, int count, const std::int32_t* indices, const float* x,
                        float* y, std::int64_t rows, cudaStream_t stream) {
  (void)cudaMemsetAsync(y, 0, static_cast<std::size_t>(rows * 64) * sizeof(float), stream);
  launch_rows<64, 2, true>(chunks, count, indices, x, y, stream);
}

void multiply_two_rows(int features, const chunk* chunks, int count, const std::int32_t* receivers,
                       const std::int32_t* senders, const float* left, const float* right,
                       float* written, cudaStream_t stream) {
  const int blocks = (count + 7) / 8;
  const auto run = [&](auto kernel) {
    kernel<<<blocks, 256, 0, stream>>>(chunks, count, receivers, senders, left, right, written);
  };
  if (features == 64) run(two_rows_kernel<64, 4>);
  if (features == 128) run(two_rows_kernel<128, 4>);
  if (features == 256) run(two_rows_kernel<256, 2>);
}

void fill(float* to, std::int64_t count, cudaStream_t stream) {
  fill_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(to, count);
}

void fill_half(__half* to, std::int64_t count, cudaStream_t stream) {
  fill_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(to, count);
}

void scatter_add(const std::int32_t* winners, const float* gradient, float* result,
                 std::int64_t rows, std::int64_t columns, int features, cudaStream_t stream) {
  (void)cudaMemsetAsync(result, 0, static_cast<std::size_t>(columns * features) * sizeof(float),
                        stream);
  const std::int64_t count = rows * features;
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  scatter_kernel<<<blocks, 256, 0, stream>>>(winners, gradient, result, count, features);
}

}  // namespace yardstick
