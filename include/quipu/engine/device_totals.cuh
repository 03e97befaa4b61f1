// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/device_engine.cuh"

namespace quipu {

/// Where a traversal leaves sums over all edges, one for each head and feature: what the gradient
/// of a parameter is. A group of lanes walks every `runs`-th slice, so that groups that run
/// together walk neighbouring slices, those of a block whole spans (partial_states). `share` groups
/// of a block that have the same head meet; what is left are `sets` sets of sums [sets, tiles,
/// features], which `sum_totals` adds up. All in an order that the schedule settles.
template <class A>
struct total_sets {
  A* data = nullptr;
  std::int64_t sets = 0;
  std::int64_t tiles = 1;
  std::int64_t features = 0;
  std::int64_t runs = 0;
  std::int64_t share = 1;
};

namespace detail {

/// sum_totals adds the sets of a traversal up by this many blocks for a stretch of features, then
/// by one.
inline constexpr std::int64_t total_blocks = 256;

/// A lane's sums, in shared memory: they are asked for once a slice, and leave registers free.
template <int Threads, class A>
struct shared_totals {
  A* data;
  __device__ A& operator[](int i) const { return data[i * Threads]; }
};

/// The slices of a group, one after the other; `total` is what the program adds to.
template <class Tile, int Unroll, int Threads, int LeastBlocks, class A, class Program, class Rows,
          class I>
__global__ void __launch_bounds__(Threads, LeastBlocks)
    totals_kernel(const Program program, const Rows rows, const I* __restrict__ indices,
                  const schedule_view<I> schedule, const std::int64_t features,
                  const partial_states<Tile, typename Program::template state<Tile>> partial,
                  const total_sets<A> totals) {
  extern __shared__ std::uint32_t states[];
  __shared__ A meeting[Tile::elements][Threads];
  if (schedule.split_slice_count() > 0) launch_dependents();  // which merge, or sum totals up
  const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
  const place_of_group<Tile, Threads> own{partial.tiles};
  const auto [first, tile] = own.find();
  const auto at = lane_position<Tile>::at(lane, tile, features);
  const shared_totals<Threads, A> total{&meeting[0][threadIdx.x]};
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) total[i] = A{0};
  place_in_walk<Tile, Threads> here{first < totals.runs ? first : schedule.slice_count, own,
                                    totals.share};
  // A group whose slices are at an end may still meet the others of its block.
#pragma unroll 1
  for (bool parts = true;; here.index += totals.runs) {
    parts = parts && has_parts<Threads>(schedule, partial, here, here.index);
    if (parts) {
      run_parts<Unroll, Threads>(at, program, rows, indices, schedule, partial, here, here.index,
                                 states, total);
      if (partial.span > 1) __syncthreads();  // before the next slices' states
    } else if (here.index < schedule.slice_count) {
      run_row<Unroll>(at, program, rows, indices, load_slice(schedule.slices + here.index), total);
    } else {
      break;
    }
  }
  __syncthreads();
  const auto [run, of_tile] = own.find();
  const std::int64_t set = run / totals.share;
  if (run % totals.share != 0 || set >= totals.sets) return;
  const int group = static_cast<int>(threadIdx.x) / Tile::lanes;
  const int step = static_cast<int>(partial.tiles);
  A sum[Tile::elements];
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) sum[i] = total[i];
  for (int g = group + step; g < group + static_cast<int>(totals.share) * step; g += step) {
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) sum[i] += meeting[i][g * Tile::lanes + lane];
  }
  A* to = totals.data + (set * partial.tiles + of_tile) * features;
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) {
    const auto f = at.feature(i / Tile::width) + i % Tile::width;
    if (at.active(i / Tile::width)) to[f] = sum[i];
  }
}

/// Sets of sums that lie one behind the other, [sets, width].
template <class A>
struct set_list {
  const A* data = nullptr;
  std::int64_t sets = 0;
  /// How many a block adds up, if `total_blocks` are to do it.
  __host__ __device__ std::int64_t share() const {
    return (sets + total_blocks - 1) / total_blocks;
  }
  __host__ __device__ std::int64_t blocks() const {
    return sets == 0 ? 0 : (sets + share() - 1) / share();
  }
};

/// Adds up sets [first, end) for 32 columns: warps take sets in turn, then meet. Warp 0 has the
/// sum.
template <int Warps, class A>
__device__ A sum_sets(const A* from, std::int64_t width, std::int64_t column, std::int64_t first,
                      std::int64_t end) {
  __shared__ A meeting[Warps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  A sum{0};
  if (column < width) {
    for (std::int64_t s = first + warp; s < end; s += Warps) sum += from[s * width + column];
  }
  meeting[warp][lane] = sum;
  __syncthreads();
  if (warp == 0) {
    for (int w = 1; w < Warps; ++w) sum += meeting[w][lane];
  }
  return sum;
}

/// Makes one set of every block's share. Blocks of the second list follow those of the first.
template <int Warps, class A>
__global__ void __launch_bounds__(32 * Warps)
    shrink_sets(const set_list<A> one, const set_list<A> other, std::int64_t width, A* to) {
  wait_for_primary();
  const auto column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const bool second = blockIdx.y >= one.blocks();
  const set_list<A> list{second ? other.data : one.data, second ? other.sets : one.sets};
  const std::int64_t first = (blockIdx.y - (second ? one.blocks() : 0)) * list.share();
  const std::int64_t end = first + list.share() < list.sets ? first + list.share() : list.sets;
  const A sum = sum_sets<Warps>(list.data, width, column, first, end);
  if (threadIdx.x < 32 && column < width) to[blockIdx.y * width + column] = sum;
}

/// Makes one of all sets, and writes it by head.
template <int Warps, element T>
__global__ void __launch_bounds__(32 * Warps)
    finish_sets(const set_list<accumulator<T>> list, std::int64_t width, T* to, std::int64_t stride,
                std::int64_t features) {
  wait_for_primary();
  const auto column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const auto sum = sum_sets<Warps>(list.data, width, column, 0, list.sets);
  if (threadIdx.x < 32 && column < width) {
    to[column / features * stride + column % features] = narrow<T>(sum);
  }
}

}  // namespace detail

