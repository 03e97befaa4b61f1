// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/program.hpp"
#include "quipu/engine/row_source.hpp"
#include "quipu/graph/schedule.hpp"
#include "quipu/lane/group.hpp"

namespace quipu::detail {

template <class I>
QUIPU_HD inline I load_index(const I* from) {
#ifdef __CUDA_ARCH__
  return __ldg(from);
#else
  return *from;
#endif
}

template <class Program, class I>
QUIPU_HD inline edge_value<Program> find_value(const Program& program, std::int64_t edge,
                                               I column) {
  if constexpr (values_edges<Program>) {
    return program.value_of(edge, column);
  } else {
    return {};
  }
}

/// What a partial batch holds of edges that it has not. No program looks; ptxas does: undefined
/// rows let it load in place where ids are loaded one by one, and make it copy rows behind their
/// loads, and wait for each, where ids are told.
enum class absent_rows { undefined, zero };
template <class Program>
inline constexpr absent_rows absent_rows_of = absent_rows::undefined;
template <class Program>
requires(Program::takes_absent_rows) inline constexpr absent_rows absent_rows_of<Program> =
    absent_rows::zero;

template <int Size, bool Full, absent_rows Absent, class Tile, class Program, class Rows, class I,
          class Find, class State>
QUIPU_HD inline void visit_batch(const lane_position<Tile>& at, Program& program, const Rows& rows,
                                 const typename Rows::template cursor<Tile>& cursor,
                                 const I (&columns)[Size], const Find& find, std::int64_t edge,
                                 std::uint32_t position, std::int32_t count, State& state) {
  using fragment_type = decltype(rows.template load<Tile>(cursor, columns[0]));
  edge_batch<fragment_type, I, edge_value<Program>, Size, Full> batch;
  batch.first_edge = edge;
  batch.first_position = position;
  batch.count = count;
  QUIPU_UNROLL
  for (int u = 0; u < Size; ++u) {
    batch.columns[u] = columns[u];
    if (Full || u < count) {
      batch.rows[u] = rows.template load<Tile>(cursor, columns[u]);
    } else if constexpr (Absent == absent_rows::zero) {
      batch.rows[u] = {};
    }
  }
  QUIPU_UNROLL
  for (int u = 0; u < Size; ++u) batch.values[u] = find(u);
  program.visit(at, state, batch);
}

/// The ids of a slice's first batch. Whoever visits it asks for them before anything else, so that
/// they come while the row's own operands do.
template <int Unroll, class I>
struct first_ids {
  I columns[Unroll];

