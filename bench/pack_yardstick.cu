// SPDX-License-Identifier: Apache-2.0
#include "pack_yardstick.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <bit>

namespace yardstick {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}
__device__ std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// 64 even bits (splitmix64).
__device__ std::uint64_t draw(std::uint64_t seed, std::int64_t k) {
  std::uint64_t z = (seed << 40) + static_cast<std::uint64_t>(k + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Box and Muller's transform of two numbers in (0, 1).
__device__ float normal_of(std::uint64_t bits) {
  constexpr float step = 1.0f / 16777216.0f;
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * step;
  const float v = (static_cast<float>(bits & 0xffffff) + 0.5f) * step;
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

__device__ float number_of(numbers what, std::uint64_t bits) {
  switch (what) {
    case numbers::small_normal:
      return 0.02f * normal_of(bits);
    case numbers::relu:
      return fmaxf(normal_of(bits), 0.0f);
    case numbers::ones:
      return bits % 50 == 0 ? 1.0f : 0.0f;
    case numbers::once_fp16:
      return __half2float(__float2half_rn(normal_of(bits)));
    default:
      return normal_of(bits);
  }
}

__device__ void put(float* to, float x) { *to = x; }
__device__ void put(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }

template <class T>
__global__ void numbers_kernel(numbers what, T* to, std::int64_t count, std::uint64_t seed) {
  const auto k = thread_number();
  if (k < count) put(to + k, number_of(what, draw(seed, k)));
}

__global__ void ids_kernel(std::int32_t* to, std::int64_t count, std::int64_t rows,
                           std::uint64_t seed) {
  const auto k = thread_number();
  if (k >= count) return;
  to[k] = static_cast<std::int32_t>((draw(seed, k) >> 32) * static_cast<std::uint64_t>(rows) >> 32);
}

/// Rows of 2^shift vectors. Two blocks a multiprocessor, or the compiler would rather have all of
/// them than all loads in flight.
template <int Depth>
__global__ void __launch_bounds__(threads, 2)
    gather_kernel(const uint4* rows, int shift, const std::int32_t* ids, std::int64_t vectors,
                  uint4* out) {
  constexpr int piece = 32 * Depth;
  const std::int64_t mask = (std::int64_t{1} << shift) - 1;
  const auto source = [&](std::int64_t k) {
    return rows + (static_cast<std::int64_t>(__ldg(ids + (k >> shift))) << shift) + (k & mask);
  };
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / 32) * piece + threadIdx.x % 32;
  for (auto at = first; at < vectors; at += static_cast<std::int64_t>(gridDim.x) * warps * piece) {
    if (at - threadIdx.x % 32 + piece > vectors) {
      for (auto k = at; k < vectors; k += 32) out[k] = __ldg(source(k));
      return;
    }
    const uint4* from[Depth];
#pragma unroll
    for (int d = 0; d < Depth; ++d) from[d] = source(at + d * 32);
    uint4 taken[Depth];
#pragma unroll
    for (int d = 0; d < Depth; ++d) taken[d] = __ldg(from[d]);
#pragma unroll
    for (int d = 0; d < Depth; ++d) __stcs(out + at + d * 32, taken[d]);
  }
}

template <int Depth>
void launch_gather(const uint4* rows, int shift, const std::int32_t* ids, std::int64_t vectors,
                   uint4* out, int blocks, cudaStream_t stream) {
  constexpr std::int64_t of_block = warps * 32 * Depth;
  const auto all = static_cast<int>((vectors + of_block - 1) / of_block);
  if (all == 0) return;
  gather_kernel<Depth>
      <<<static_cast<unsigned>(blocks > 0 ? std::min(blocks, all) : all), threads, 0, stream>>>(
          rows, shift, ids, vectors, out);
}

__global__ void differences_kernel(const uint4* a, const uint4* b, std::int64_t vectors,
                                   unsigned long long* found) {
  unsigned here = 0;
  for (auto k = thread_number(); k < vectors;
       k += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const uint4 x = a[k], y = b[k];
    here += x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
  }
  if (here > 0) atomicAdd(found, static_cast<unsigned long long>(here));
}

}  // namespace

void fill_numbers(numbers what, float* to, std::int64_t count, std::uint64_t seed,
                  cudaStream_t stream) {
  numbers_kernel<<<blocks_for(count), threads, 0, stream>>>(what, to, count, seed);
}
void fill_numbers(numbers what, __nv_bfloat16* to, std::int64_t count, std::uint64_t seed,
                  cudaStream_t stream) {
  numbers_kernel<<<blocks_for(count), threads, 0, stream>>>(what, to, count, seed);
}

void fill_ids(std::int32_t* to, std::int64_t count, std::int64_t rows, std::uint64_t seed,
              cudaStream_t stream) {
  ids_kernel<<<blocks_for(count), threads, 0, stream>>>(to, count, rows, seed);
}

void gather(const void* rows, std::int64_t row_bytes, const std::int32_t* ids, std::int64_t count,
            void* out, gather_launch how, cudaStream_t stream) {
  const auto of_row = static_cast<std::uint64_t>(row_bytes / 16);
  const int shift = std::countr_zero(of_row);
  const auto vectors = count << shift;
  const auto* from = static_cast<const uint4*>(rows);
  auto* to = static_cast<uint4*>(out);
  if (how.depth == 4) {
    launch_gather<4>(from, shift, ids, vectors, to, how.blocks, stream);
  } else {
    launch_gather<8>(from, shift, ids, vectors, to, how.blocks, stream);
  }
}

void count_differences(const void* a, const void* b, std::int64_t bytes, unsigned long long* found,
                       cudaStream_t stream) {
  (void)cudaMemsetAsync(found, 0, sizeof *found, stream);
  differences_kernel<<<1056, threads, 0, stream>>>(static_cast<const uint4*>(a),
                                                   static_cast<const uint4*>(b), bytes / 16, found);
}

}  // namespace yardstick
