// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/device_engine.cuh"

namespace quipu {

/// Where a traversal leaves sums over all edges, one for each head and feature: what the gradient
/// of a parameter is. A group of lanes walks `slices_each` slices in a row and sums in registers;
/// `share` groups of a block that have the same head meet; what is left are `sets` sets of sums
/// [sets, tiles, features], which `sum_totals` adds up. All in an order that the schedule settles.
template <class A>
struct total_sets {
  A* data = nullptr;
  A* fewer = nullptr;  // [blocks of sum_totals, tiles, features]
  std::int64_t sets = 0;
  std::int64_t tiles = 1;
  std::int64_t features = 0;
  std::int64_t slices_each = 1;
  std::int64_t share = 1;
};

namespace detail {

/// sum_totals adds the sets up by this many blocks for a stretch of features, then by one.
inline constexpr std::int64_t total_blocks = 256;

/// The slices of a group, one after the other; `total` is what the program adds to.
template <class Tile, int Unroll, int Threads, int LeastBlocks, class A, class Program, class Rows,
          class I>
__global__ void __launch_bounds__(Threads, LeastBlocks)
    totals_kernel(const Program program, const Rows rows, const I* __restrict__ indices,
                  const schedule_view<I> schedule, const std::int64_t features,
                  const partial_states<Tile, typename Program::template state<Tile>> partial,
                  const total_sets<A> totals) {
  constexpr int groups = Threads / Tile::lanes;
  __shared__ A meeting[groups][Tile::elements][Tile::lanes];
  if (schedule.split_slice_count > 0) launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
  const int own = static_cast<int>(threadIdx.x) / Tile::lanes;
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * groups + own;
  const std::int64_t tile = group % partial.tiles, run = group / partial.tiles;
  const auto at = lane_position<Tile>::at(lane, tile, features);
  A total[Tile::elements];
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) total[i] = A{0};
  const std::int64_t first = run * totals.slices_each;
  const std::int64_t end = first + totals.slices_each < schedule.slice_count
                               ? first + totals.slices_each
                               : schedule.slice_count;
#pragma unroll 1
  for (std::int64_t index = first; index < end; ++index) {
    run_slice<Unroll>(at, program, rows, indices, schedule, partial, index, tile, total);
  }
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) meeting[own][i][lane] = total[i];
  __syncthreads();
  const std::int64_t set = run / totals.share;
  if (run % totals.share != 0 || set >= totals.sets) return;
  const int step = static_cast<int>(partial.tiles);
  for (int g = own + step; g < own + static_cast<int>(totals.share) * step; g += step) {
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) total[i] += meeting[g][i][lane];
  }
  A* to = totals.data + (set * partial.tiles + tile) * features;
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) {
    const auto f = at.feature(i / Tile::width) + i % Tile::width;
    if (at.active(i / Tile::width)) to[f] = total[i];
  }
}

