// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/attention_programs.hpp"
#include "quipu/engine/device_engine.cuh"

namespace quipu::detail {

/// Sum or maximum over the threads of a block, for all of them; `room` holds a number a warp.
template <class A, class Fold>
__device__ A fold_block(A x, A* room, const Fold& fold) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fold(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  x = room[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) x = fold(x, room[w]);
  return x;
}

template <int Threads, class A, class I, class O, class LogitPart>
__device__ void write_row_alpha(const csr_view<I, O>& csr, std::int64_t row, std::int64_t head,
                                A* alpha, std::int64_t alpha_stride, A* room,
                                const dropout_mask<A>& dropout, const LogitPart& logit_part) {
  const std::int64_t begin = csr.offsets[row], end = csr.offsets[row + 1];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  A* at = alpha + head;
  A largest = -static_cast<A>(INFINITY);
  for (auto edge = begin + warp; edge < end; edge += Threads / 32) {
    const A logit = sum_group<32>(logit_part(lane, row, csr.indices[edge], edge, head));
    if (lane == 0) at[edge * alpha_stride] = logit;
    largest = logit > largest ? logit : largest;
  }
  largest = fold_block(largest, room, [](A x, A y) { return x > y ? x : y; });
  const A base = is_minus_infinity(largest) ? A{0} : largest;
  A total{0};
  for (auto edge = begin + static_cast<int>(threadIdx.x); edge < end; edge += Threads) {
    const A weight = quick_exp2((at[edge * alpha_stride] - base) * log2_of_e<A>);
    at[edge * alpha_stride] = weight;
    total += weight;
  }
  total = fold_block(total, room, [](A x, A y) { return x + y; });
  const A inverse = total == A{0} ? A{0} : A{1} / total;
  for (auto edge = begin + static_cast<int>(threadIdx.x); edge < end; edge += Threads) {
    at[edge * alpha_stride] *= inverse * dropout(edge, head);
  }
}

/// alpha of every edge of a row and head, made anew from the operands by the formula, so that the
/// pass that makes outputs carries nothing for it, and so that the alphas of a row, dropout aside,
/// sum to 1. A block for each row and head: its warps take edges in turn, then its threads.
/// `logit_part(lane, row, column, edge, head)` is a lane's part of a logit.
template <int Threads, class A, class I, class O, class LogitPart>
__global__ void __launch_bounds__(Threads)
    write_alpha(const csr_view<I, O> csr, std::int64_t heads, A* alpha, std::int64_t alpha_stride,
                const dropout_mask<A> dropout, const LogitPart logit_part) {
  __shared__ A room[Threads / 32];
  for (std::int64_t work = blockIdx.x; work < csr.rows * heads; work += gridDim.x) {
    write_row_alpha<Threads>(csr, work / heads, work % heads, alpha, alpha_stride, room, dropout,
                             logit_part);
  }
}

template <element T>
struct gatv2_logit {
  using A = accumulator<T>;
  head_matrix<T> target, source;
  const T* attention;
  std::int64_t attention_stride, dim;
  A slope;
  __device__ A operator()(int lane, std::int64_t row, std::int64_t column, std::int64_t,
                          std::int64_t head) const {
    const T *l = target.head_of(row, head), *r = source.head_of(column, head);
    const T* a = attention + head * attention_stride;
    A part{0};
    for (std::int64_t f = lane; f < dim; f += 32) {
      const A x = widen(l[f]) + widen(r[f]);
      part += widen(a[f]) * leaky_relu(x, slope);
    }
    return part;
  }
};

template <element T>
struct transformer_logit {
  using A = accumulator<T>;
  head_matrix<T> query, key;
  std::int64_t dim;
  A scale;
  const A* bias;  // null: none
  std::int64_t bias_stride;
  __device__ A operator()(int lane, std::int64_t row, std::int64_t column, std::int64_t edge,
                          std::int64_t head) const {
    const T *q = query.head_of(row, head), *k = key.head_of(column, head);
    A part{0};
    for (std::int64_t f = lane; f < dim; f += 32) part += widen(q[f]) * widen(k[f]);
    part *= scale;
    return lane == 0 && bias != nullptr ? part + bias[edge * bias_stride + head] : part;
  }
};

template <element T>
struct gat_logit {
  using A = accumulator<T>;
  const T* target_score;
  std::int64_t target_score_stride;
  const T* source_score;
  std::int64_t source_score_stride;
  A slope;
  __device__ A operator()(int lane, std::int64_t row, std::int64_t column, std::int64_t,
                          std::int64_t head) const {
    if (lane != 0) return A{0};
    const A x = widen(target_score[row * target_score_stride + head]) +
                widen(source_score[column * source_score_stride + head]);
    return leaky_relu(x, slope);
  }
};

}  // namespace quipu::detail
