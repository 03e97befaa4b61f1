// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <cuda/atomic>
#include <limits>

#include "quipu/engine/device_engine.cuh"

namespace quipu {

/// Where traversals leave sums over all edges, one for each head and feature: what the gradient of
/// a parameter is. The sums of a unit (totals_walk) go to one of several sets [sets, tiles,
/// features]: to one of its own if there are enough, else unit k to set k % sets, after those
/// before it. All in an order that the schedule and the device settle, so the bits are the same
/// every run.
template <class A>
struct total_sets {
  A* data = nullptr;
  std::int32_t* turns = nullptr;  // [sets, tiles] the units that are in
  A* sums = nullptr;  // [shrunk_sets, tiles, features]; null: sets are no more than that
  std::int64_t sets = 0;
  std::int64_t tiles = 1;
  std::int64_t features = 0;
  std::int64_t filled = 0;  // the first so many sets hold sums of earlier traversals
};

namespace detail {

/// How a traversal with totals goes: a group of lanes walks every `runs`-th slice, so that groups
/// that run together walk neighbouring slices, those of a block whole spans (partial_states). The
/// `share` groups of a block that have the same head make up a unit; where heads do not divide the
/// groups of a block, every group is one.
struct totals_walk {
  std::int64_t runs = 0, share = 1;
  std::int64_t units() const { return runs / share; }
};

/// More sets than this are first added up to so many at most.
inline constexpr std::int64_t shrunk_sets = 64;

/// A lane's sums, in shared memory: they are asked for once a slice, and leave registers free.
template <int Threads, class A>
struct shared_totals {
  A* data;
  __device__ A& operator[](int i) const { return data[i * Threads]; }
};

/// A lane's next slice, on its way while the present one is visited. It waits in shared memory,
/// where it takes no register; every lane has a copy of its own, and waits for no other lane.
template <class I>
struct slice_ahead {
  slice<I>* own;