/// Lays out the sets of a traversal of `tiles` heads. They take about `bytes` at most;
/// where a group has to walk several slices for that, it does.
template <class A, engine_policy P, class I>
total_sets<A> carve_totals(arena& scratch, const schedule_view<I>& schedule, std::int64_t tiles,
                           std::int64_t features, std::int64_t bytes) {
  constexpr std::int64_t groups = P.threads / P.lanes;
  total_sets<A> t;
  t.tiles = tiles;
  t.features = features;
  if (schedule.slice_count == 0 || t.tiles == 0) return t;
  t.share = groups % t.tiles == 0 ? groups / t.tiles : 1;
  const auto set_bytes = t.tiles * features * static_cast<std::int64_t>(sizeof(A));
  const auto allowed = std::max<std::int64_t>(1, bytes / std::max<std::int64_t>(1, set_bytes));
  const auto slices_each = std::clamp<std::int64_t>(
      (schedule.slice_count + allowed * t.share - 1) / (allowed * t.share), 1, 64);
  t.sets = ((schedule.slice_count + slices_each - 1) / slices_each + t.share - 1) / t.share;
  t.runs = t.sets * t.share;
  t.data = scratch.take<A>(t.sets * t.tiles * features);
  return t;
}

/// `traverse` for a program by heads whose `for_row(at, row, total)` takes what to add to, an
/// accumulator for each element of the tile (shared_totals). A split row's totals are added slice
/// by slice.
template <engine_policy P, class A, class Program, class Rows, class I, class O, class Partial>
status traverse_with_totals(const context& ctx, const Program& program, const Rows& rows,
                            const direction_view<I, O>& graph, std::int64_t features,
                            const Partial& partial, const total_sets<A>& totals) {
  using tile_type = program_tile<P, Program>;
  static_assert(row_program<Program, tile_type, I> && tile_type::side_by_side);
  static_assert(
      tile_type::elements * P.threads * sizeof(A) + detail::most_meeting_bytes <= 48 * 1024,
      "totals and states that meet share the memory of a block");
  const auto& schedule = graph.schedule;
  if (schedule.slice_count == 0 || features == 0 || partial.tiles == 0) return success();
  if (auto s = check_launch<P>(schedule, partial); !s.ok()) return s;
  constexpr int least_blocks = detail::least_blocks_for<P, I, Program>;
  constexpr std::int64_t groups = P.threads / P.lanes;
  const auto blocks = (totals.runs * partial.tiles + groups - 1) / groups;
  auto s = detail::launch_with_memory(
      ctx, detail::totals_kernel<tile_type, P.unroll, P.threads, least_blocks, A, Program, Rows, I>,
      dim3(static_cast<unsigned>(blocks)), P.threads,
      detail::meeting_bytes_of<P.threads>(schedule, partial), detail::start::in_order, program,
      rows, graph.csr.indices, schedule, features, partial, totals);
  return s.ok() ? merge_split_rows<P>(ctx, program, schedule, features, partial) : s;
}

/// Scratch for `sum_totals`.
template <class A>
A* carve_sums(arena& scratch, const total_sets<A>& one, const total_sets<A>& other) {
  const auto blocks = detail::set_list<A>{one.data, one.sets}.blocks() +
                      detail::set_list<A>{other.data, other.sets}.blocks();
  return scratch.take<A>(blocks * one.tiles * one.features);
}

/// Adds the sets of two traversals up into to[head * stride + feature], and writes zeros if there
/// are none. `sums` comes from `carve_sums`.
template <element T>
status sum_totals(const context& ctx, const total_sets<accumulator<T>>& one,
                  const total_sets<accumulator<T>>& other, accumulator<T>* sums, T* to,
                  std::int64_t stride) {
  using namespace detail;
  using A = accumulator<T>;
  constexpr int warps = 8;
  const auto width = one.tiles * one.features;
  if (width == 0) return success();
  const set_list<A> first{one.data, one.sets}, second{other.data, other.sets};
  const auto stretches = static_cast<unsigned>((width + 31) / 32);
  const auto blocks = first.blocks() + second.blocks();
  if (blocks > 0) {
    const auto s =
        launch(ctx, shrink_sets<warps, A>, dim3(stretches, static_cast<unsigned>(blocks)),
               32 * warps, start::early, first, second, width, sums);
    if (!s.ok()) return s;
  }
  return launch(ctx, finish_sets<warps, T>, dim3(stretches), 32 * warps, start::early,
                set_list<A>{sums, blocks}, width, to, stride, one.features);
}

}  // namespace quipu
