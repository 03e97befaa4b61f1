// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "quipu/attention/dropout.hpp"
#include "quipu/engine/program.hpp"
#include "quipu/lane/group.hpp"
#include "quipu/lane/vector.hpp"
#include "quipu/math/exp2.hpp"

namespace quipu::detail {

/// A softmax over edges under way: with w(k) = exp(logit(k) - base), the sums of w(k) * value, less
/// what is dropped, and of w(k). Two states merge without a third pass, in any grouping.
template <class A, int Elements>
struct softmax_state {
  A sum[Elements];
  A base;   // within `slack` of the largest logit so far; the same in all lanes
  A total;  // this lane's part of the sum of weights
};

/// What a dot product means: the logit itself, and how far it is above another, in powers of 2.
template <class A>
struct plain_logit {
  QUIPU_HD A operator()(A dot) const { return dot; }
  QUIPU_HD A above(A dot, A base) const { return (dot - base) * log2_of_e<A>; }
};
/// dot * scale + bias, which is not rounded by itself before `base` is taken away, so that logits
/// of 1000 weigh as exactly as logits of 1; unless it is so large that the rounding of `base` would
/// be taken for a difference.
template <class A>
struct scaled_logit {
  A scale, bias;
  QUIPU_HD A operator()(A dot) const { return fma(dot, scale, bias); }
  QUIPU_HD A above(A dot, A base) const {
    const A rounded = fma(dot, scale, bias) - base;
    const A difference = fma(dot, scale, bias - base);
    return (fabs(base) > A{1 << 24} ? rounded : difference) * log2_of_e<A>;
  }
};

/// The dot product of any edge is its logit.
template <class A>
struct dot_is_logit {
  template <class Edge>
  QUIPU_HD plain_logit<A> operator()(Edge) const {
    return {};
  }
};

/// Sums are rescaled only when a logit exceeds `base` by more than this: weights stay below 2^8.
template <class A>
inline constexpr A slack = static_cast<A>(5.5);

template <class A>
QUIPU_HD inline A quick_exp(A x) {
  return quick_exp2(x * log2_of_e<A>);
}

template <class A>
QUIPU_HD inline bool is_minus_infinity(A x) {
  return x == -static_cast<A>(INFINITY);
}

/// What weights are relative to. With logits of -inf alone, 0: their weights are 0, not NaN.
template <class A>
QUIPU_HD inline A weight_base(A base) {
  return is_minus_infinity(base) ? A{0} : base;
}

/// Where a softmax leaves its results.
template <element T>
struct softmax_outputs {
  using A = accumulator<T>;
  T* output;
  std::int64_t row_stride, head_stride;
  A* logsumexp;  // null: not wanted
  std::int64_t logsumexp_stride;
  store_hint hint = store_hint::keep;
};

/// What all attention programs have in common: states, how they merge, and what they write.
///
/// The loop over edges takes the quickest way to a logit, which goes wrong where a row holds
/// infinities: a lane without features multiplies zeros with another's, and leaky(x) is put
/// together from x and |x|. Then the sum of weights is NaN, and the slice is walked again with
/// care.
///
/// `Drops` programs have dropout. `Wide` programs do heads that no tile holds, part by part: each
/// part makes the whole logit, from memory where it is not the part's own.
template <element T, bool Wide, bool Drops>
struct softmax_program {
  using A = accumulator<T>;
  static constexpr bool by_heads = true;
  // The mask takes registers that lay-outs were not measured with.
  static constexpr bool bounds_blocks = !Drops;
  template <class Tile>
  using state = softmax_state<A, Tile::elements>;

  softmax_outputs<T> out;
  dropout_mask<A> dropout;

#ifdef __CUDACC__
  template <class Tile, class I>
  __device__ state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    return nothing<Tile>();
  }
  template <class Tile>
  static __device__ state<Tile> nothing() {
    state<Tile> s;
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = A{0};
    s.base = -static_cast<A>(INFINITY);
    s.total = A{0};
    return s;
  }