  __device__ void fetch(const slice<I>* from) const {
    constexpr int step = sizeof(slice<I>) % 16 == 0 ? 16 : 8;
#pragma unroll
    for (int b = 0; b < static_cast<int>(sizeof(slice<I>)); b += step) {
      __pipeline_memcpy_async(reinterpret_cast<char*>(own) + b,
                              reinterpret_cast<const char*>(from) + b, step);
    }
    __pipeline_commit();
  }
  __device__ slice<I> take() const {
    __pipeline_wait_prior(0);
    asm volatile("" ::: "memory");  // no read goes before the wait
    return *own;
  }
};

/// Adds the sums of a unit, one of `units`, to its set. Units of the same set wait for each other.
/// Blocks start in order, so whom one waits for runs already or is through.
template <class Tile, class A>
__device__ void add_to_set(const lane_position<Tile>& at, const total_sets<A>& totals,
                           std::int64_t unit, std::int64_t units, std::int64_t tile,
                           A (&sum)[Tile::elements]) {
  const std::int64_t set = unit % totals.sets, earlier = unit / totals.sets;
  const bool in_turn = units > totals.sets;
  const cuda::atomic_ref<std::int32_t, cuda::thread_scope_device> turn(
      totals.turns[set * totals.tiles + tile]);
  const bool first_lane = threadIdx.x % Tile::lanes == 0;
  if (in_turn && earlier > 0) {
    while (first_lane && turn.load(cuda::memory_order_acquire) != earlier) {
    }
    __syncwarp(group_mask<Tile::lanes>());
  }
  A* to = totals.data + (set * totals.tiles + tile) * totals.features;
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) {
    if (!at.active(i / Tile::width)) continue;
    const auto f = at.feature(i / Tile::width) + i % Tile::width;
    if (earlier > 0 || set < totals.filled) sum[i] += __ldcg(to + f);
    to[f] = sum[i];
  }
  if (in_turn) {
    __syncwarp(group_mask<Tile::lanes>());
    if (first_lane) {
      turn.store(static_cast<std::int32_t>(earlier + 1), cuda::memory_order_release);
    }
  }
}

/// The slices of a group, one after the other; `total` is what the program adds to.
template <class Tile, int Unroll, int Threads, int LeastBlocks, class A, class Program, class Rows,
          class I>
__global__ void __launch_bounds__(Threads, LeastBlocks)
    totals_kernel(const Program program, const Rows rows, const I* __restrict__ indices,
                  const schedule_view<I> schedule, const std::int64_t features,
                  const partial_states<Tile, typename Program::template state<Tile>> partial,
                  const total_sets<A> totals, const totals_walk walk) {
  extern __shared__ std::uint32_t states[];
  __shared__ A meeting[Tile::elements][Threads];
  __shared__ alignas(16) slice<I> next_slices[Threads];
  wait_for_primary();
  launch_dependents();  // which merge, sum totals up, or are the other half of a gradient
  const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
  const place_of_group<Tile, Threads> own{partial.tiles};
  const auto [first, tile] = own.find();
  const auto at = lane_position<Tile>::at(lane, tile, features);
  const shared_totals<Threads, A> total{&meeting[0][threadIdx.x]};
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) total[i] = A{0};
  place_in_walk<Tile, Threads> here{first < walk.runs ? first : schedule.slice_count, own,
                                    walk.share};
  // A group whose slices are at an end may still meet the others of its block.
#pragma unroll 1
  for (; has_parts<Threads>(schedule, partial, here, here.index); here.index += walk.runs) {
    run_parts<Unroll, Threads>(at, program, rows, indices, schedule, partial, here, here.index,
                               states, total);
    if (partial.span > 1) __syncthreads();  // before the next slices' states
  }
  const slice_ahead<I> ahead{&next_slices[threadIdx.x]};
  if (here.index < schedule.slice_count) ahead.fetch(schedule.slices + here.index);
#pragma unroll 1
  while (here.index < schedule.slice_count) {
    const auto work = ahead.take();
    here.index += walk.runs;
    if (here.index < schedule.slice_count) ahead.fetch(schedule.slices + here.index);
    run_row<Unroll>(at, program, rows, indices, work, total);
  }
  __syncthreads();
  const auto [run, of_tile] = own.find();
  if (run % walk.share != 0 || run >= walk.runs) return;
  const int group = static_cast<int>(threadIdx.x) / Tile::lanes;
  const int step = static_cast<int>(partial.tiles);
  A sum[Tile::elements];
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) sum[i] = total[i];
  for (int g = group + step; g < group + static_cast<int>(walk.share) * step; g += step) {
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) sum[i] += meeting[i][g * Tile::lanes + lane];
  }
  add_to_set<Tile>(at, totals, run / walk.share, walk.runs / walk.share, of_tile, sum);
}

/// Adds up sets [first, end) for 32 columns: warps take sets in turn, then meet. Warp 0 has the
/// sum.
template <int Warps, class A>
__device__ A sum_sets(const A* from, std::int64_t width, std::int64_t column, std::int64_t first,
                      std::int64_t end) {
  __shared__ A meeting[Warps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  A sum{0};
  if (column < width) {
#pragma unroll 8
    for (std::int64_t s = first + warp; s < end; s += Warps) sum += from[s * width + column];
  }
  meeting[warp][lane] = sum;
  __syncthreads();
  if (warp == 0) {
    for (int w = 1; w < Warps; ++w) sum += meeting[w][lane];
  }
  return sum;
}

/// Makes one set of every `share` sets.
template <int Warps, class A>
__global__ void __launch_bounds__(32 * Warps)
    shrink_sets(const A* from, std::int64_t sets, std::int64_t share, std::int64_t width, A* to) {
  wait_for_primary();
  launch_dependents();  // which finish
  const auto column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const std::int64_t first = blockIdx.y * share;
  const std::int64_t end = first + share < sets ? first + share : sets;
  const A sum = sum_sets<Warps>(from, width, column, first, end);
  if (threadIdx.x < 32 && column < width) to[blockIdx.y * width + column] = sum;
}

/// Makes one of all sets, and writes it by head.
template <int Warps, element T>
__global__ void __launch_bounds__(32 * Warps)
    finish_sets(const accumulator<T>* from, std::int64_t sets, std::int64_t width, T* to,
                std::int64_t stride, std::int64_t features) {
  wait_for_primary();
  const auto column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const auto sum = sum_sets<Warps>(from, width, column, 0, sets);
  if (threadIdx.x < 32 && column < width) {
    to[column / features * stride + column % features] = narrow<T>(sum);
  }
}

/// How many slices a group walks. Walking hides the way to the next slice, and makes fewer units;
/// but groups that walk longer share less of the L2 cache, so walks end after about 56 edges. Where
/// rows are short, and all of them few walks, these are made so long that the last of a
/// multiprocessor are as many as the others, and longer rather than shorter. Measured on an H200,
/// 2026-12 (docs/performance.md).
constexpr std::int64_t choose_walk(std::int64_t slices, std::int64_t edges,
                                   std::int64_t groups_at_once) {
  constexpr std::int64_t walked_edges = 56, longest = 64, short_row = 8;
  if (edges >= short_row * slices || slices > longest * groups_at_once) {
    const auto walk = edges == 0 ? longest : (walked_edges * slices + edges - 1) / edges;
    return std::clamp<std::int64_t>(walk, 1, longest);
  }
  std::int64_t best = 1, best_time = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t walk = 1; walk <= 16; ++walk) {
    const auto at_once = walk * groups_at_once, time = (slices + at_once - 1) / at_once * walk;
    if (time <= best_time) {
      best = walk;
      best_time = time;
    }
  }
  return best;
}

