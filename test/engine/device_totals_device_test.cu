// SPDX-License-Identifier: Apache-2.0
// Totals over all rows, under a program that counts: every edge once, whatever the room for sets.
#include "quipu/engine/device_totals.cuh"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quipu/graph/make_graph.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"
#include "support/random_graph.hpp"

namespace {

using namespace quipu;

/// What an edge adds to a total: different for every head and feature, and exact in float.
__host__ __device__ inline float share_of(std::int64_t head, std::int64_t feature) {
  return static_cast<float>(1 + 5 * head + feature % 3);
}

/// Adds 1 an edge to a row and head's count, and a share to every feature's total.
struct census {
  static constexpr bool by_heads = true;
  template <class Tile>
  struct state {
    float edges;
  };
  float* counts;  // [rows, heads], added to
  std::int64_t heads;
  float scale;  // of shares

  template <class Tile, class I>
  __device__ state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    return {0.0f};
  }
  template <class Tile>
  __device__ void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    s.edges += next.edges;
  }
  template <class Tile, class I>
  __device__ void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                         const state<Tile>& s) const {
    if (threadIdx.x % Tile::lanes == 0) {
      atomicAdd(counts + static_cast<std::int64_t>(row.row) * heads + at.head, s.edges);
    }
  }

  template <class Tile, class Total>
  struct row_program {
    Total total;
    float edges, scale;
    template <class Batch>
    __device__ void visit(const lane_position<Tile>&, state<Tile>&, const Batch& batch) {
      for (int u = 0; u < Batch::size; ++u) edges += batch.valid(u) ? 1.0f : 0.0f;
    }
    __device__ void settle(const lane_position<Tile>& at, state<Tile>& s, const slice_edges&) {
      s.edges += edges;
      for (int i = 0; i < Tile::elements; ++i) {
        const auto feature = at.feature(i / Tile::width) + i % Tile::width;
        total[i] += edges * (scale * share_of(at.head, feature));
      }
    }
  };
  template <class Tile, class I, class Total>
  __device__ row_program<Tile, Total> for_row(const lane_position<Tile>&, const row_edges<I>&,
                                              const Total& total) const {
    return {total, 0.0f, scale};
  }
};

/// How units found a set: behind those of earlier traversals, on top of them, or in turn.
struct census_ways {
  int behind = 0, on_top = 0, in_turn = 0;
};

struct census_plan {
  std::int64_t heads, dim, bytes;
  float scale = 1.0f;
  test::run_mode mode = test::run_mode::eager;
};
struct census_result {
  std::vector<float> totals, counts;  // [heads, dim + 3], [rows, heads]
  census_ways ways;
};
constexpr int forward_times = 7;  // until there are more units than sets

/// Forward several times and once in reverse, all on top of one another.
template <engine_policy P, class I>
census_result take_census(const graph<I>& g, const census_plan& plan) {
  const auto ctx = test::device_context();
  const auto view = g.view();
  const auto heads = plan.heads, dim = plan.dim, stride = dim + 3;
  const auto make = [&](std::int64_t n) { return check(make_device_buffer<float>(ctx, n)); };
  auto counts = make(view.rows() * heads), received = make(view.columns() * heads);
  auto totals = make(heads * stride);
  const auto clear = [&](const context& c) {
    for (auto* b : {&counts, &received, &totals}) {
      check(from_cuda(cudaMemsetAsync(b->data(), 0, b->bytes(), c.stream), "memset"));
    }
  };
  census_result result;
  const auto call = [&](const context& c, arena& scratch, bool run) {
    auto sets = carve_totals<float>(
        scratch, std::max(view.forward.schedule.slice_count, view.reverse.schedule.slice_count),
        heads, dim, plan.bytes);
    const auto walk = [&](float* to, const auto& direction) {
      const arena::loan states(scratch);
      const auto partial = carve_partials<P, census>(scratch, direction.schedule, dim, heads);
      if (!run) return;
      const auto units = detail::walk_of<P>(c, direction, heads, sets.sets).units();
      auto& ways = result.ways;
      (units > sets.sets                 ? ways.in_turn
       : sets.filled + units > sets.sets ? ways.on_top
                                         : ways.behind) += 1;
      const census program{to, heads, plan.scale};
      check(traverse_with_totals<P>(c, program, no_rows{}, direction, dim, partial, sets));
    };
    for (int k = 0; k < forward_times; ++k) walk(counts.data(), view.forward);
    walk(received.data(), view.reverse);
    if (run) check(sum_totals<float>(c, sets, totals.data(), stride));
  };
  arena counting;
  call(ctx, counting, false);
  test::guarded_workspace space(ctx, counting.bytes());
  test::run(ctx, plan.mode, clear, [&](const context& c) {
    arena bound(space.get());
    call(c, bound, true);
    return success();
  });
  REQUIRE(space.intact());
  result.totals = check(to_host(ctx, totals));
  result.counts = check(to_host(ctx, counts));
  return result;
}

