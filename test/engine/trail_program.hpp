// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/engine/program.hpp"

namespace test {

using node_id = std::int32_t;

/// A user's program whose result shows every edge, its order and its position: each edge is the map
/// t -> 31 t + v modulo 2^64, a row the composition of its edges' maps applied to 1. Composition is
/// associative and exact, and does not commute.
struct trail_program {
  template <class Tile>
  using at = quipu::lane_position<Tile>;
  template <class Tile>
  struct state {
    std::uint64_t factor;
    std::uint64_t offset[Tile::elements];
  };

  std::uint64_t* output;  // [rows, features]

  static QUIPU_HD std::uint64_t value(float x, std::int64_t edge, std::uint32_t position,
                                      node_id column) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) +
           1000003 * static_cast<std::uint64_t>(edge) + 7919 * std::uint64_t{position} +
           static_cast<std::uint64_t>(column) * 101;
  }

  template <class Tile>
  QUIPU_HD state<Tile> init(const at<Tile>&, const quipu::row_edges<node_id>&) const {
    state<Tile> s{};
    s.factor = 1;
    return s;
  }
  template <class Tile, class Batch>
  QUIPU_HD void visit(const at<Tile>&, state<Tile>& s, const Batch& batch) const {
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      s.factor *= 31;
      for (int i = 0; i < Tile::elements; ++i) {
        s.offset[i] = 31 * s.offset[i] + value(batch.rows[u].value(i), batch.edge(u),
                                               batch.position(u), batch.columns[u]);
      }
    }
  }
  template <class Tile>
  QUIPU_HD void merge(const at<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    for (int i = 0; i < Tile::elements; ++i) {
      s.offset[i] = next.factor * s.offset[i] + next.offset[i];
    }
    s.factor *= next.factor;
  }
  template <class Tile>
  QUIPU_HD void finish(const at<Tile>& at, const quipu::row_edges<node_id>& row,
                       const state<Tile>& s) const {
    for (int i = 0; i < Tile::elements; ++i) {
      const int v = i / Tile::width;
      if (!at.active(v)) continue;
      output[row.row * at.features + at.feature(v) + i % Tile::width] += s.factor + s.offset[i];
    }
  }
};

}  // namespace test
