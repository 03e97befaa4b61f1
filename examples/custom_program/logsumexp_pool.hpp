// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "quipu/engine/program.hpp"
#include "quipu/lane/vector.hpp"

/// Y[i] = log of the sum over the edges of row i of exp(X[column]), for each feature: a smooth
/// maximum. An empty row gives -inf, the logarithm of an empty sum. NaN spreads.
///
/// The sum is kept relative to the largest value so far, so that no exponential overflows.
template <quipu::element T>
struct logsumexp_pool {
  using A = quipu::accumulator<T>;
  template <class Tile>
  using at = quipu::lane_position<Tile>;

  T* output;                // [rows, features]
  std::int64_t row_stride;  // elements

  // [doc: state]
  template <class Tile>
  struct state {
    A largest[Tile::elements];
    A sum[Tile::elements];  // of exp(x - largest)
  };

  template <class Tile, class I>
  QUIPU_HD state<Tile> init(const at<Tile>&, const quipu::row_edges<I>&) const {
    state<Tile> s;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) {
      s.largest[i] = -INFINITY;
      s.sum[i] = 0;
    }
    return s;
  }
  // [doc end]

  // [doc: visit]
  template <class Tile, class Batch>
  QUIPU_HD void visit(const at<Tile>&, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) append(s, i, batch.rows[u].value(i), A{1});
    }
  }
  // [doc end]

  // [doc: merge]
  template <class Tile>
  QUIPU_HD void merge(const at<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) append(s, i, next.largest[i], next.sum[i]);
  }
  // [doc end]

  // [doc: finish]
  template <class Tile, class I>
  QUIPU_HD void finish(const at<Tile>& at, const quipu::row_edges<I>& row,
                       const state<Tile>& s) const {
    A result[Tile::elements];
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) result[i] = s.largest[i] + std::log(s.sum[i]);
    quipu::store_fragment(at, output + row.row * row_stride, result);
  }
  // [doc end]

 private:
  // [doc: append]
  /// Adds sum * exp(largest) to element i. One edge is the case of sum 1.
  template <class Tile>
  static QUIPU_HD void append(state<Tile>& s, int i, A largest, A sum) {
    const A both = largest > s.largest[i] ? largest : s.largest[i];
    s.sum[i] = s.sum[i] * scale(s.largest[i], both) + sum * scale(largest, both);
    s.largest[i] = both;
  }

  /// exp(from - to), and 1 where both are the same infinity.
  static QUIPU_HD A scale(A from, A to) { return from == to ? A{1} : std::exp(from - to); }
  // [doc end]
};
