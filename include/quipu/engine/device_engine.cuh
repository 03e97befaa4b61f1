// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "quipu/core/context.hpp"
#include "quipu/core/workspace.hpp"
#include "quipu/engine/detail/run_slice.cuh"
#include "quipu/engine/policy.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu {

namespace detail {

// A kernel that follows another may be set up while the other's last blocks still run: it is
// launched with `start::early` and every thread of it waits before it reads anything. Waits chain:
// a kernel that waited for one that waited sees the work of both.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ inline void wait_for_primary() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// A program may be switched off on the device, by a flag that an earlier kernel of its verb sets.
/// Such programs are exceptions' remedies: they get a grid of a few blocks that stride over the
/// work, because a launch that does nothing should cost nothing.
template <class Program>
inline constexpr bool is_gated = requires(const Program p) {
  p.enabled();
};

template <class Program>
__device__ bool enabled(const Program& program) {
  if constexpr (is_gated<Program>) {
    return program.enabled();
  } else {
    return true;
  }
}

template <class Program>
inline constexpr bool by_heads = requires {
  requires Program::by_heads;
};

/// One group of lanes a slice. Blocks go out in list order, which walks rows in visit order and so
/// keeps the L2 cache warm; the long slices of split rows go first.
template <class Tile, int Unroll, int Threads, int LeastBlocks, class Program, class Rows, class I>
__global__ void __launch_bounds__(Threads, LeastBlocks)
    slice_kernel(const Program program, const Rows rows, const I* __restrict__ indices,
                 const schedule_view<I> schedule, const std::int64_t features,
                 const partial_states<Tile, typename Program::template state<Tile>> partial) {
  extern __shared__ std::uint32_t meeting[];
  if (schedule.longer_than(partial.span).rows > 0 && !writes_edges_only<Program>) {
    launch_dependents();  // which merge
  }
  if (!enabled(program)) return;
  const place_of_group<Tile, Threads> own{partial.tiles};
  const auto [index, tile] = own.find();
  const auto at =
      lane_position<Tile>::at(static_cast<int>(threadIdx.x) % Tile::lanes, tile, features);
  if constexpr (is_gated<Program>) {
    static_assert(!Tile::side_by_side, "its slices meet nobody");
    constexpr std::int64_t groups = Threads / Tile::lanes;
    for (auto k = index; k < schedule.slice_count; k += gridDim.x * groups) {
      const place_in_walk<Tile, Threads> here{k, own};
      run_slice<Unroll, Threads>(at, program, rows, indices, schedule, partial, here, k, meeting);
    }
  } else {
    run_slice<Unroll, Threads>(at, program, rows, indices, schedule, partial, own, index, meeting);
  }
}

template <class Tile, class State>
inline constexpr int merge_groups = [] {
  constexpr int bytes = state_words<State> * 4 * Tile::lanes;
  int groups = 256 / Tile::lanes < 32 ? 256 / Tile::lanes : 32;
  while (groups > 1 && groups * bytes > 32 * 1024) groups /= 2;
  return groups;
}();

/// Merges one split row by a block: each group merges a run of its slices in order, then the runs
/// are merged in order. The order depends on the schedule alone, so the bits are the same every
/// run.
template <class Tile, class Program, class I, class Partial>
__device__ void merge_row(const Program& program, const split_row<I>& split, std::int64_t slices,
                          std::int64_t features, const Partial& partial, std::uint32_t* words) {
  using state_type = typename Program::template state<Tile>;
  constexpr int groups = merge_groups<Tile, state_type>;
  const int group = static_cast<int>(threadIdx.x) / Tile::lanes;
  const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
  const row_edges<I> row{split.row, split.begin, split.degree};
  const auto at = lane_position<Tile>::at(lane, blockIdx.y, features);
  const std::int64_t first = split.first / partial.span, spans = slices / partial.span;
  const std::int64_t run = (spans + groups - 1) / groups;
  const std::int64_t end = run * (group + 1) < spans ? run * (group + 1) : spans;
  auto state = program.init(at, row);
#pragma unroll 4
  for (std::int64_t k = run * group; k < end; ++k) {
    program.merge(at, state, partial.load(first + k, blockIdx.y, lane));
  }
  const Partial meeting{words, 1};
  meeting.store(group, 0, lane, state);
  __syncthreads();
  if (group == 0) {
    for (int g = 1; g < groups && run * g < spans; ++g) {
      program.merge(at, state, meeting.load(g, 0, lane));
    }
    program.finish(at, row, state);
  }
}

template <class Tile, class Program, class I>
__global__ void merge_kernel(
    const Program program, const schedule_view<I> schedule, const std::int64_t features,
    const partial_states<Tile, typename Program::template state<Tile>> partial) {
  using state_type = typename Program::template state<Tile>;
  __shared__ std::uint32_t
      words[merge_groups<Tile, state_type> * state_words<state_type> * Tile::lanes];
  wait_for_primary();
  if (!enabled(program)) return;
  if constexpr (is_gated<Program>) {
    const auto rows = schedule.longer_than(partial.span).rows;
    for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
      const auto split = schedule.split_rows[r];
      merge_row<Tile>(program, split, schedule.slices_of(split), features, partial, words);
      __syncthreads();
    }
  } else {
    const auto split = schedule.split_rows[blockIdx.x];
    merge_row<Tile>(program, split, schedule.slices_of(split), features, partial, words);
  }
}

