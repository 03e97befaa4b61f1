// SPDX-License-Identifier: Apache-2.0
// The device engine under a program whose result shows every edge, its order and its position.
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

template <engine_policy P>
std::vector<std::uint64_t> on_device(const context& ctx, const graph<node_id>& g,
                                     const dense_rows<float>& rows, std::int64_t width) {
  const auto view = g.view();
  auto output = check(
      to_device(ctx, std::vector<std::uint64_t>(static_cast<std::size_t>(view.rows() * width), 0)));
  const trail_program program{output.data()};
  arena counting;
  (void)carve_partials<P, trail_program>(counting, view.forward.schedule, width);
  test::guarded_workspace space(ctx, counting.bytes());
  arena bound(space.get());
  const auto partial = carve_partials<P, trail_program>(bound, view.forward.schedule, width);
  check(traverse<P>(ctx, program, rows, view.forward, width, partial));
  check(synchronize(ctx));
  REQUIRE(space.intact());
  return check(to_host(ctx, output));
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
      REQUIRE(on_device<engine_policy{2, 1, 4, 4, 128}>(ctx, there, rows, width) == want);
      REQUIRE(on_device<engine_policy{8, 2, 4, 2, 64}>(ctx, there, rows, width) == want);
      REQUIRE(on_device<engine_policy{32, 1, 1, 3, 256}>(ctx, there, rows, width) == want);
    }
  }
}
