// SPDX-License-Identifier: Apache-2.0
#include "quipu/engine/device_engine.cuh"
#include "quipu/engine/row_source.hpp"

/// The number of edges of each row.
struct degree_program {
  std::int64_t* degree;

  template <class Tile>
  struct state {
    std::int64_t seen;
  };
  template <class Tile>
  using at = quipu::lane_position<Tile>;

  template <class Tile, class I>
  QUIPU_HD state<Tile> init(at<Tile>, quipu::row_edges<I>) const {
    return {0};
  }
  template <class Tile, class Batch>
  QUIPU_HD void visit(at<Tile>, state<Tile>& s, const Batch& batch) const {
    for (int u = 0; u < Batch::size; ++u) s.seen += batch.valid(u);
  }
  template <class Tile>
  QUIPU_HD void merge(at<Tile>, state<Tile>& s, const state<Tile>& later) const {
    s.seen += later.seen;
  }
  template <class Tile, class I>
  QUIPU_HD void finish(at<Tile>, quipu::row_edges<I> row, const state<Tile>& s) const {
    degree[row.row] = s.seen;
  }
};

quipu::status count(const quipu::context& ctx, const quipu::direction_view<std::int32_t>& graph,
                    std::int64_t* degree, quipu::workspace scratch) {
  constexpr quipu::engine_policy policy{
      .lanes = 1, .vectors = 1, .width = 1, .unroll = 4, .threads = 128};
  quipu::arena arena(scratch);
  const auto partial =
      quipu::carve_partials<policy, degree_program>(arena, graph.schedule, std::int64_t{1});
  if (auto s = arena.fits(); !s.ok()) return s;
  return quipu::traverse<policy>(ctx, degree_program{degree}, quipu::no_rows{}, graph, 1, partial);
}
