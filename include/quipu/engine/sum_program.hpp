// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "quipu/engine/program.hpp"
#include "quipu/lane/vector.hpp"

namespace quipu {

/// What a sender's row is multiplied by in a sum: a factor other than `unit_factor` has
///   A at<A>(edge position, sender) const
struct unit_factor {};
struct weight_factor {
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
  using edge_value = std::conditional_t<std::is_same_v<Factor, unit_factor>, no_value, A>;
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

  template <class I>
  QUIPU_HD edge_value value_of(std::int64_t edge, I column) const {
    return factor.template at<A>(edge, column);
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>&, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) {
        if constexpr (std::is_same_v<edge_value, no_value>) {
          s.sum[i] += batch.rows[u].value(i);
        } else {
          s.sum[i] += batch.values[u] * batch.rows[u].value(i);
        }
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
