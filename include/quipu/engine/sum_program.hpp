// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/program.hpp"
#include "quipu/lane/group.hpp"
#include "quipu/lane/vector.hpp"

namespace quipu {

/// What a sender's row is multiplied by in a sum. A factor other than `unit_factor` has
///   A at<A>(edge position, sender) const
/// and, if `finds_senders` says so,
///   A at_edge<A>(edge position) const
/// With it the lanes of a group look up an edge each and tell each other, instead of every lane
/// looking up every edge. That pays in batches of eight and more (H200, docs/performance.md).
struct unit_factor {
  static constexpr bool is_one = true;
  static constexpr bool finds_senders = false;
};
struct weight_factor {
  static constexpr bool is_one = false;
  static constexpr bool finds_senders = false;
  const float* weights;
  template <class A, class I>
  QUIPU_HD A at(std::int64_t edge, I) const {
    return static_cast<A>(weights[edge]);
  }
};

/// The program of every sum over neighbours: S[i] = sum over the edges k of row i of
/// factor(k) * X[column of k]. `Ending` turns the sum into the output row:
///   void apply(at, row, T* output_row, A (&sum)[elements]) const
template <element T, class Factor, class Ending>
struct sum_program {
  using A = accumulator<T>;
  template <class Tile>
  struct state {
    A sum[Tile::elements];
  };

  T* output;
  std::int64_t row_stride;
  Factor factor;
  Ending ending;
  store_hint hint = store_hint::keep;

  template <class Tile, class I>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = A{0};
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>&, state<Tile>& s, const Batch& batch) const {
#ifdef __CUDA_ARCH__
    if constexpr (Factor::finds_senders && Batch::size >= 8 && Tile::lanes >= Batch::size) {
      const int mine = static_cast<int>(threadIdx.x) % Batch::size;
      const A found = batch.valid(mine) ? factor.template at_edge<A>(batch.edge(mine)) : A{0};
      QUIPU_UNROLL
      for (int u = 0; u < Batch::size; ++u) {
        const A f = tell_group<Tile::lanes>(found, u);
        if (!batch.valid(u)) continue;
        QUIPU_UNROLL
        for (int i = 0; i < Tile::elements; ++i) s.sum[i] += f * batch.rows[u].value(i);
      }
      return;
    }
#endif
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      if constexpr (Factor::is_one) {
        QUIPU_UNROLL
        for (int i = 0; i < Tile::elements; ++i) s.sum[i] += batch.rows[u].value(i);
      } else {
        const A f = factor.template at<A>(batch.edge(u), batch.columns[u]);
        QUIPU_UNROLL
        for (int i = 0; i < Tile::elements; ++i) s.sum[i] += f * batch.rows[u].value(i);
      }
    }
  }

  template <class Tile>
  QUIPU_HD void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] += next.sum[i];
  }

  template <class Tile, class I>
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                       state<Tile> s) const {
    T* to = output + static_cast<std::int64_t>(row.row) * row_stride;
    ending.apply(at, row, to, s.sum);
    store_fragment(at, to, s.sum, hint);
  }
};

}  // namespace quipu
