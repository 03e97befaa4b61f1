// SPDX-License-Identifier: Apache-2.0
// expects: static assertion failed: see engine/program.hpp
#include "quipu/engine/host_engine.hpp"
#include "quipu/engine/row_source.hpp"

struct count_edges {
  std::int64_t* degree;

  template <class Tile>
  struct state {
    std::int64_t seen;
  };
  template <class Tile, class I>
  state<Tile> init(quipu::lane_position<Tile>, quipu::row_edges<I>) const {
    return {0};
  }
  template <class Tile, class Batch>
  void visit(quipu::lane_position<Tile>, state<Tile>& s, const Batch& batch) const {
    for (int u = 0; u < Batch::size; ++u) s.seen += batch.valid(u);
  }
#ifndef OFFEND  // rows that are split could not meet again
  template <class Tile>
  void merge(quipu::lane_position<Tile>, state<Tile>& s, const state<Tile>& later) const {
    s.seen += later.seen;
  }
#endif
  template <class Tile, class I>
  void finish(quipu::lane_position<Tile>, quipu::row_edges<I> row, const state<Tile>& s) const {
    degree[row.row] = s.seen;
  }
};

quipu::status count(const quipu::direction_view<std::int32_t>& graph, std::int64_t* degree) {
  return quipu::traverse<4>(quipu::host_context{}, count_edges{degree}, quipu::no_rows{}, graph, 1);
}
