// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/program.hpp"
#include "quipu/engine/row_source.hpp"
#include "quipu/graph/schedule.hpp"

namespace quipu::detail {

template <class I>
QUIPU_HD inline I load_index(const I* from) {
#ifdef __CUDA_ARCH__
  return __ldg(from);
#else
  return *from;
#endif
}

template <int Size, bool Full, class Tile, class Program, class Rows, class I, class State>
QUIPU_HD inline void visit_batch(const lane_position<Tile>& at, const Program& program,
                                 const Rows& rows,
                                 const typename Rows::template cursor<Tile>& cursor,
                                 const I (&columns)[Size], std::int64_t edge,
                                 std::uint32_t position, std::int32_t count, State& state) {
  using fragment_type = decltype(rows.template load<Tile>(cursor, columns[0]));
  edge_batch<fragment_type, I, Size, Full> batch;
  batch.first_edge = edge;
  batch.first_position = position;
  batch.count = count;
  QUIPU_UNROLL
  for (int u = 0; u < Size; ++u) {
    batch.columns[u] = columns[u];
    if (Full || u < count) batch.rows[u] = rows.template load<Tile>(cursor, columns[u]);
  }
  program.visit(at, state, batch);
}

/// Walks one slice: full batches first, then what is left. The next batch's ids are fetched before
/// the present rows are used, so that their latency hides behind the rows'.
template <int Unroll, class Tile, class Program, class Rows, class I, class State>
QUIPU_HD inline void visit_slice(const lane_position<Tile>& at, const Program& program,
                                 const Rows& rows, const I* indices, const slice<I>& work,
                                 std::uint32_t position, State& state) {
  if (work.count == 0) return;
  const auto cursor = rows.template begin<Tile>(at);
  const I* next = indices + work.begin;
  I columns[Unroll];
  QUIPU_UNROLL
  for (int u = 0; u < Unroll; ++u) columns[u] = u < work.count ? load_index(next + u) : I{0};

  std::int32_t done = 0;
  for (; done + Unroll <= work.count; done += Unroll) {
    I present[Unroll];
    next += Unroll;
    QUIPU_UNROLL
    for (int u = 0; u < Unroll; ++u) {
      present[u] = columns[u];
      if (done + Unroll + u < work.count) columns[u] = load_index(next + u);
    }
    visit_batch<Unroll, true>(at, program, rows, cursor, present, work.begin + done,
                              position + static_cast<std::uint32_t>(done), Unroll, state);
  }
  if (done < work.count) {
    visit_batch<Unroll, false>(at, program, rows, cursor, columns, work.begin + done,
                               position + static_cast<std::uint32_t>(done), work.count - done,
                               state);
  }
  const slice_edges edges{work.begin, position, work.count};
  if constexpr (requires { program.settle(at, state, edges); }) program.settle(at, state, edges);
}

/// Edges before this slice in its row. Only split rows have any; they lead the work list in order.
template <class I>
QUIPU_HD inline std::uint32_t slice_position(const schedule_view<I>& schedule, std::int64_t index,
                                             const split_row<I>& row) {
  return static_cast<std::uint32_t>((index - row.first) * schedule.slice_edges);
}

}  // namespace quipu::detail