/// The walk of a traversal, of two that share `sets`. It is made up to twice as long where that
/// leaves a set for every unit of both, or at least of one: adding to what is there, and more so
/// waiting for one's turn, costs some microseconds.
template <engine_policy P, class I, class O>
totals_walk walk_of(const context& ctx, const direction_view<I, O>& graph, std::int64_t tiles,
                    std::int64_t sets) {
  constexpr std::int64_t groups = P.threads / P.lanes;
  const auto slices = graph.schedule.slice_count;
  constexpr std::int64_t blocks = P.least_blocks > 1 ? P.least_blocks : 512 / P.threads;
  const auto at_once = std::max<std::int64_t>(1, ctx.multiprocessors * blocks * groups / tiles);
  const auto share = groups % tiles == 0 ? groups / tiles : 1;
  const auto of_length = [&](std::int64_t walk) {
    return totals_walk{((slices + walk - 1) / walk + share - 1) / share * share, share};
  };
  const auto best = choose_walk(slices, graph.csr.edges, at_once);
  for (const auto enough : {sets / 2, sets}) {
    for (auto walk = best; walk <= 2 * best; ++walk) {
      if (const auto w = of_length(walk); w.units() <= enough) return w;
    }
  }
  return of_length(best);
}

}  // namespace detail

/// Lays out sets for two traversals of at most `slices` slices and of `tiles` heads: as many as
/// there may be units, in about `bytes` bytes; but so many that no two units of a warp share one.
template <class A>
total_sets<A> carve_totals(arena& scratch, std::int64_t slices, std::int64_t tiles,
                           std::int64_t features, std::int64_t bytes) {
  constexpr auto sums = detail::shrunk_sets;
  const auto width = tiles * features;
  const auto set_bytes = width * static_cast<std::int64_t>(sizeof(A)) +
                         tiles * static_cast<std::int64_t>(sizeof(std::int32_t));
  const auto room = bytes / std::max<std::int64_t>(1, set_bytes);
  const auto most = std::max<std::int64_t>(1, 2 * slices);
  total_sets<A> t;
  t.sets = std::clamp(room > 2 * sums ? room - sums : std::min(room, sums),
                      std::min<std::int64_t>(32, most), most);
  t.tiles = tiles;
  t.features = features;
  t.data = scratch.take<A>(t.sets * width);
  t.turns = scratch.take<std::int32_t>(t.sets * tiles);
  t.sums = scratch.take<A>(t.sets > sums ? sums * width : 0);
  return t;
}

