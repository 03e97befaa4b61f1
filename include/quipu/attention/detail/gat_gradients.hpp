// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/gradient_program.hpp"

namespace quipu::detail {

/// The scores of either side, and how GAT makes an edge's logit of them.
template <element T>
struct gat_scores {
  using A = accumulator<T>;
  head_numbers<const T> target, source;
  A slope;
};

/// The receivers' side of GAT: d target_score, a number a row and head, and the records. A lane
/// sums over the edges that it holds.
template <element T, bool Extras>
struct gat_receivers : receivers_half<T, Extras> {
  using A = accumulator<T>;
  static constexpr bool by_heads = true;
  template <class Tile>
  struct state {
    A score;
  };
  head_numbers<T> grad_score;
  gat_scores<T> scores;

#ifdef __CUDACC__
  template <class Tile, class I>
  __device__ state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    return {A{0}};
  }
  template <class Tile>
  __device__ void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    s.score += next.score;
  }
  template <class Tile, class I>
  __device__ void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                         const state<Tile>& s) const {
    const A score = sum_group<Tile::lanes>(s.score);
    if (lane_of_group<Tile>() == 0) grad_score.at(row.row, at.head) = narrow<T>(score);
  }

  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gat_receivers& program;
    softmax_record<A> record;
    A target;
    A grad[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
      using slots = edge_sums<Tile::lanes, Batch::size>;
      const auto& scores = program.scores;
      const int lane = lane_of_group<Tile>();
      A logit[slots::held], through[slots::held];
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        const A x =
            target + widen(scores.source.at(column_of(batch, slots::first(lane) + h), at.head));
        logit[h] = leaky_relu(x, scores.slope);
        through[h] = leaky_relu_derivative(x, scores.slope);
      }
      A dot[Batch::size];
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        dot[u] = A{0};
#pragma unroll
        for (int i = 0; i < Tile::elements; ++i) dot[u] += grad[i] * batch.rows[u].value(i);
      }
      slots::apply(dot);
      program.template weigh<slots>(at, batch, record, dot_is_logit<A>{}, logit,
                                    first_of<slots::held>(dot));
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        const int u = slots::first(lane) + h;
        if (batch.valid(u) && lane == slots::lane_of(u)) s.score += logit[h] * through[h];
      }
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, {}, widen(scores.target.at(row.row, at.head)), {}};
    r.record = this->open(at, row.row, r.grad);
    return r;
  }
#endif
};

/// The senders' side: d source = sum of weight * grad_output, and d source_score.
template <element T, node_index O, bool Extras>
struct gat_senders : senders_half<T, O, Extras> {
  using A = accumulator<T>;
  static constexpr bool by_heads = true;
  template <class Tile>
  struct state {
    A sum[Tile::elements];
    A score;  // of the edges that this lane holds
  };
  head_output<T> grad_source;
  head_numbers<T> grad_score;
  head_matrix<T> source;
  gat_scores<T> scores;

#ifdef __CUDACC__
  template <class Tile, class I>
  __device__ state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = A{0};
    s.score = A{0};
    return s;
  }
  template <class Tile>
  __device__ void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] += next.sum[i];
    s.score += next.score;
  }
  template <class Tile, class I>
  __device__ void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                         const state<Tile>& s) const {
    const A score = sum_group<Tile::lanes>(s.score);
    if (lane_of_group<Tile>() == 0) grad_score.at(row.row, at.head) = narrow<T>(score);
    store_fragment(at,
                   grad_source.data + static_cast<std::int64_t>(row.row) * grad_source.row_stride +
                       at.head * grad_source.head_stride,
                   s.sum);
  }

  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gat_senders& program;
    A own_score;
    A source[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
      using slots = edge_sums<Tile::lanes, Batch::size>;
      const auto& scores = program.scores;
      const int lane = lane_of_group<Tile>();
      const auto found = program.template look_up<slots>(at, batch);
      A ds[slots::held], through[slots::held];
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        const A x =
            own_score + widen(scores.target.at(column_of(batch, slots::first(lane) + h), at.head));
        ds[h] = leaky_relu(x, scores.slope);
        through[h] = leaky_relu_derivative(x, scores.slope);
      }
      A dot[Batch::size];
      auto& weight = first_of<slots::held>(dot);
      if (!program.has_stash()) {
#pragma unroll
        for (int u = 0; u < Batch::size; ++u) {
          dot[u] = A{0};
#pragma unroll
          for (int i = 0; i < Tile::elements; ++i) dot[u] += source[i] * batch.rows[u].value(i);
        }
        slots::apply(dot);
        program.template weigh<slots>(at, found, dot_is_logit<A>{}, ds, weight);
      } else {
        program.template recall<slots>(at, found, ds, weight);
      }
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        const int u = slots::first(lane) + h;
        if (batch.valid(u) && lane == slots::lane_of(u)) s.score += ds[h] * through[h];
      }
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        const A w = tell_group<Tile::lanes>(weight[slots::slot_of(u)], slots::lane_of(u));
        if (batch.valid(u)) add_scaled(s.sum, w, [&](int i) { return batch.rows[u].value(i); });
      }
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, widen(scores.source.at(row.row, at.head)), {}};
    read_head(at, source.head_of(row.row, at.head), r.source);
    return r;
  }
#endif
};

}  // namespace quipu::detail
