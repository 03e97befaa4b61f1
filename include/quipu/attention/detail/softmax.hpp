// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "quipu/attention/dropout.hpp"
#include "quipu/engine/program.hpp"
#include "quipu/lane/group.hpp"
#include "quipu/lane/vector.hpp"
#include "quipu/math/exp2.hpp"

namespace quipu::detail {

/// A softmax over edges under way: with w(k) = 2^(exponent(k) - base), the sums of w(k) * value,
/// less what is dropped, and of w(k). An exponent is a logit in powers of 2. It is never rounded by
/// itself: exponent(k) - base is one fused multiply-add of a dot product, so that logits of 1000
/// weigh as exactly as logits of 1. Two states merge without a third pass, in any grouping.
template <class A, int Elements>
struct softmax_state {
  A sum[Elements];
  A base;   // within `slack` of the largest exponent so far; the same in all lanes
  A total;  // this lane's part of the sum of weights
};

/// A logit as the loop has it: (dot * unit + shift) powers of 2.
template <class A>
struct exponent_of {
  A unit, shift;
  QUIPU_HD A operator()(A dot) const { return fma(dot, unit, shift); }
  QUIPU_HD A above(A dot, A base) const { return fma(dot, unit, shift - base); }
};

/// The dot product of any edge is the natural logit itself.
template <class A>
struct natural_logit {
  template <class Edge>
  QUIPU_HD exponent_of<A> operator()(Edge) const {
    return {log2_of_e<A>, A{0}};
  }
};

/// Sums are rescaled only when an exponent exceeds `base` by more than this: weights stay below
/// 2^8.
template <class A>
inline constexpr A slack = 8;

template <class A>
QUIPU_HD inline bool is_minus_infinity(A x) {
  return x == -static_cast<A>(INFINITY);
}

/// What weights are relative to. With exponents of -inf alone, 0: their weights are 0, not NaN.
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
/// together from x and |x|. Then the sum of weights is NaN, and the slice is walked again, edge by
/// edge.
///
/// `Drops` programs have dropout. `Wide` programs do heads that no tile holds, part by part: each
/// part makes the whole logit, from memory where it is not the part's own.
template <element T, node_index I, bool Wide, bool Drops>
struct softmax_program {
  using A = accumulator<T>;
  static constexpr bool by_heads = true;
  // The mask takes registers that lay-outs were not measured with.
  static constexpr bool bounds_blocks = !Drops;
  template <class Tile>
  using state = softmax_state<A, Tile::elements>;

  softmax_outputs<T> out;
  const I* indices;
  dropout_mask<A> dropout;

#ifdef __CUDACC__
  template <class Tile>
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
    const A f = quick_exp2(s.base - base), g = quick_exp2(next.base - base);
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = f * s.sum[i] + g * next.sum[i];
    s.total = f * s.total + g * next.total;
    s.base = higher;
  }

  template <class Tile>
  __device__ void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                         state<Tile> s) const {
    const A total = sum_group<Tile::lanes>(s.total);
    const A inverse = total == A{0} ? A{0} : A{1} / total;
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] *= inverse;
    const auto r = static_cast<std::int64_t>(row.row);
    store_fragment(at, out.output + r * out.row_stride + at.head * out.head_stride, s.sum,
                   out.hint);
    if (out.logsumexp != nullptr && at.origin == 0) {
      out.logsumexp[r * out.logsumexp_stride + at.head] =
          total == A{0} ? -static_cast<A>(INFINITY) : (s.base + log2(total)) * natural_log_of_2<A>;
    }
  }

 protected:
  /// Folds a batch. Lane l has the dot products of the edges group_sum<lanes, size>::first(l) and
  /// on; `exponent(h)` says what they mean.
  template <class Tile, class Batch, class Exponent, class Value, int Held>
  __device__ void fold(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch,
                       A (&dot)[Held], const Exponent& exponent, const Value& value) const {
    using slots = group_sum<Tile::lanes, Batch::size>;
    static_assert(Held == slots::held);
    const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
    A most = -static_cast<A>(INFINITY);
#pragma unroll
    for (int h = 0; h < Held; ++h) {
      const A x = exponent(h)(dot[h]);
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
      const A w = quick_exp2(exponent(h).above(dot[h], base));
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

  /// If the sum of weights became NaN, walks the slice again. `dot_part(column)` gives this lane's
  /// part of a dot product, by the formula, `exponent(edge)` says what it means, and `add(column,
  /// weight)` adds a sender's row.
  template <class Tile, class DotPart, class Exponent, class Add>
  __device__ void walk_again(const lane_position<Tile>& at, state<Tile>& s,
                             const slice_edges& edges, const DotPart& dot_part,
                             const Exponent& exponent, const Add& add) const {
    if (!__any_sync(group_mask<Tile::lanes>(), s.total != s.total)) return;
    const bool first = threadIdx.x % Tile::lanes == 0;
    s = nothing<Tile>();
#pragma unroll 1
    for (auto edge = edges.first_edge; edge < edges.first_edge + edges.count; ++edge) {
      const auto column = static_cast<std::int64_t>(indices[edge]);
      const A dot = sum_group<Tile::lanes>(dot_part(column));
      const auto means = exponent(edge);
      raise<Tile>(s, means(dot));
      const A w = quick_exp2(means.above(dot, weight_base(s.base)));
      if (first) s.total += w;
      if constexpr (Drops) {
        add(column, w * dropout(edge, at.head));
      } else {
        add(column, w);
      }
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
    const A f = quick_exp2(s.base - most);
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] *= f;
    s.total *= f;
    s.base = most;
  }
#endif
};

}  // namespace quipu::detail