/// `traverse` for a program by heads whose `for_row(at, row, total)` takes what to add to, an
/// accumulator for each element of the tile (shared_totals). A split row's totals are added slice
/// by slice. `totals` gets them on top of what earlier traversals left there, on the same stream
/// and with no other work between: the kernel starts while the last one ends. The first does not:
/// what the caller launched before may not wait for its own predecessors.
template <engine_policy P, class A, class Program, class Rows, class I, class O, class Partial>
status traverse_with_totals(const context& ctx, const Program& program, const Rows& rows,
                            const direction_view<I, O>& graph, std::int64_t features,
                            const Partial& partial, total_sets<A>& totals) {
  using tile_type = program_tile<P, Program>;
  static_assert(row_program<Program, tile_type, I> && tile_type::side_by_side);
  using state_type = typename Program::template state<tile_type>;
  constexpr auto states = detail::meeting_bytes<state_type, P.threads>;
  static_assert(P.threads * (tile_type::elements * sizeof(A) + sizeof(slice<I>)) +
                        (states > detail::most_meeting_bytes ? 0 : states) <=
                    48 * 1024,
                "totals, slices and states that meet share the memory of a block");
  const auto& schedule = graph.schedule;
  if (schedule.slice_count == 0 || features == 0 || partial.tiles == 0) return success();
  if (auto s = check_launch<P>(schedule, partial); !s.ok()) return s;
  constexpr int least_blocks = detail::least_blocks_for<P, I, Program>;
  constexpr std::int64_t groups = P.threads / P.lanes;
  const auto walk = detail::walk_of<P>(ctx, graph, partial.tiles, totals.sets);
  const auto blocks = (walk.runs * partial.tiles + groups - 1) / groups;
  const auto units = walk.units();
  const bool behind_totals = totals.filled > 0;
  auto mine = totals;
  if (totals.filled + units <= totals.sets) {  // behind the others
    mine.data += totals.filled * totals.tiles * totals.features;
    mine.filled = 0;
    totals.filled += units;
  } else {
    totals.filled = std::max(totals.filled, std::min(totals.sets, units));
  }
  const bool in_turn = units > totals.sets;
  if (in_turn) {
    const auto count = static_cast<std::size_t>(totals.sets * totals.tiles);
    auto s = from_cuda(cudaMemsetAsync(totals.turns, 0, count * sizeof(*totals.turns), ctx.stream),
                       "memset");
    if (!s.ok()) return s;
  }
  auto s = detail::launch_with_memory(
      ctx, detail::totals_kernel<tile_type, P.unroll, P.threads, least_blocks, A, Program, Rows, I>,
      dim3(static_cast<unsigned>(blocks)), P.threads,
      detail::meeting_bytes_of<P.threads>(schedule, partial),
      behind_totals && !in_turn ? detail::start::early : detail::start::in_order, program, rows,
      graph.csr.indices, schedule, features, partial, mine, walk);
  return s.ok() ? merge_split_rows<P>(ctx, program, schedule, features, partial) : s;
}

/// Adds all sets up into to[head * stride + feature], and writes zeros if there are none.
template <element T>
status sum_totals(const context& ctx, const total_sets<accumulator<T>>& totals, T* to,
                  std::int64_t stride) {
  using namespace detail;
  using A = accumulator<T>;
  constexpr int warps = 8, last_warps = 16;
  const auto width = totals.tiles * totals.features;
  if (width == 0) return success();
  const auto stretches = static_cast<unsigned>((width + 31) / 32);
  const A* from = totals.data;
  auto sets = totals.filled;
  if (sets > shrunk_sets) {
    const auto share = (sets + shrunk_sets - 1) / shrunk_sets;
    const auto left = (sets + share - 1) / share;
    const auto s = launch(ctx, shrink_sets<warps, A>, dim3(stretches, static_cast<unsigned>(left)),
                          32 * warps, start::early, from, sets, share, width, totals.sums);
    if (!s.ok()) return s;
    from = totals.sums;
    sets = left;
  }
  return launch(ctx, finish_sets<last_warps, T>, dim3(stretches), 32 * last_warps,
                sets > 0 ? start::early : start::in_order, from, sets, width, to, stride,
                totals.features);
}

}  // namespace quipu