  template <class Tile>
  __device__ void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    const A higher = s.base > next.base ? s.base : next.base;
    const A base = weight_base(higher);
    const A f = quick_exp(s.base - base), g = quick_exp(next.base - base);
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = f * s.sum[i] + g * next.sum[i];
    s.total = f * s.total + g * next.total;
    s.base = higher;
  }

  template <class Tile, class I>
  __device__ void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                         state<Tile> s) const {
    const A total = sum_group<Tile::lanes>(s.total);
    const A inverse = total == A{0} ? A{0} : A{1} / total;
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) {
      s.sum[i] = total == A{0} ? A{0} : s.sum[i] * inverse;  // without a weight, whatever rows hold
    }
    const auto r = static_cast<std::int64_t>(row.row);
    store_fragment(at, out.output + r * out.row_stride + at.head * out.head_stride, s.sum,
                   out.hint);
    if (out.logsumexp != nullptr && at.origin == 0) {
      out.logsumexp[r * out.logsumexp_stride + at.head] =
          total == A{0} ? -static_cast<A>(INFINITY) : s.base + log(total);
    }
  }

  /// What programs whose quick way to a logit may go wrong ask after every slice.
  template <class Tile>
  __device__ bool start_again(state<Tile>& s) const {
    if (!any_of_group<Tile::lanes>(s.total != s.total)) return false;
    s = nothing<Tile>();
    return true;
  }

 protected:
  /// Folds a batch. Lane l has the dot products of the edges group_sum<lanes, size>::first(l) and
  /// on; `logit(h)` says what they mean.
  template <class Tile, class Batch, class Logit, class Value, int Held>
  __device__ void fold(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch,
                       A (&dot)[Held], const Logit& logit, const Value& value) const {
    using slots = group_sum<Tile::lanes, Batch::size>;
    static_assert(Held == slots::held);
    const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
    A most = -static_cast<A>(INFINITY);
#pragma unroll
    for (int h = 0; h < Held; ++h) {
      const A x = logit(h)(dot[h]);
      if (batch.valid(slots::first(lane) + h) && x > most) most = x;
    }
#pragma unroll
    for (int offset = Tile::lanes / 2; offset >= slots::copies; offset /= 2) {
      const A other = __shfl_xor_sync(group_mask<Tile::lanes>(), most, offset);
      most = other > most ? other : most;
    }
    raise<Tile>(s, most);
    const A base = weight_base(s.base);
#pragma unroll
    for (int h = 0; h < Held; ++h) {
      const A w = quick_exp2(logit(h).above(dot[h], base));
      dot[h] = batch.valid(slots::first(lane) + h) ? w : A{0};
      s.total += lane % slots::copies == 0 ? dot[h] : A{0};
      if constexpr (Drops) dot[h] *= dropout(batch.edge(slots::first(lane) + h), at.head);
    }
#pragma unroll
    for (int u = 0; u < Batch::size; ++u) {
      const A w = tell_group<Tile::lanes>(dot[u % Held], u / Held * slots::copies);
#pragma unroll
      for (int i = 0; i < Tile::elements; ++i) s.sum[i] += w * value(u, i);
    }
  }

  /// Calls use(position) for the parts of the head that are not this tile's.
  template <class Tile, class Use>
  static __device__ void for_other_parts(const lane_position<Tile>& at, const Use& use) {
    if constexpr (Wide) {
      const auto lane = static_cast<std::int64_t>(threadIdx.x % Tile::lanes) * Tile::width;
      const auto end = lane + Tile::parts(at.features) * Tile::features;
#pragma unroll 1
      for (std::int64_t origin = lane; origin < end; origin += Tile::features) {
        if (origin != at.origin) use(lane_position<Tile>{at.head, origin, at.features});
      }
    }
  }

 private:
  template <class Tile>
  static __device__ void raise(state<Tile>& s, A most) {
    if (!(most > s.base + slack<A>)) return;
    const A f = quick_exp(s.base - most);
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] *= f;
    s.total *= f;
    s.base = most;
  }
#endif
};

}  // namespace quipu::detail
