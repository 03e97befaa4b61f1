// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/gradient_program.hpp"

namespace quipu::detail {

/// How GATv2's gradients go through an edge, on either side. With x = target + source, leaky'(x) is
/// 1 where x > 0 and the slope elsewhere, so that
///
///   D = sum of ds * leaky'(x) = slope * (sum of ds) + (1 - slope) * (sum of ds where x > 0),
///
/// two instructions an element and edge. As leaky(x) = leaky'(x) * x, the gradient of the vector,
/// the sum of ds * leaky(x) over all edges, is that of target * D over the receivers and of source
/// * D over the senders: it costs nothing an edge.
template <class A>
struct gatv2_edges {
  leaky_terms<A> leaky;

#ifdef __CUDACC__
  /// Logits and products of a batch: this lane's parts of <attention, leaky(x)> and <own_other,
  /// other row>. `row(u, i)` and `other(u, i)` are what was fetched.
  template <bool Careful, class Tile, class Batch, class Row, class Other>
  __device__ void dots(const lane_position<Tile>& at, const Batch&, const A (&own)[Tile::elements],
                       const A (&attention)[Tile::elements], const A (&own_other)[Tile::elements],
                       const Row& row, const Other& other, A (&dot)[2 * Batch::size]) const {
#pragma unroll
    for (int u = 0; u < Batch::size; ++u) {
      dot[2 * u] = leaky_part<Careful>(at, leaky, own, attention, [&](int i) { return row(u, i); });
      A product{0};
#pragma unroll
      for (int i = 0; i < Tile::elements; ++i) product += own_other[i] * other(u, i);
      dot[2 * u + 1] = product;
    }
  }

  /// Adds ds where x > 0. The compiler makes that one comparison with -row, and keeps no x.
  template <int Elements, class Row>
  __device__ static void add_above(const A (&own)[Elements], const Row& row, A ds,
                                   A (&above)[Elements]) {
#pragma unroll
    for (int i = 0; i < Elements; ++i) {
      if (own[i] + row(i) > A{0}) above[i] += ds;
    }
  }

  /// Whether the quick way went wrong, as it does of infinities. Then sums start from 0 again.
  template <class Tile>
  __device__ static bool start_again(A& of_all, A (&above)[Tile::elements]) {
    if (!any_of_group<Tile::lanes>(of_all != of_all)) return false;
    of_all = A{0};
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) above[i] = A{0};
    return true;
  }

  /// Turns sums of ds where x > 0 into attention * D, added to `sum`, and adds own * D to `total`.
  /// Where D is 0 no gradient passes, whatever the rows hold.
  template <int Elements, class Total>
  __device__ void settle(const A (&own)[Elements], const A (&attention)[Elements],
                         const A (&above)[Elements], A of_all, A (&sum)[Elements],
                         const Total& total) const {
#pragma unroll
    for (int i = 0; i < Elements; ++i) {
      const A d = leaky.slope * of_all + (A{1} - leaky.slope) * above[i];
      if (d == A{0}) continue;
      sum[i] += attention[i] * d;
      total[i] += own[i] * d;
    }
  }
#endif
};

/// The receivers' side of GATv2: d target, the records, and the receivers' part of d attention,
/// which is a total over all rows.
template <element T, bool Extras>
struct gatv2_receivers : gradient_program<T, 1>, receivers_half<T, Extras> {
  using A = accumulator<T>;
  head_matrix<T> target;
  const T* attention;
  std::int64_t attention_stride;
  gatv2_edges<A> edges;

#ifdef __CUDACC__
  template <class Tile, class Total>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gatv2_receivers& program;
    Total total;
    softmax_record<A> record;
    A target[Tile::elements];
    A attention[Tile::elements];
    A grad[Tile::elements];
    A above[Tile::elements];
    A of_all;

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, gradient_state<A, Tile::elements, 1>&,
                          const Batch& batch) {
      visit_batch<false>(at, batch);
    }
    template <class Batch>
    __device__ void visit_with_care(const lane_position<Tile>& at,
                                    gradient_state<A, Tile::elements, 1>&, const Batch& batch) {
      visit_batch<true>(at, batch);
    }
    __device__ bool start_again(const lane_position<Tile>&, gradient_state<A, Tile::elements, 1>&) {
      return gatv2_edges<A>::template start_again<Tile>(of_all, above);
    }
    __device__ void settle(const lane_position<Tile>&, gradient_state<A, Tile::elements, 1>& s,
                           const slice_edges&) {
      program.edges.settle(target, attention, above, of_all, s.sum[0], total);
    }

   private:
    template <bool Careful, class Batch>
    __device__ void visit_batch(const lane_position<Tile>& at, const Batch& batch) {
      using slots = pair_sums<Tile::lanes, Batch::size>;
      const auto& edges = program.edges;
      const auto row = [&](int u, int i) { return batch.rows[u].value(i); };
      A dot[2 * Batch::size], ds[slots::held], weight[slots::held];
      edges.template dots<Careful>(at, batch, target, attention, grad, row, row, dot);
      slots::apply(dot, ds, weight);
      program.template weigh<slots>(at, batch, record, dot_is_logit<A>{}, ds, weight);
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        A f = tell_group<Tile::lanes>(ds[slots::slot_of(u)], slots::lane_of(u));
        if (!batch.valid(u)) f = A{0};
        of_all += f;
        edges.add_above(
            target, [&](int i) { return row(u, i); }, f, above);
      }
    }
  };

  template <class Tile, class I, class Total>
  __device__ row_program<Tile, Total> for_row(const lane_position<Tile>& at,
                                              const row_edges<I>& row, const Total& total) const {
    row_program<Tile, Total> r{*this, total, {}, {}, {}, {}, {}, A{0}};
    read_head(at, target.head_of(row.row, at.head), r.target);
    read_head(at, attention + at.head * attention_stride, r.attention);
    r.record = this->open(at, row.row, r.grad);
    return r;
  }