template <engine_policy P, class I>
void check_census(const graph<I>& g, const oracle::graph& truth, const census_plan& plan,
                  census_ways& ways) {
  const auto got = take_census<P>(g, plan);
  ways.behind += got.ways.behind;
  ways.on_top += got.ways.on_top;
  ways.in_turn += got.ways.in_turn;
  const auto edges = (forward_times + 1) * static_cast<float>(truth.indices.size());
  const auto stride = plan.dim + 3;
  for (std::int64_t k = 0; k < plan.heads * stride; ++k) {
    const auto f = k % stride;
    REQUIRE(got.totals[static_cast<std::size_t>(k)] ==
            (f < plan.dim ? edges * share_of(k / stride, f) : 0.0f));
  }
  for (std::int64_t k = 0; k < truth.rows * plan.heads; ++k) {
    const auto i = k / plan.heads;
    REQUIRE(got.counts[static_cast<std::size_t>(k)] ==
            static_cast<float>(forward_times * (truth.offsets[i + 1] - truth.offsets[i])));
  }
}

template <class I, class O = I>
graph<I, O> graph_of(const oracle::graph& truth, std::int32_t slice) {
  const test::stored_graph<I, O> stored(truth);
  const auto host =
      check(make_graph<I, O>(host_context{1}, stored.view(), test::small_slices(slice)));
  return check(to_device(test::device_context(), host));
}

/// Rows of 1, 2, 4, 8 and more slices of 4, and of none.
oracle::graph rows_in_parts() {
  oracle::graph truth;
  truth.rows = 12;
  truth.columns = 9;
  for (const std::int64_t degree : {0, 3, 7, 12, 31, 66, 0, 4, 25, 8, 1, 13}) {
    for (std::int64_t k = 0; k < degree; ++k) truth.indices.push_back((degree + 2 * k) % 9);
    truth.offsets.push_back(static_cast<std::int64_t>(truth.indices.size()));
  }
  return truth;
}

constexpr engine_policy four_lanes{4, 1, 4, 2, 128}, no_power_of_two{8, 1, 4, 2, 96},
    whole_warps{32, 2, 4, 4, 64}, one_lane{1, 1, 4, 2, 64};

}  // namespace

TEST_CASE("totals over all rows count every edge once") {
  census_ways ways;
  for (const auto& [name, truth] : test::graph_zoo()) {
    if (truth.rows == 0) continue;
    INFO(name);
    for (const std::int32_t slice : {1, 16}) {
      const auto there = graph_of<std::int32_t>(truth, slice);
      for (const std::int64_t heads : {1, 2, 5, 33}) {
        for (const std::int64_t bytes : {200, 1 << 30}) {
          INFO("slice " << slice << " heads " << heads << " room " << bytes);
          check_census<four_lanes>(there, truth, {heads, 12, bytes}, ways);
          check_census<no_power_of_two>(there, truth, {heads, 12, bytes}, ways);
          check_census<whole_warps>(there, truth, {heads, 200, bytes}, ways);
          check_census<one_lane>(there, truth, {heads, 4, bytes}, ways);
        }
      }
    }
  }
  REQUIRE((ways.behind > 0 && ways.on_top > 0 && ways.in_turn > 0));
}

// One small graph, because racecheck is slow.
TEST_CASE("totals of rows in parts meet without a race") {
  const auto truth = rows_in_parts();
  const auto there = graph_of<std::int32_t>(truth, 4);
  const auto wide = graph_of<std::int64_t>(truth, 4);
  census_ways ways;
  for (const std::int64_t heads : {1, 2}) {
    for (const std::int64_t bytes : {200, 1 << 30}) {
      INFO("heads " << heads << " room " << bytes);
      check_census<four_lanes>(there, truth, {heads, 12, bytes}, ways);
      check_census<whole_warps>(there, truth, {heads, 200, bytes}, ways);
      check_census<whole_warps>(wide, truth, {heads, 200, bytes}, ways);
    }
  }
}

TEST_CASE("totals keep their bits in every mode, however units find their sets") {
  census_ways ways;
  const auto truth = test::random_graph(11, 700, 500, 9, 2000);
  const auto there = graph_of<std::int32_t>(truth, 16);
  const auto repeats = [&]<engine_policy P>(std::int64_t heads, std::int64_t dim) {
    for (const std::int64_t bytes : {200, 1 << 30}) {
      std::vector<float> first;
      for (const auto mode : test::run_modes) {
        for (int again = 0; again < 3; ++again) {
          const auto got = take_census<P>(there, {heads, dim, bytes, 0.1f, mode});
          if (first.empty()) {
            first = got.totals;
            const auto edges = (forward_times + 1) * static_cast<double>(truth.indices.size());
            // Fewer additions than edges, each off by half a bit.
            REQUIRE(std::abs(first[0] / (edges * 0.1) - 1.0) < edges / (1 << 24));
            ways.behind += got.ways.behind;
            ways.on_top += got.ways.on_top;
            ways.in_turn += got.ways.in_turn;
          }
          REQUIRE(std::memcmp(first.data(), got.totals.data(), first.size() * sizeof(float)) == 0);
        }
      }
    }
  };
  repeats.operator()<four_lanes>(1, 12);
  repeats.operator()<four_lanes>(5, 12);
  repeats.operator()<whole_warps>(2, 200);
  REQUIRE((ways.behind > 0 && ways.on_top > 0 && ways.in_turn > 0));
}