/// Whether what runs on a device was compiled for one where kernels wait for their primaries. A
/// driver may have made it from code for an older one.
inline bool kernels_wait_on(capability device) {
  constexpr int built_for[] = {__CUDA_ARCH_LIST__};
  bool waits = false;
  for (const int arch : built_for) {
    waits = waits || (arch >= 900 && capability{arch / 100, arch / 10 % 10} <= device);
  }
  return waits;
}

enum class start { in_order, early };

template <class Kernel, class... Args>
status launch_with_memory(const context& ctx, Kernel kernel, dim3 grid, int threads,
                          std::size_t shared_bytes, start when, const Args&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = ctx.stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  if (when == start::early && kernels_wait_on(ctx.arch)) {
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  return from_cuda(cudaLaunchKernelEx(&config, kernel, args...), "kernel launch");
}
template <class Kernel, class... Args>
status launch(const context& ctx, Kernel kernel, dim3 grid, int threads, start when,
              const Args&... args) {
  return launch_with_memory(ctx, kernel, grid, threads, 0, when, args...);
}

/// What a launch asks for them: blocks of graphs without split rows leave it to the L1 cache.
template <int Threads, class Tile, class State, class I>
std::size_t meeting_bytes_of(const schedule_view<I>& schedule,
                             const partial_states<Tile, State>& partial) {
  return partial.span > 1 && schedule.split_slice_count() > 0 ? meeting_bytes<State, Threads> : 0;
}

}  // namespace detail

template <engine_policy P>
using policy_tile = tile<P.lanes, P.vectors, P.width>;

/// A program of several heads says so: then tiles are heads.
template <engine_policy P, class Program>
using program_tile = std::conditional_t<detail::by_heads<Program>,
                                        head_tile<P.lanes, P.vectors, P.width>, policy_tile<P>>;

/// Scratch of one traversal: a state for every span of a split row that no block has whole. Run
/// with a counting arena it gives the size, with a binding one the memory.
template <engine_policy P, class Program, class I>
auto carve_partials(arena& scratch, const schedule_view<I>& schedule, std::int64_t features,
                    std::int64_t heads = 1) {
  using tile_type = program_tile<P, Program>;
  using state_type = typename Program::template state<tile_type>;
  using states = detail::partial_states<tile_type, state_type>;
  const std::int64_t tiles =
      tile_type::side_by_side ? heads : (features + tile_type::features - 1) / tile_type::features;
  const int span = detail::meeting_span<tile_type, state_type, P.threads>(tiles);
  const auto spans = schedule.longer_than(span).slices / span;
  return states{scratch.take<std::uint32_t>(states::count(spans, tiles)), tiles, span};
}

/// For programs that write all their results edge by edge, one tile wide.
template <engine_policy P, class Program>
auto no_partials() {
  static_assert(detail::writes_edges_only<Program>);
  using tile_type = policy_tile<P>;
  return detail::partial_states<tile_type, typename Program::template state<tile_type>>{nullptr, 1};
}

