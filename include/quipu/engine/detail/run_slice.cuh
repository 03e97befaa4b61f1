// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstring>

#include "quipu/engine/detail/visit_slice.hpp"
#include "quipu/graph/schedule.hpp"

namespace quipu::detail {

template <class State>
inline constexpr int state_words = static_cast<int>((sizeof(State) + 3) / 4);

/// A state word by word, `step` words apart.
template <class State>
__device__ void store_state(std::uint32_t* to, int step, const State& s) {
  std::uint32_t bits[state_words<State>];
  memcpy(bits, &s, sizeof s);
#pragma unroll
  for (int w = 0; w < state_words<State>; ++w) to[w * step] = bits[w];
}
template <class State>
__device__ State load_state(const std::uint32_t* from, int step) {
  std::uint32_t bits[state_words<State>];
#pragma unroll
  for (int w = 0; w < state_words<State>; ++w) bits[w] = from[w * step];
  State s;
  memcpy(&s, bits, sizeof s);
  return s;
}

/// Partial states lie word by word, lanes side by side, so that a group reads and writes them in
/// whole sectors: [span of slices][tile][word][lane].
template <class Tile, class State>
struct partial_states {
  static constexpr int words = state_words<State>;
  std::uint32_t* data = nullptr;
  std::int64_t tiles = 1;
  int span = 1;  // so many slices of a row have one state, met in the block that visits them

  static std::int64_t count(std::int64_t spans, std::int64_t tiles) {
    return spans * tiles * words * Tile::lanes;
  }
  __device__ std::uint32_t* at(std::int64_t span_index, std::int64_t tile, int lane) const {
    return data + ((span_index * tiles + tile) * words) * Tile::lanes + lane;
  }
  __device__ void store(std::int64_t span_index, std::int64_t tile, int lane,
                        const State& s) const {
    store_state(at(span_index, tile, lane), Tile::lanes, s);
  }
  __device__ State load(std::int64_t span_index, std::int64_t tile, int lane) const {
    return load_state<State>(at(span_index, tile, lane), Tile::lanes);
  }
};

/// What the states of a block take in shared memory, where they meet.
inline constexpr std::size_t most_meeting_bytes = 32 * 1024;
template <class State, int Threads>
inline constexpr std::size_t meeting_bytes = std::size_t{4} * state_words<State>* Threads;

/// How many slices of a row meet in a block: as many as it has, up to 8, if it has a power of two
/// of them and states are not too large. The lengths of split rows are made for it (schedule.hpp).
template <class Tile, class State, int Threads>
constexpr int meeting_span(std::int64_t tiles) {
  constexpr int groups = Threads / Tile::lanes;
  const bool meets = Tile::side_by_side && std::has_single_bit(unsigned{Threads}) &&
                     meeting_bytes<State, Threads> <= most_meeting_bytes;
  if (!meets || tiles < 1 || groups % tiles != 0) return 1;
  const auto together = static_cast<int>(groups / tiles);
  return together < 8 ? together : 8;
}

template <class Program>
inline constexpr bool writes_edges_only = requires {
  requires Program::writes_edges;
};

template <class I>
__device__ slice<I> load_slice(const slice<I>* from) {
  if constexpr (sizeof(slice<I>) == 16) {
    const uint4 bits = __ldg(reinterpret_cast<const uint4*>(from));
    slice<I> s;
    memcpy(&s, &bits, sizeof s);
    return s;
  } else {
    return *from;
  }
}

/// What visits the edges of a row: the program, or what it makes of itself for this row and for a
/// total over all rows, if there is one (device_totals.cuh).
template <class Program, class Position, class I, class... Total>
__device__ decltype(auto) for_row(const Program& program, const Position& at,
                                  const row_edges<I>& row, Total&... total) {
  if constexpr (requires { program.for_row(at, row, total...); }) {
    return program.for_row(at, row, total...);
  } else {
    return (program);
  }
}

/// The slice and the tile of a group of lanes.
struct group_work {
  std::int64_t slice_index, tile;
};
/// Finds them. What is asked once the edges are done is found anew, so that no register keeps it
/// meanwhile: the compiler must not remember.
template <class Tile, int Threads>
struct place_of_group {
  static constexpr int groups = Threads / Tile::lanes;
  std::int64_t tiles;

  __device__ group_work find() const {
    const auto group = first_group() + static_cast<int>(threadIdx.x) / Tile::lanes;
    if constexpr (!Tile::side_by_side) return {group, blockIdx.y};
    if (tiles == 1) return {group, 0};
    if (group <= 0xffffffff) {
      const auto g = static_cast<std::uint32_t>(group), t = static_cast<std::uint32_t>(tiles);
      return {g / t, g % t};
    }
    return {group / tiles, group % tiles};
  }
  /// Whether the first slice of the block, whose tiles lie side by side, is one of the first
  /// `slices`.
  __device__ bool block_is_among(std::int64_t slices) const {
    return first_group() < slices * tiles;
  }

 private:
  __device__ static std::int64_t first_group() {
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return static_cast<std::int64_t>(block) * groups;
  }
};
/// The same of a group that walks slices. A block takes `together` of them at once, from a multiple
/// of that on, a power of two, if they meet.
template <class Tile, int Threads>
struct place_in_walk {
  std::int64_t index;
  place_of_group<Tile, Threads> group;
  std::int64_t together = 1;

