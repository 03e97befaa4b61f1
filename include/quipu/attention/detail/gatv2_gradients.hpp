// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/gradient_program.hpp"

namespace quipu::detail {

/// How GATv2 makes an edge's logit, on either side: x is the sum of the group's own row and of the
/// one that was fetched.
template <class A>
struct gatv2_edges {
  A slope;

#ifdef __CUDACC__
  template <class Tile>
  using numbers = A[Tile::elements];

  /// Logits and products of a batch: this lane's parts of <attention, leaky(x)> and <own_other,
  /// other row>. `row(u, i)` and `other(u, i)` are what was fetched.
  template <class Tile, class Batch, class Row, class Other>
  __device__ void dots(const Batch&, const numbers<Tile>& own, const numbers<Tile>& attention,
                       const numbers<Tile>& own_other, const Row& row, const Other& other,
                       A (&dot)[2 * Batch::size]) const {
#pragma unroll
    for (int u = 0; u < Batch::size; ++u) {
      dot[2 * u] = quick_leaky_dot(slope, own, attention, [&](int i) { return row(u, i); });
      A product{0};
#pragma unroll
      for (int i = 0; i < Tile::elements; ++i) product += own_other[i] * other(u, i);
      dot[2 * u + 1] = product;
    }
  }

  /// Logits anew by the formula if the quick way made a NaN, as it does of infinities.
  template <class Slots, class Tile, class Batch, class Row>
  __device__ void mend(const lane_position<Tile>& at, const Batch&, const numbers<Tile>& own,
                       const numbers<Tile>& attention, const Row& row,
                       A (&logit)[Slots::held]) const {
    bool wrong = false;
#pragma unroll
    for (int h = 0; h < Slots::held; ++h) wrong = wrong || logit[h] != logit[h];
    if (!__any_sync(group_mask<Tile::lanes>(), wrong)) return;
    const int first = Slots::first(lane_of_group<Tile>());
#pragma unroll
    for (int u = 0; u < Batch::size; ++u) {
      const A whole = sum_group<Tile::lanes>(
          leaky_dot(at, slope, own, attention, [&](int i) { return row(u, i); }));
#pragma unroll
      for (int h = 0; h < Slots::held; ++h) logit[h] = first + h == u ? whole : logit[h];
    }
  }

  /// ds * leaky'(x).
  __device__ A through(A x, A ds, A ds_below) const { return x > A{0} ? ds : ds_below; }
#endif
};

/// The receivers' side of GATv2: d target, the records, and the lane's part of d attention, which
/// is a total over all rows.
template <element T>
struct gatv2_receivers : gradient_program<T, 1>, receivers_half<T> {
  using A = accumulator<T>;
  head_matrix<T> target;
  const T* attention;
  std::int64_t attention_stride;
  gatv2_edges<A> edges;

#ifdef __CUDACC__
  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gatv2_receivers& program;
    A (&total)[Tile::elements];
    softmax_record<A> record;
    A target[Tile::elements];
    A attention[Tile::elements];
    A grad[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, gradient_state<A, Tile::elements, 1>& s,
                          const Batch& batch) const {
      using slots = pair_sums<Tile::lanes, Batch::size>;
      const auto& edges = program.edges;
      const auto row = [&](int u, int i) { return batch.rows[u].value(i); };
      A dot[2 * Batch::size], ds[slots::held], weight[slots::held];
      edges.template dots<Tile>(batch, target, attention, grad, row, row, dot);
      slots::apply(dot, ds, weight);
      edges.template mend<slots>(at, batch, target, attention, row, ds);
      program.template weigh<slots>(at, batch, record, natural_logit<A>{}, ds, weight);
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        const A f = tell_group<Tile::lanes>(ds[slots::slot_of(u)], slots::lane_of(u));
        if (!batch.valid(u) || f == A{0}) continue;
        const A below = f * edges.slope;
#pragma unroll
        for (int i = 0; i < Tile::elements; ++i) {
          const A x = target[i] + row(u, i);
          const A g = edges.through(x, f, below);
          s.sum[0][i] += attention[i] * g;
          total[i] += g * x;
        }
      }
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at, const row_edges<I>& row,
                                       A (&total)[Tile::elements]) const {
    row_program<Tile> r{*this, total, {}, {}, {}, {}};
    read_head(at, target.head_of(row.row, at.head), r.target);
    read_head(at, attention + at.head * attention_stride, r.attention);
    r.record = this->open(at, row.row, r.grad);
    return r;
  }
#endif
};

/// The senders' side: d source = sum of weight * grad_output + ds * attention * leaky'(x).
template <element T, node_index O>
struct gatv2_senders : gradient_program<T, 1>, senders_half<T, O> {
  using A = accumulator<T>;
  head_matrix<T> source;
  const T* attention;
  std::int64_t attention_stride;
  gatv2_edges<A> edges;

#ifdef __CUDACC__
  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gatv2_senders& program;
    A source[Tile::elements];
    A attention[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, gradient_state<A, Tile::elements, 1>& s,
                          const Batch& batch) const {
      using slots = pair_sums<Tile::lanes, Batch::size>;
      const auto& edges = program.edges;
      const auto target = [&](int u, int i) { return batch.rows[u].key.value(i); };
      const auto grad = [&](int u, int i) { return batch.rows[u].value.value(i); };
      const auto found = program.template look_up<slots>(at, batch);
      A ds[slots::held], weight[slots::held];
      if (program.stash == nullptr) {
        A dot[2 * Batch::size];
        edges.template dots<Tile>(batch, source, attention, source, target, grad, dot);
        slots::apply(dot, ds, weight);
        edges.template mend<slots>(at, batch, source, attention, target, ds);
        program.template weigh<slots>(at, found, natural_logit<A>{}, ds, weight);
      } else {
        program.template recall<slots>(at, found, ds, weight);
      }
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        const A f = tell_group<Tile::lanes>(ds[slots::slot_of(u)], slots::lane_of(u));
        const A w = tell_group<Tile::lanes>(weight[slots::slot_of(u)], slots::lane_of(u));
        if (!batch.valid(u)) continue;
        add_scaled(s.sum[0], w, [&](int i) { return grad(u, i); });
        if (f == A{0}) continue;
        const A below = f * edges.slope;
#pragma unroll
        for (int i = 0; i < Tile::elements; ++i) {
          s.sum[0][i] += attention[i] * edges.through(source[i] + target(u, i), f, below);
        }
      }
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, {}, {}};
    read_head(at, source.head_of(row.row, at.head), r.source);
    read_head(at, attention + at.head * attention_stride, r.attention);
    return r;
  }
#endif
};

}  // namespace quipu::detail
