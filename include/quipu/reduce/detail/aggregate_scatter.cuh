// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "quipu/engine/device_engine.cuh"
#include "quipu/reduce/detail/aggregate_backward_program.hpp"

namespace quipu::detail {

/// Gradients seen on the device, all bits zero before the first. Positive floats order like their
/// bits, so both ends are plain integer maxima.
struct gradient_range {
  std::uint32_t largest;           // bits of max |g|
  std::uint32_t smallest_flipped;  // flipped bits of the least |g| > 0
  std::uint32_t not_finite;
  std::uint32_t arrived;  // blocks done
  std::uint32_t fits;     // 1: fixed point holds every addend well enough
  std::int32_t shift;     // g is stored as round(g * 2^shift)
};

struct fixed_point {
  unsigned long long* sums = nullptr;  // [columns * features], two's complement
  gradient_range* range = nullptr;
  const std::uint32_t* fits = nullptr;  // range->fits
  std::size_t bytes = 0;                // sums and range, from `sums` on
};

inline fixed_point carve_fixed_point(arena& scratch, std::int64_t columns, std::int64_t features) {
  constexpr std::int64_t word = sizeof(unsigned long long);
  constexpr std::int64_t tail = (sizeof(gradient_range) + word - 1) / word;
  const auto count = columns * features;
  fixed_point f;
  f.sums = scratch.take<unsigned long long>(count + tail);
  if (f.sums != nullptr) {
    f.range = reinterpret_cast<gradient_range*>(f.sums + count);
    f.fits = &f.range->fits;
  }
  f.bytes = static_cast<std::size_t>(count + tail) * word;
  return f;
}

constexpr int scatter_rows = 8;  // of a block; 32 lanes a row
inline dim3 scatter_grid(std::int64_t rows) {
  return dim3(static_cast<unsigned>((rows + scatter_rows - 1) / scatter_rows));
}
constexpr int scatter_threads = 32 * scatter_rows;

__device__ inline std::int64_t scatter_row() {
  return static_cast<std::int64_t>(blockIdx.x) * scatter_rows + threadIdx.x / 32;
}

/// 2^62 bounds the sum; at most `most_addends` of them meet, each below 2^(exponent of max + 1).
__device__ inline void decide(gradient_range& r, int addend_bits) {
  r.shift = 0;
  r.fits = r.not_finite == 0;
  if (r.not_finite != 0 || r.largest == 0) return;  // no scale at all, or nothing but zeros
  const int top = ilogbf(__uint_as_float(r.largest)) + 1;
  const int bottom = ilogbf(__uint_as_float(~r.smallest_flipped));
  r.shift = 62 - addend_bits - top;
  r.fits = bottom + r.shift >= 16;
}

/// Rows without edges send no gradient, so theirs does not count.
template <class T, class O>
__global__ void range_kernel(const T* gradient, std::int64_t row_stride, const O* offsets,
                             std::int64_t rows, std::int64_t features, int addend_bits,
                             gradient_range* range) {
  std::uint32_t largest = 0, smallest_flipped = 0;
  bool not_finite = false;
  const std::int64_t rows_at_once = static_cast<std::int64_t>(gridDim.x) * scatter_rows;
  for (auto row = scatter_row(); row < rows; row += rows_at_once) {
    if (offsets[row] == offsets[row + 1]) continue;
    for (std::int64_t f = threadIdx.x % 32; f < features; f += 32) {
      const float g = fabsf(widen(gradient[row * row_stride + f]));
      const std::uint32_t bits = __float_as_uint(g);
      not_finite |= !(g <= 3.402823466e38f);
      largest = max(largest, bits);
      if (g > 0.0f) smallest_flipped = max(smallest_flipped, ~bits);
    }
  }
  largest = __reduce_max_sync(0xffffffffu, largest);
  smallest_flipped = __reduce_max_sync(0xffffffffu, smallest_flipped);
  not_finite = __any_sync(0xffffffffu, not_finite);
  if (threadIdx.x % 32 == 0) {
    atomicMax(&range->largest, largest);
    atomicMax(&range->smallest_flipped, smallest_flipped);
    if (not_finite) atomicOr(&range->not_finite, 1u);
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (atomicAdd(&range->arrived, 1u) + 1 != gridDim.x) return;
  __threadfence();
  gradient_range seen{};
  seen.largest = atomicMax(&range->largest, 0u);
  seen.smallest_flipped = atomicMax(&range->smallest_flipped, 0u);
  seen.not_finite = atomicOr(&range->not_finite, 0u);
  decide(seen, addend_bits);
  range->shift = seen.shift;
  range->fits = seen.fits;
}

/// Adds in fp32, in whatever order the atomics come.
struct float_target {
  float* data;
  std::int64_t row_stride;
  __device__ bool open() const { return true; }
  __device__ void add(std::int64_t row, std::int64_t feature, float g) const {
    atomicAdd(data + row * row_stride + feature, g);
  }
};
/// Adds integers: any order gives the same bits.
struct fixed_target {
  unsigned long long* data;
  std::int64_t row_stride;
  const gradient_range* range;
  __device__ bool open() const { return range->fits != 0; }
  __device__ void add(std::int64_t row, std::int64_t feature, float g) const {
    const auto q = __double2ll_rn(scalbn(static_cast<double>(g), range->shift));
    atomicAdd(data + row * row_stride + feature, static_cast<unsigned long long>(q));
  }
};

/// A warp a receiving row: each winner adds its gradient to its sender. Lanes own neighbouring
/// features, so that neighbours with one winner share a sector; four features a lane are in flight,
/// and all their senders are known before the first atomic.
template <class T, class I, class O, class Target>
__global__ void __launch_bounds__(scatter_threads)
    scatter_kernel(const T* gradient, std::int64_t row_stride, const argument_view argument,
                   const O* offsets, const I* indices, Target target) {
  constexpr int unroll = 4;
  wait_for_primary();
  const auto row = scatter_row();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= argument.rows || !target.open()) return;
  const O begin = offsets[row];
  const std::int64_t degree = offsets[row + 1] - begin;
  if (degree == 0) return;
  const I* ids = indices + begin;
  const auto features = argument.features;
  const bool wide = wide_rows_view::is_wide(degree);
  const std::uint8_t* low = argument.low + row * features;
  const std::uint32_t* words = wide ? argument.wide + argument.rank[row] * features : nullptr;
  const T* g = gradient + row * row_stride;
  for (std::int64_t f = lane; f < features; f += 32 * unroll) {
    std::int64_t sender[unroll];
    float value[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (f + 32 * u >= features) continue;
      sender[u] = wide ? words[f + 32 * u] : low[f + 32 * u];
      value[u] = widen(g[f + 32 * u]);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (!wide && f + 32 * u < features) sender[u] = ids[sender[u]];
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (f + 32 * u < features) target.add(sender[u], f + 32 * u, value[u]);
    }
  }
}

template <class T>
__global__ void from_fixed_kernel(const unsigned long long* sums, const gradient_range* range,
                                  T* output, std::int64_t row_stride, std::int64_t rows,
                                  std::int64_t features) {
  wait_for_primary();
  const auto row = scatter_row();
  if (row >= rows || range->fits == 0) return;
  for (std::int64_t f = threadIdx.x % 32; f < features; f += 32) {
    const auto sum = static_cast<double>(static_cast<long long>(sums[row * features + f]));
    output[row * row_stride + f] = narrow<T>(static_cast<float>(scalbn(sum, -range->shift)));
  }
}

template <class T>
__global__ void from_float_kernel(const float* sums, T* output, std::int64_t row_stride,
                                  std::int64_t rows, std::int64_t features) {
  const auto row = scatter_row();
  if (row >= rows) return;
  for (std::int64_t f = threadIdx.x % 32; f < features; f += 32) {
    output[row * row_stride + f] = narrow<T>(sums[row * features + f]);
  }
}

template <class T, class I, class O, class Target>
status launch_scatter(const context& ctx, const aggregate_backward_args<T, I, O>& a,
                      const Target& target, start when) {
  if (a.graph.rows() == 0 || a.grad_input.extent(1) == 0) return success();
  return launch(ctx, scatter_kernel<T, I, O, Target>, scatter_grid(a.graph.rows()), scatter_threads,
                when, a.grad_output.data_handle(), a.grad_output.stride(0), a.argument,
                a.graph.forward.csr.offsets, a.graph.forward.csr.indices, target);
}

/// Clears a row-major matrix; in one piece when it is packed, which is quicker than row by row.
template <class T>
status clear_rows(const context& ctx, T* data, std::int64_t row_stride, std::int64_t rows,
                  std::int64_t features) {
  const auto row_bytes = static_cast<std::size_t>(features) * sizeof(T);
  const auto count = static_cast<std::size_t>(rows);
  return from_cuda(row_stride == features || rows <= 1
                       ? cudaMemsetAsync(data, 0, row_bytes * count, ctx.stream)
                       : cudaMemset2DAsync(data, static_cast<std::size_t>(row_stride) * sizeof(T),
                                           0, row_bytes, count, ctx.stream),
                   "grad_input: clearing");
}

/// determinism::any: float atomics, straight into an fp32 gradient, through scratch for 16 bits.
template <class T, class I, class O>
status scatter_atomically(const context& ctx, const aggregate_backward_args<T, I, O>& a,
                          arena& scratch, bool count_only) {
  const auto features = a.grad_input.extent(1);
  const auto columns = a.graph.columns();
  T* out = a.grad_input.data_handle();
  const auto stride = a.grad_input.stride(0);
  float_target target{nullptr, features};
  if constexpr (std::is_same_v<T, float>) {
    target = {out, stride};
  } else {
    target.data = scratch.template take<float>(columns * features);
  }
  if (count_only) return success();
  if (columns == 0 || features == 0) return success();
  auto s = clear_rows(ctx, target.data, target.row_stride, columns, features);
  if (s.ok()) s = launch_scatter(ctx, a, target, start::in_order);
  if constexpr (!std::is_same_v<T, float>) {
    if (s.ok()) {
      s = launch(ctx, from_float_kernel<T>, scatter_grid(columns), scatter_threads, start::in_order,
                 static_cast<const float*>(target.data), out, stride, columns, features);
    }
  }
  return s;
}

/// run_to_run: clears, finds the range, adds in fixed point, converts. If the range does not fit,
/// the kernels let the gradient be and leave `fits` at 0 for the gather.
template <class T, class I, class O>
status scatter_in_fixed_point(const context& ctx, const aggregate_backward_args<T, I, O>& a,
                              const fixed_point& fixed) {
  const auto features = a.grad_input.extent(1);
  const auto columns = a.graph.columns();
  if (columns == 0 || features == 0) return success();
  int addend_bits = 1;
  while ((std::int64_t{1} << addend_bits) <= a.graph.reverse.degrees.max_degree) ++addend_bits;
  auto s = from_cuda(cudaMemsetAsync(fixed.sums, 0, fixed.bytes, ctx.stream), "scratch: clearing");
  if (!s.ok() || a.graph.rows() == 0) return s;
  const std::int64_t row_blocks = (a.graph.rows() + scatter_rows - 1) / scatter_rows;
  const std::int64_t range_blocks = std::min<std::int64_t>(row_blocks, 4 * ctx.multiprocessors);
  s = launch(ctx, range_kernel<T, O>, dim3(static_cast<unsigned>(range_blocks)), scatter_threads,
             start::in_order, a.grad_output.data_handle(), a.grad_output.stride(0),
             a.graph.forward.csr.offsets, a.graph.rows(), features, addend_bits, fixed.range);
  if (s.ok())
    s = launch_scatter(ctx, a, fixed_target{fixed.sums, features, fixed.range}, start::early);
  if (!s.ok()) return s;
  return launch(ctx, from_fixed_kernel<T>, scatter_grid(columns), scatter_threads, start::early,
                static_cast<const unsigned long long*>(fixed.sums),
                static_cast<const gradient_range*>(fixed.range), a.grad_input.data_handle(),
                a.grad_input.stride(0), columns, features);
}

/// A gather costs by the edge, a scatter by the row and the sender. In any order the scatter is one
/// atomic an element and won on every graph tried; with the same bits every run it also clears,
/// converts and looks at the range, and a gather is quicker below about ten edges a node (H200,
/// 2026-11, quipu_bench_reduce, max_backward_gather against max_backward_scatter).
template <class T, class I, class O>
bool prefers_scatter(const context& ctx, const aggregate_backward_args<T, I, O>& a) {
  if (a.method != backward_method::automatic) return a.method == backward_method::scatter;
  if (ctx.repeat == determinism::any) return true;
  return a.graph.edges() > 5 * (a.graph.rows() + a.graph.columns());
}

}  // namespace quipu::detail
