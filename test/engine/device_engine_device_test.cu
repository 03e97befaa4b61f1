// SPDX-License-Identifier: Apache-2.0
// The device engine under a program whose result shows every edge, its order and its position.
#include <algorithm>
#include <bit>

#include "engine/trail_program.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/engine/host_engine.hpp"
#include "quipu/graph/make_graph.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"
#include "support/random_graph.hpp"

namespace {

using namespace quipu;
using test::node_id;
using test::trail_program;

/// The same for rows of heads.
struct headed_trail : trail_program {
  static constexpr bool by_heads = true;
  std::int64_t heads;

  template <class Tile>
  __device__ void finish(const at<Tile>& at, const row_edges<node_id>& row,
                         const state<Tile>& s) const {
    for (int i = 0; i < Tile::elements; ++i) {
      const int v = i / Tile::width;
      if (!at.active(v)) continue;
      const auto feature = at.head * at.features + at.feature(v) + i % Tile::width;
      output[row.row * heads * at.features + feature] += s.factor + s.offset[i];
    }
  }
};

/// What a program leaves in its output, [rows, heads * dim]; `scratch` is what it took for states.
template <engine_policy P, class Program, class Rows>
std::vector<std::uint64_t> on_device(const context& ctx, const graph<node_id>& g, Program program,
                                     const Rows& rows, std::int64_t heads, std::int64_t dim,
                                     std::size_t* scratch = nullptr) {
  const auto view = g.view();
  auto output = check(to_device(
      ctx, std::vector<std::uint64_t>(static_cast<std::size_t>(view.rows() * heads * dim), 0)));
  program.output = output.data();
  arena counting;
  (void)carve_partials<P, Program>(counting, view.forward.schedule, dim, heads);
  test::guarded_workspace space(ctx, counting.bytes());
  arena bound(space.get());
  const auto partial = carve_partials<P, Program>(bound, view.forward.schedule, dim, heads);
  check(traverse<P>(ctx, program, rows, view.forward, dim, partial));
  check(synchronize(ctx));
  REQUIRE(space.intact());
  if (scratch != nullptr) *scratch = counting.bytes();
  return check(to_host(ctx, output));
}

/// By heads. Only rows of more slices than a block of P has for a head leave states in scratch.
template <engine_policy P>
void check_heads(const context& ctx, const graph<node_id>& g, const head_rows<float>& rows,
                 std::int64_t heads, std::int64_t dim, const std::vector<std::uint64_t>& want) {
  constexpr std::int64_t groups = P.threads / P.lanes;
  const bool meets = groups % heads == 0 && std::has_single_bit(unsigned{P.threads});
  const auto together = meets ? std::min<std::int64_t>(8, groups / heads) : 1;
  INFO(P.lanes << " lanes, " << heads << " heads, " << together << " slices together");
  const auto& s = g.view().forward.schedule;
  const bool longer = s.longer_than(static_cast<int>(together)).rows > 0;
  std::size_t scratch = 0;
  const headed_trail program{{nullptr}, heads};
  REQUIRE(on_device<P>(ctx, g, program, rows, heads, dim, &scratch) == want);
  REQUIRE((scratch > 0) == longer);
}

}  // namespace

TEST_CASE("the device engine visits every edge once, in order, and merges in order") {
  const auto ctx = test::device_context();
  constexpr std::int64_t width = 24;
  for (const auto& [name, truth] : test::graph_zoo()) {
    INFO(name);
    const test::stored_graph<node_id, node_id> stored(truth);
    const test::stored_matrix<float> x(
        test::random_matrix(101, truth.columns, width, test::filling::integers));
    for (const std::int32_t slice : {1, 5, 16, 64}) {
      INFO("slice " << slice);
      const auto host = check(
          make_graph<node_id, node_id>(host_context{1}, stored.view(), test::small_slices(slice)));
      std::vector<std::uint64_t> want(static_cast<std::size_t>(truth.rows * width), 0);
      dense_rows<float> rows;
      rows.data = x.data.data();
      rows.row_stride = width;
      check(traverse<3>(host_context{1}, trail_program{want.data()}, rows, host.view().forward,
                        width));
      const auto there = check(to_device(ctx, host));
      const auto input = check(to_device(ctx, x.data));
      rows.data = input.data();
      const trail_program program{nullptr};
      REQUIRE(on_device<engine_policy{2, 1, 4, 4, 128}>(ctx, there, program, rows, 1, width) ==
              want);
      REQUIRE(on_device<engine_policy{8, 2, 4, 2, 64}>(ctx, there, program, rows, 1, width) ==
              want);
      REQUIRE(on_device<engine_policy{32, 1, 1, 3, 256}>(ctx, there, program, rows, 1, width) ==
              want);
    }
  }
}

TEST_CASE("slices of a row meet in their block, in order, for every number of heads") {
  const auto ctx = test::device_context();
  constexpr std::int64_t dim = 24;
  for (const auto& [name, truth] : test::graph_zoo()) {
    if (truth.rows == 0) continue;
    INFO(name);
    const test::stored_graph<node_id, node_id> stored(truth);
    for (const std::int64_t heads : {1, 2, 3, 8, 16}) {
      const auto width = heads * dim;
      const test::stored_matrix<float> x(
          test::random_matrix(103, truth.columns, width, test::filling::integers));
      const auto input = check(to_device(ctx, x.data));
      const head_rows<float> rows(make_heads_view(input.data(), truth.columns, heads, dim));
      for (const std::int32_t slice : {1, 3, 16}) {
        INFO("slice " << slice);
        const auto host = check(make_graph<node_id, node_id>(host_context{1}, stored.view(),
                                                             test::small_slices(slice)));
        std::vector<std::uint64_t> want(static_cast<std::size_t>(truth.rows * width), 0);
        dense_rows<float> host_rows;
        host_rows.data = x.data.data();
        host_rows.row_stride = width;
        check(traverse<3>(host_context{1}, trail_program{want.data()}, host_rows,
                          host.view().forward, width));
        const auto there = check(to_device(ctx, host));
        check_heads<engine_policy{2, 4, 4, 2, 64}>(ctx, there, rows, heads, dim, want);
        check_heads<engine_policy{8, 1, 4, 4, 128}>(ctx, there, rows, heads, dim, want);
        check_heads<engine_policy{32, 1, 1, 2, 128}>(ctx, there, rows, heads, dim, want);
        check_heads<engine_policy{8, 1, 4, 2, 96}>(ctx, there, rows, heads, dim, want);
      }
    }
  }
}