#endif
};

/// The senders' side: d source = sum of weight * grad_output + ds * attention * leaky'(x), and the
/// senders' part of d attention.
template <element T, node_index O, bool Extras>
struct gatv2_senders : gradient_program<T, 1>, senders_half<T, O, Extras> {
  using A = accumulator<T>;
  head_matrix<T> source;
  const T* attention;
  std::int64_t attention_stride;
  gatv2_edges<A> edges;

#ifdef __CUDACC__
  template <class Tile, class Total>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gatv2_senders& program;
    Total total;
    A source[Tile::elements];
    A attention[Tile::elements];
    A above[Tile::elements];
    A of_all;

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, gradient_state<A, Tile::elements, 1>& s,
                          const Batch& batch) {
      visit_batch<false>(at, s, batch);
    }
    template <class Batch>
    __device__ void visit_with_care(const lane_position<Tile>& at,
                                    gradient_state<A, Tile::elements, 1>& s, const Batch& batch) {
      visit_batch<true>(at, s, batch);
    }
    __device__ bool start_again(const lane_position<Tile>&,
                                gradient_state<A, Tile::elements, 1>& s) {
      if (!gatv2_edges<A>::template start_again<Tile>(of_all, above)) return false;
      s = {};
      return true;
    }
    __device__ void settle(const lane_position<Tile>&, gradient_state<A, Tile::elements, 1>& s,
                           const slice_edges&) {
      program.edges.settle(source, attention, above, of_all, s.sum[0], total);
    }

   private:
    template <bool Careful, class Batch>
    __device__ void visit_batch(const lane_position<Tile>& at,
                                gradient_state<A, Tile::elements, 1>& s, const Batch& batch) {
      using slots = pair_sums<Tile::lanes, Batch::size>;
      const auto& edges = program.edges;
      const auto target = [&](int u, int i) { return batch.rows[u].key.value(i); };
      const auto grad = [&](int u, int i) { return batch.rows[u].value.value(i); };
      const auto found = program.template look_up<slots>(at, batch);
      A ds[slots::held], weight[slots::held];
      if (!program.has_stash()) {
        A dot[2 * Batch::size];
        edges.template dots<Careful>(at, batch, source, attention, source, target, grad, dot);
        slots::apply(dot, ds, weight);
        program.template weigh<slots>(at, found, dot_is_logit<A>{}, ds, weight);
      } else {
        program.template recall<slots>(at, found, ds, weight);
      }
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        A f = tell_group<Tile::lanes>(ds[slots::slot_of(u)], slots::lane_of(u));
        A w = tell_group<Tile::lanes>(weight[slots::slot_of(u)], slots::lane_of(u));
        if (!batch.valid(u)) f = w = A{0};
        add_scaled(s.sum[0], w, [&](int i) { return grad(u, i); });
        of_all += f;
        edges.add_above(
            source, [&](int i) { return target(u, i); }, f, above);
      }
    }
  };

  template <class Tile, class I, class Total>
  __device__ row_program<Tile, Total> for_row(const lane_position<Tile>& at,
                                              const row_edges<I>& row, const Total& total) const {
    row_program<Tile, Total> r{*this, total, {}, {}, {}, A{0}};
    read_head(at, source.head_of(row.row, at.head), r.source);
    read_head(at, attention + at.head * attention_stride, r.attention);
    return r;
  }
#endif
};

}  // namespace quipu::detail
