// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "graph/scratch.hpp"

/// How make_* calls start kernels of one thread an item, call CUB, and read results back.
namespace quipu::detail {

inline constexpr int block_threads = 256;

__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

template <class Kernel, class... Args>
void enqueue_blocks(const context& ctx, Kernel kernel, std::int64_t blocks, const Args&... args) {
  if (blocks == 0) return;
  kernel<<<static_cast<unsigned>(blocks), block_threads, 0, ctx.stream>>>(args...);
  require(cudaGetLastError(), "graph: kernel launch");
}

/// Starts a thread for each item, in whole blocks.
template <class Kernel, class... Args>
void enqueue(const context& ctx, Kernel kernel, std::int64_t items, const Args&... args) {
  enqueue_blocks(ctx, kernel, (items + block_threads - 1) / block_threads, args...);
}

/// Calls a CUB algorithm twice: for its scratch size, then for its work.
template <class Call>
void run_cub(const context& ctx, Call&& call) {
  std::size_t bytes = 0;
  require(call(nullptr, bytes), "graph: scratch size");
  auto temporary = require(scratch<char>::make(ctx, static_cast<std::int64_t>(bytes)));
  require(call(temporary.data(), bytes), "graph: sort, scan or select");
}

template <class T>
T read_back(const context& ctx, const T* from) {
  T value{};
  require(cudaMemcpyAsync(&value, from, sizeof(T), cudaMemcpyDeviceToHost, ctx.stream),
          "graph: read back");
  require(cudaStreamSynchronize(ctx.stream), "graph: read back");
  return value;
}

/// Two values of the device, for one wait.
template <class A, class B>
std::pair<A, B> read_back(const context& ctx, const A* a, const B* b) {
  std::pair<A, B> values{};
  require(cudaMemcpyAsync(&values.first, a, sizeof(A), cudaMemcpyDeviceToHost, ctx.stream),
          "graph: read back");
  values.second = read_back(ctx, b);
  return values;
}

}  // namespace quipu::detail