  __device__ group_work find() const { return {index, group.find().tile}; }
  __device__ bool block_is_among(std::int64_t slices) const { return (index & -together) < slices; }
};

/// The row of a slice, and how many slices it has.
template <class I>
struct owner {
  row_edges<I> row;
  std::int64_t slices;
};
template <class I>
__device__ owner<I> owner_of(const schedule_view<I>& schedule, std::int64_t index) {
  if (index < schedule.split_slice_count()) {
    const auto& split = schedule.split_rows[schedule.split_of[index]];
    return {{split.row, split.begin, split.degree}, schedule.slices_of(split)};
  }
  const auto whole = load_slice(schedule.slices + index);
  return {{whole.row, whole.begin, whole.count}, 1};
}

/// Visits a slice that is a whole row, and finishes it.
template <int Unroll, class Tile, class Program, class Rows, class I, class... Total>
__device__ void run_row(const lane_position<Tile>& at, const Program& program, const Rows& rows,
                        const I* indices, const slice<I>& work, Total&... total) {
  const row_edges<I> row{work.row, work.begin, work.count};
  const first_ids<Unroll, I> first(indices, work);
  auto state = program.init(at, row);
  auto&& visitor = for_row(program, at, row, total...);
  visit_slice<Unroll>(at, visitor, rows, indices, work, first, row, state);
  program.finish(at, row, state);
}

/// Visits a slice, and leaves its state in `meeting`, [word][thread], if slices of the block meet,
/// else in `partial`.
template <int Unroll, int Threads, class Tile, class Program, class Rows, class I, class Partial,
          class Place, class... Total>
__device__ void run_part(const lane_position<Tile>& at, const Program& program, const Rows& rows,
                         const I* indices, const schedule_view<I>& schedule, const Partial& partial,
                         const Place& own, std::int64_t index, std::uint32_t* meeting,
                         Total&... total) {
  const auto row = owner_of(schedule, index).row;
  const auto work = load_slice(schedule.slices + index);
  const first_ids<Unroll, I> first(indices, work);
  auto state = program.init(at, row);
  auto&& visitor = for_row(program, at, row, total...);
  visit_slice<Unroll>(at, visitor, rows, indices, work, first, row, state);
  if constexpr (writes_edges_only<Program>) return;
  if (partial.span > 1) {
    store_state(meeting + threadIdx.x, Threads, state);
  } else {
    const auto again = own.find();
    partial.store(again.slice_index, again.tile, static_cast<int>(threadIdx.x) % Tile::lanes,
                  state);
  }
}

/// The first group of a row's span merges what its block left in `meeting`, in slice order. Then
/// the row is finished, or, if it has more, its state stored.
template <class Tile, int Threads, class Program, class I, class Partial, class Place>
__device__ void merge_span(const lane_position<Tile>& at, const Program& program,
                           const schedule_view<I>& schedule, const Partial& partial,
                           const Place& own, const std::uint32_t* meeting) {
  using state_type = typename Program::template state<Tile>;
  const auto [index, tile] = own.find();
  if (index >= schedule.slice_count) return;
  const auto [row, slices] = owner_of(schedule, index);
  const int met = slices < partial.span ? static_cast<int>(slices) : partial.span;
  if ((index & (met - 1)) != 0) return;  // rows lie on borders of their lengths
  const int step = static_cast<int>(partial.tiles) * Tile::lanes;
  auto state = load_state<state_type>(meeting + threadIdx.x, Threads);
#pragma unroll 1
  for (int k = 1; k < met; ++k) {
    program.merge(at, state, load_state<state_type>(meeting + threadIdx.x + k * step, Threads));
  }
  if (slices <= partial.span) {
    program.finish(at, row, state);
  } else {
    partial.store(index / partial.span, tile, static_cast<int>(threadIdx.x) % Tile::lanes, state);
  }
}

/// Visits the slice of a group, `index`, if there is one, in a block that has parts of rows, and
/// merges those that meet.
template <int Unroll, int Threads, class Tile, class Program, class Rows, class I, class Partial,
          class Place, class... Total>
__device__ void run_parts(const lane_position<Tile>& at, const Program& program, const Rows& rows,
                          const I* indices, const schedule_view<I>& schedule,
                          const Partial& partial, const Place& own, std::int64_t index,
                          std::uint32_t* meeting, Total&... total) {
  if (index < schedule.slice_count) {
    run_part<Unroll, Threads>(at, program, rows, indices, schedule, partial, own, index, meeting,
                              total...);
  }
  if constexpr (Tile::side_by_side) {
    if (partial.span == 1) return;
    static_assert(!writes_edges_only<Program>, "no states meet");
    __syncthreads();
    merge_span<Tile, Threads>(at, program, schedule, partial, own, meeting);
  }
}

/// Whether a group's slice is a part of a row, or meets parts in its block.
template <int Threads, class I, class Partial, class Place>
__device__ bool has_parts(const schedule_view<I>& schedule, const Partial& partial,
                          const Place& own, std::int64_t index) {
  const auto splits = schedule.split_slice_count();
  if (partial.span == 1 || index >= splits + Threads) return index < splits;
  return own.block_is_among(splits);
}

template <int Unroll, int Threads, class Tile, class Program, class Rows, class I, class Partial,
          class Place>
__device__ void run_slice(const lane_position<Tile>& at, const Program& program, const Rows& rows,
                          const I* indices, const schedule_view<I>& schedule,
                          const Partial& partial, const Place& own, std::int64_t index,
                          std::uint32_t* meeting) {
  if (has_parts<Threads>(schedule, partial, own, index)) {
    run_parts<Unroll, Threads>(at, program, rows, indices, schedule, partial, own, index, meeting);
  } else if (index < schedule.slice_count) {
    run_row<Unroll>(at, program, rows, indices, load_slice(schedule.slices + index));
  }
}

}  // namespace quipu::detail