namespace detail {
template <engine_policy P, class I, class Tile, class State>
std::int64_t blocks_of(const schedule_view<I>& schedule,
                       const partial_states<Tile, State>& partial) {
  constexpr std::int64_t groups = P.threads / P.lanes;
  const auto work = schedule.slice_count * (Tile::side_by_side ? partial.tiles : 1);
  return (work + groups - 1) / groups;
}
}  // namespace detail

/// Refuses what does not fit one launch. `traverse` asks too; a verb of several launches asks
/// first.
template <engine_policy P, class I, class Partial>
status check_launch(const schedule_view<I>& schedule, const Partial& partial) {
  if (detail::blocks_of<P>(schedule, partial) > 0x7fffffff || partial.tiles > 0xffff) {
    return failure(status_code::unsupported, "graph: too many rows or features for one launch");
  }
  return success();
}

namespace detail {
/// Ids of 64 bits take more registers than a policy was measured with, and so may a program, which
/// says so by `bounds_blocks`: then no bound but that of 1.
template <engine_policy P, class I, class Program>
inline constexpr int least_blocks_for = [] {
  if constexpr (requires { Program::bounds_blocks; }) {
    if (!Program::bounds_blocks) return 1;
  }
  return sizeof(I) == 4 || P.least_blocks == 0 ? P.least_blocks : 1;
}();

/// A launch of a gated program has few blocks (is_gated).
template <class Program>
unsigned limited_blocks(const context& ctx, std::int64_t blocks) {
  const std::int64_t few = 4 * static_cast<std::int64_t>(ctx.multiprocessors);
  return static_cast<unsigned>(is_gated<Program> ? std::min(blocks, few) : blocks);
}
}  // namespace detail

/// The second launch of a traversal: merges and finishes the split rows that no block has whole, if
/// there are any.
template <engine_policy P, class Program, class I, class Partial>
status merge_split_rows(const context& ctx, const Program& program,
                        const schedule_view<I>& schedule, std::int64_t features,
                        const Partial& partial) {
  const auto rows = schedule.longer_than(partial.span).rows;
  if (rows == 0) return success();
  using tile_type = program_tile<P, Program>;
  constexpr int threads =
      tile_type::lanes *
      detail::merge_groups<tile_type, typename Program::template state<tile_type>>;
  return detail::launch(
      ctx, detail::merge_kernel<tile_type, Program, I>,
      dim3(detail::limited_blocks<Program>(ctx, rows), static_cast<unsigned>(partial.tiles)),
      threads, detail::start::early, program, schedule, features, partial);
}

/// Runs a row program on the device: one launch over all slices, and one over the split rows that
/// no block has whole, if there are any. Only enqueues; `partial` comes from `carve_partials` with
/// the same arguments.
template <engine_policy P, class Program, class Rows, class I, class O, class Partial>
status traverse(const context& ctx, const Program& program, const Rows& rows,
                const direction_view<I, O>& graph, std::int64_t features, const Partial& partial) {
  using tile_type = program_tile<P, Program>;
  static_assert(row_program<Program, tile_type, I>, "see engine/program.hpp");
  static_assert(P.threads % 32 == 0, "whole warps");
  const auto& schedule = graph.schedule;
  if (schedule.slice_count == 0 || features == 0 || partial.tiles == 0) return success();
  if (auto s = check_launch<P>(schedule, partial); !s.ok()) return s;
  const dim3 grid(detail::limited_blocks<Program>(ctx, detail::blocks_of<P>(schedule, partial)),
                  tile_type::side_by_side ? 1u : static_cast<unsigned>(partial.tiles));
  auto s = detail::launch_with_memory(
      ctx,
      detail::slice_kernel<tile_type, P.unroll, P.threads, detail::least_blocks_for<P, I, Program>,
                           Program, Rows, I>,
      grid, P.threads, detail::meeting_bytes_of<P.threads>(schedule, partial),
      detail::start::in_order, program, rows, graph.csr.indices, schedule, features, partial);
  if constexpr (detail::writes_edges_only<Program>) return s;
  return s.ok() ? merge_split_rows<P>(ctx, program, schedule, features, partial) : s;
}

}  // namespace quipu
