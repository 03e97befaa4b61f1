// SPDX-License-Identifier: Apache-2.0
// Totals over all rows, under a program that counts: every edge once, whatever the room for sets.
#include "quipu/engine/device_totals.cuh"
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
    float edges;
    template <class Batch>
    __device__ void visit(const lane_position<Tile>&, state<Tile>&, const Batch& batch) {
      for (int u = 0; u < Batch::size; ++u) edges += batch.valid(u) ? 1.0f : 0.0f;
    }
    __device__ void settle(const lane_position<Tile>& at, state<Tile>& s, const slice_edges&) {
      s.edges += edges;
      for (int i = 0; i < Tile::elements; ++i) {
        const auto feature = at.feature(i / Tile::width) + i % Tile::width;
        total[i] += edges * share_of(at.head, feature);
      }
    }
  };
  template <class Tile, class I, class Total>
  __device__ row_program<Tile, Total> for_row(const lane_position<Tile>&, const row_edges<I>&,
                                              const Total& total) const {
    return {total, 0.0f};
  }
};

template <engine_policy P>
void check_census(const graph<std::int32_t>& g, const oracle::graph& truth, std::int64_t heads,
                  std::int64_t dim, std::int64_t bytes) {
  const auto ctx = test::device_context();
  const auto view = g.view();
  const auto zeros = [&](std::int64_t n) {
    return check(to_device(ctx, std::vector<float>(static_cast<std::size_t>(n), 0.0f)));
  };
  const auto stride = dim + 3;
  auto counts = zeros(view.rows() * heads), received = zeros(view.columns() * heads);
  auto totals = zeros(heads * stride);
  const census program{counts.data(), heads}, reverse{received.data(), heads};
  const auto call = [&](arena& scratch, bool run) {
    // Both directions, so that two lists of sets are summed.
    const auto one = carve_totals<float, P>(scratch, view.forward.schedule, heads, dim, bytes);
    const auto other = carve_totals<float, P>(scratch, view.reverse.schedule, heads, dim, bytes);
    auto* sums = carve_sums(scratch, one, other);
    const auto walk = [&](const census& p, const auto& direction, const auto& sets) {
      const arena::loan states(scratch);
      const auto partial = carve_partials<P, census>(scratch, direction.schedule, dim, heads);
      if (run) check(traverse_with_totals<P>(ctx, p, no_rows{}, direction, dim, partial, sets));
    };
    walk(program, view.forward, one);
    walk(reverse, view.reverse, other);
    if (run) check(sum_totals<float>(ctx, one, other, sums, totals.data(), stride));
  };
  arena counting;
  call(counting, false);
  test::guarded_workspace space(ctx, counting.bytes());
  arena bound(space.get());
  call(bound, true);
  check(synchronize(ctx));
  REQUIRE(space.intact());
  const auto twice = 2 * static_cast<float>(truth.indices.size());
  const auto got = check(to_host(ctx, totals));
  for (std::int64_t k = 0; k < heads * stride; ++k) {
    const auto f = k % stride;
    REQUIRE(got[static_cast<std::size_t>(k)] == (f < dim ? twice * share_of(k / stride, f) : 0.0f));
  }
  const auto counted = check(to_host(ctx, counts));
  for (std::int64_t k = 0; k < truth.rows * heads; ++k) {
    const auto i = k / heads;
    REQUIRE(counted[static_cast<std::size_t>(k)] ==
            static_cast<float>(truth.offsets[i + 1] - truth.offsets[i]));
  }
}

}  // namespace

TEST_CASE("totals over all rows count every edge once") {
  const auto ctx = test::device_context();
  for (const auto& [name, truth] : test::graph_zoo()) {
    if (truth.rows == 0) continue;
    INFO(name);
    const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
    for (const std::int32_t slice : {1, 16}) {
      const auto host = check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view(),
                                                                     test::small_slices(slice)));
      const auto there = check(to_device(ctx, host));
      for (const std::int64_t heads : {1, 2, 5, 33}) {
        for (const std::int64_t bytes : {200, 1 << 30}) {
          INFO("slice " << slice << " heads " << heads << " room " << bytes);
          check_census<engine_policy{4, 1, 4, 2, 128}>(there, truth, heads, 12, bytes);
          check_census<engine_policy{8, 1, 4, 2, 96}>(there, truth, heads, 12, bytes);
          check_census<engine_policy{32, 2, 4, 4, 64}>(there, truth, heads, 200, bytes);
          check_census<engine_policy{1, 1, 4, 2, 64}>(there, truth, heads, 4, bytes);
        }
      }
    }
  }
}
