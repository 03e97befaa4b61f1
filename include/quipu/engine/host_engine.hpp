// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "quipu/core/context.hpp"
#include "quipu/engine/detail/visit_slice.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu {

namespace detail {

inline std::int32_t thread_count(const host_context& ctx) {
  if (ctx.threads > 0) return ctx.threads;
  return std::max(1, static_cast<std::int32_t>(std::thread::hardware_concurrency()));
}

/// Runs body(begin, end) over [0, count) in pieces of `grain`, dealt to threads as they come free.
/// Which thread takes which piece never changes a result: pieces write disjoint rows.
template <class Body>
status parallel_pieces(const host_context& ctx, std::int64_t count, std::int64_t grain, Body body) {
  const auto pieces = (count + grain - 1) / grain;
  const auto threads = static_cast<std::int32_t>(
      std::min<std::int64_t>(thread_count(ctx), std::max<std::int64_t>(pieces, 1)));
  std::atomic<std::int64_t> cursor{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    try {
      for (auto p = cursor++; p < pieces && !failed; p = cursor++) {
        body(p * grain, std::min(count, (p + 1) * grain));
      }
    } catch (const std::exception&) {
      failed = true;
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(static_cast<std::size_t>(threads));
    for (std::int32_t t = 1; t < threads; ++t) others.emplace_back(work);
  } catch (const std::exception&) {
    // Fewer threads than hoped for: those that started, and this one, do all the work.
  }
  work();
  for (auto& t : others) t.join();
  return failed ? failure(status_code::out_of_memory, "host scratch") : success();
}

template <int Unroll, class Tile, class Program, class Rows, class I, class State>
void host_slice(const lane_position<Tile>& at, const Program& program, const Rows& rows,
                const I* indices, const slice<I>& work, const row_edges<I>& row, State& state) {
  if (work.count == 0) return;
  const first_ids<Unroll, I> first(indices, work);
  visit_slice<Unroll>(at, program, rows, indices, work, first, row, state);
}

/// One split row: its slices in order, each with a state of its own, as the device does it.
template <class Tile, int Unroll, class Program, class Rows, class I>
void host_split_row(const Program& program, const Rows& rows, const schedule_view<I>& schedule,
                    const I* indices, const lane_position<Tile>& at, const split_row<I>& split) {
  const row_edges<I> row{split.row, split.begin, split.degree};
  auto total = program.init(at, row);
  for (std::int64_t k = 0; k < schedule.slices_of(split); ++k) {
    const auto& work = schedule.slices[split.first + k];
    auto state = program.init(at, row);
    host_slice<Unroll>(at, program, rows, indices, work, row, state);
    program.merge(at, total, state);
  }
  program.finish(at, row, total);
}

/// Rows [begin, end) of those that are not split.
template <class Tile, int Unroll, class Program, class Rows, class I>
void host_whole_rows(const Program& program, const Rows& rows, const schedule_view<I>& schedule,
                     const I* indices, const lane_position<Tile>& at, std::int64_t begin,
                     std::int64_t end) {
  for (auto i = begin; i < end; ++i) {
    const auto& work = schedule.slices[schedule.split_slice_count() + i];
    const row_edges<I> row{work.row, work.begin, work.count};
    auto state = program.init(at, row);
    host_slice<Unroll>(at, program, rows, indices, work, row, state);
    program.finish(at, row, state);
  }
}

/// Calls use(lane_position<Tile>) for tiles of 32, then 8, then single features.
template <class Use>
void for_each_host_tile(std::int64_t features, Use use) {
  std::int64_t feature = 0;
  const auto walk = [&]<class Tile>(Tile) {
    for (; feature + Tile::features <= features; feature += Tile::features) {
      use(lane_position<Tile>{feature, features});
    }
  };
  walk(tile<1, 1, 32>{});
  walk(tile<1, 1, 8>{});
  walk(tile<1, 1, 1>{});
}

/// The traversal proper. It knows nothing of the offset type, so that it is compiled once for all.
template <int Unroll, class Program, class Rows, class I>
status host_traverse(const host_context& ctx, const Program& program, const Rows& rows,
                     const schedule_view<I>& schedule, const I* indices, std::int64_t features) {
  static_assert(row_program<Program, tile<1, 1, 32>, I>, "see engine/program.hpp");
  static_assert(
      !requires(const Program p) { p.enabled(); }, "the host has nothing to switch it off");
  const auto splits = schedule.split_row_count();
  const auto whole = schedule.slice_count - schedule.split_slice_count();
  // A split row is a piece of its own; the others go in pieces of this many.
  constexpr std::int64_t grain = 256;
  const auto pieces = splits + (whole + grain - 1) / grain;
  return parallel_pieces(ctx, pieces, 1, [&](std::int64_t piece, std::int64_t) {
    for_each_host_tile(features, [&]<class Tile>(const lane_position<Tile>& at) {
      if (piece < splits) {
        host_split_row<Tile, Unroll>(program, rows, schedule, indices, at,
                                     schedule.split_rows[piece]);
      } else {
        const auto begin = (piece - splits) * grain;
        host_whole_rows<Tile, Unroll>(program, rows, schedule, indices, at, begin,
                                      std::min(whole, begin + grain));
      }
    });
  });
}

}  // namespace detail

/// Runs a row program on the host, `Unroll` edges at a time. Features are folded 32 at once, what
/// is left 8 and then 1 at once; a tile is one lane's. Split rows are merged in slice order, so the
/// bits do not depend on the number of threads.
template <int Unroll, class Program, class Rows, class I, class O>
status traverse(const host_context& ctx, const Program& program, const Rows& rows,
                const direction_view<I, O>& graph, std::int64_t features) {
  return detail::host_traverse<Unroll>(ctx, program, rows, graph.schedule, graph.csr.indices,
                                       features);
}

}  // namespace quipu