  QUIPU_HD first_ids(const I* indices, const slice<I>& work) {
    QUIPU_UNROLL
    for (int u = 0; u < Unroll; ++u) {
      columns[u] = u < work.count ? load_index(indices + work.begin + u) : I{0};
    }
  }
};

/// Every lane looks every edge up: full batches first, then what is left. The next batch's ids are
/// fetched before the present rows are used, so that their latency hides behind the rows'.
template <int Unroll, class Tile, class Program, class Rows, class I, class State>
QUIPU_HD inline void visit_edges(const lane_position<Tile>& at, Program& program, const Rows& rows,
                                 const I* indices, const slice<I>& work,
                                 const first_ids<Unroll, I>& first, std::uint32_t position,
                                 State& state) {
  const auto cursor = rows.template begin<Tile>(at);
  const I* next = indices + work.begin;
  I columns[Unroll];
  QUIPU_UNROLL
  for (int u = 0; u < Unroll; ++u) columns[u] = first.columns[u];

  std::int32_t done = 0;
  for (; done + Unroll <= work.count; done += Unroll) {
    I present[Unroll];
    next += Unroll;
    QUIPU_UNROLL
    for (int u = 0; u < Unroll; ++u) {
      present[u] = columns[u];
      if (done + Unroll + u < work.count) columns[u] = load_index(next + u);
    }
    const auto edge = work.begin + done;
    visit_batch<Unroll, true, absent_rows::undefined>(
        at, program, rows, cursor, present,
        [&](int u) { return find_value(program, edge + u, present[u]); }, edge,
        position + static_cast<std::uint32_t>(done), Unroll, state);
  }
  if constexpr (Unroll > 1) {
    if (done == work.count) return;
    const auto edge = work.begin + done;
    const auto left = work.count - done;
    visit_batch<Unroll, false, absent_rows_of<Program>>(
        at, program, rows, cursor, columns,
        // Of an edge that is not there the last one's, which costs no branch; nobody looks.
        [&](int u) { return find_value(program, edge + (u < left ? u : left - 1), columns[u]); },
        edge, position + static_cast<std::uint32_t>(done), left, state);
  }
}

#ifdef __CUDACC__
/// The same by a whole warp for programs that value edges: out of 32 edges each lane looks one up,
/// its id and its value, and tells the others at its turn. The values of the next 32 are looked up
/// when their ids are there, well before their rows.
template <int Unroll, class Tile, class Program, class Rows, class I, class State>
__device__ inline void tell_edges(const lane_position<Tile>& at, Program& program, const Rows& rows,
                                  const I* indices, const slice<I>& work, std::uint32_t position,
                                  State& state) {
  constexpr int lanes = Tile::lanes;
  const auto lane = static_cast<std::int32_t>(threadIdx.x) % lanes;
  const auto cursor = rows.template begin<Tile>(at);
  const I* ids = indices + work.begin + lane;
  const auto find_id = [&](std::int32_t from) {
    return from + lane < work.count ? load_index(ids + from) : I{0};
  };
  const auto find = [&](std::int32_t from, I id) {
    return from + lane < work.count ? program.value_of(work.begin + from + lane, id)
                                    : edge_value<Program>{};
  };
  I id{}, next_id = find_id(0);
  edge_value<Program> value{};
  const auto told = [&](int u) { return tell_group<lanes>(value, u); };

  const auto take = [&](std::int32_t from) {
    id = next_id;
    value = find(from, id);
    next_id = find_id(from + lanes);
  };
  take(0);
  std::int32_t done = 0;
  I columns[Unroll];
  while (done + Unroll <= work.count) {
    QUIPU_UNROLL
    for (int u = 0; u < Unroll; ++u) columns[u] = tell_group<lanes>(id, u);
    visit_batch<Unroll, true, absent_rows::zero>(
        at, program, rows, cursor, columns, told, work.begin + done,
        position + static_cast<std::uint32_t>(done), Unroll, state);
    done += Unroll;
    id = __shfl_down_sync(group_mask<lanes>(), id, Unroll);
    value = __shfl_down_sync(group_mask<lanes>(), value, Unroll);
    if (done % lanes == 0) take(done);
  }
  if (done < work.count) {
    QUIPU_UNROLL
    for (int u = 0; u < Unroll; ++u) columns[u] = tell_group<lanes>(id, u);
    visit_batch<Unroll, false, absent_rows::zero>(
        at, program, rows, cursor, columns, told, work.begin + done,
        position + static_cast<std::uint32_t>(done), work.count - done, state);
  }
}
#endif

/// Visits edges by a program's careful way.
template <class Program>
struct careful_visitor {
  static_assert(!values_edges<Program>, "a careful way finds no values");
  Program& program;
  template <class Position, class State, class Batch>
  QUIPU_HD void visit(const Position& at, State& state, const Batch& batch) const {
    program.visit_with_care(at, state, batch);
  }
};

/// Walks one slice of a row, edges in order.
template <int Unroll, class Tile, class Program, class Rows, class I, class State>
QUIPU_HD inline void visit_slice(const lane_position<Tile>& at, Program& program, const Rows& rows,
                                 const I* indices, const slice<I>& work,
                                 const first_ids<Unroll, I>& first, const row_edges<I>& row,
                                 State& state) {
  if (work.count == 0) return;
  const auto position = static_cast<std::uint32_t>(work.begin - row.begin);
#ifdef __CUDA_ARCH__
  if constexpr (values_edges<Program> && Tile::lanes == 32 && 32 % Unroll == 0) {
    tell_edges<Unroll>(at, program, rows, indices, work, position, state);
  } else {
    visit_edges<Unroll>(at, program, rows, indices, work, first, position, state);
  }
#else
  visit_edges<Unroll>(at, program, rows, indices, work, first, position, state);
#endif
  if constexpr (requires { program.start_again(at, state); }) {
    if (program.start_again(at, state)) {
      careful_visitor<Program> careful{program};
      const first_ids<1, I> again(indices, work);
      visit_edges<1>(at, careful, rows, indices, work, again, position, state);
    }
  }
  const slice_edges edges{work.begin, position, work.count};
  if constexpr (requires { program.settle(at, state, edges); }) program.settle(at, state, edges);
}

}  // namespace quipu::detail