/// Adds up sets [blockIdx.y * count, ...) for 32 columns: warps take sets in turn, then meet.
/// `store(block, column, sum)`.
template <int Warps, class A, class Store>
__global__ void __launch_bounds__(32 * Warps)
    sum_sets(const A* from, std::int64_t sets, std::int64_t width, std::int64_t count,
             const Store store) {
  __shared__ A meeting[Warps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
  const std::int64_t first = blockIdx.y * count;
  const std::int64_t end = first + count < sets ? first + count : sets;
  A sum{0};
  if (column < width) {
    for (std::int64_t s = first + warp; s < end; s += Warps) sum += from[s * width + column];
  }
  meeting[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  for (int w = 1; w < Warps; ++w) sum += meeting[w][lane];
  store(static_cast<std::int64_t>(blockIdx.y), column, sum);
}

template <class A>
struct store_set {
  A* to;
  std::int64_t width;
  __device__ void operator()(std::int64_t set, std::int64_t column, A sum) const {
    to[set * width + column] = sum;
  }
};
template <element T>
struct store_by_head {
  T* to;
  std::int64_t stride, features;
  __device__ void operator()(std::int64_t, std::int64_t column, accumulator<T> sum) const {
    to[column / features * stride + column % features] = narrow<T>(sum);
  }
};

}  // namespace detail

/// Lays out the sets of a traversal whose scratch is `partial`. They take about `bytes` at most;
/// where a group has to walk several slices for that, it does.
template <class A, engine_policy P, class I, class Partial>
total_sets<A> carve_totals(arena& scratch, const schedule_view<I>& schedule, const Partial& partial,
                           std::int64_t features, std::int64_t bytes) {
  constexpr std::int64_t groups = P.threads / P.lanes;
  total_sets<A> t;
  t.tiles = partial.tiles;
  t.features = features;
  if (schedule.slice_count == 0 || t.tiles == 0) return t;
  t.share = groups % t.tiles == 0 ? groups / t.tiles : 1;
  const auto set_bytes = t.tiles * features * static_cast<std::int64_t>(sizeof(A));
  const auto allowed = std::max<std::int64_t>(1, bytes / std::max<std::int64_t>(1, set_bytes));
  t.slices_each = std::clamp<std::int64_t>(
      (schedule.slice_count + allowed * t.share - 1) / (allowed * t.share), 1, 64);
  const auto slices_a_set = t.slices_each * t.share;
  t.sets = (schedule.slice_count + slices_a_set - 1) / slices_a_set;
  t.data = scratch.take<A>(static_cast<std::size_t>(t.sets * t.tiles * features));
  t.fewer = scratch.take<A>(
      static_cast<std::size_t>(std::min(t.sets, detail::total_blocks) * t.tiles * features));
  return t;
}

/// `traverse` for a program by heads whose `for_row(at, row, total)` takes what to add to, an
/// accumulator for each element of the tile. A split row's totals are added slice by slice.
template <engine_policy P, class A, class Program, class Rows, class I, class O, class Partial>
status traverse_with_totals(const context& ctx, const Program& program, const Rows& rows,
                            const direction_view<I, O>& graph, std::int64_t features,
                            const Partial& partial, const total_sets<A>& totals) {
  using tile_type = program_tile<P, Program>;
  static_assert(row_program<Program, tile_type, I> && tile_type::side_by_side);
  const auto& schedule = graph.schedule;
  if (schedule.slice_count == 0 || features == 0 || partial.tiles == 0) return success();
  if (auto s = check_launch<P>(schedule, partial); !s.ok()) return s;
  constexpr int least_blocks = detail::least_blocks_for<P, I, Program>;
  constexpr std::int64_t groups = P.threads / P.lanes;
  const auto runs = (schedule.slice_count + totals.slices_each - 1) / totals.slices_each;
  const auto blocks = (runs * partial.tiles + groups - 1) / groups;
  auto s = detail::launch(
      ctx, detail::totals_kernel<tile_type, P.unroll, P.threads, least_blocks, A, Program, Rows, I>,
      dim3(static_cast<unsigned>(blocks)), P.threads, detail::start::in_order, program, rows,
      graph.csr.indices, schedule, features, partial, totals);
  return s.ok() ? merge_split_rows<P>(ctx, program, schedule, features, partial) : s;
}

/// Adds the sets up into to[head * stride + feature], and writes zeros if there are none.
template <element T>
status sum_totals(const context& ctx, const total_sets<accumulator<T>>& totals, T* to,
                  std::int64_t stride) {
  using namespace detail;
  using A = accumulator<T>;
  constexpr int warps = 8;
  const auto width = totals.tiles * totals.features;
  if (width == 0) return success();
  const auto stretches = static_cast<unsigned>((width + 31) / 32);
  const auto count = std::max<std::int64_t>(1, (totals.sets + total_blocks - 1) / total_blocks);
  const auto blocks = (totals.sets + count - 1) / count;
  if (blocks > 0) {
    const auto s =
        launch(ctx, sum_sets<warps, A, store_set<A>>,
               dim3(stretches, static_cast<unsigned>(blocks)), 32 * warps, start::in_order,
               totals.data, totals.sets, width, count, store_set<A>{totals.fewer, width});
    if (!s.ok()) return s;
  }
  return launch(ctx, sum_sets<warps, A, store_by_head<T>>, dim3(stretches), 32 * warps,
                start::in_order, totals.fewer, blocks, width, blocks,
                store_by_head<T>{to, stride, totals.features});
}

}  // namespace quipu
