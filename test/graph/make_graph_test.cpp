// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_checks.hpp"
#include "support/problem.hpp"

TEST_CASE("host graphs pass the public cases") { test::check_public_graphs(test::host_builder{}); }

TEST_CASE("host graphs refuse bad edges by position") {
  test::check_bad_edges(test::host_builder{});
}

TEST_CASE("compressed rows keep their order and are checked") {
  using namespace quipu;
  const auto make = [](std::vector<std::int32_t> offsets, std::vector<std::int32_t> indices,
                       std::int64_t columns) {
    const csr_view<std::int32_t> csr{static_cast<std::int64_t>(offsets.size()) - 1,
                                     columns,
                                     static_cast<std::int64_t>(indices.size()),
                                     offsets.data(),
                                     indices.data(),
                                     nullptr};
    return make_graph<std::int32_t, std::int32_t>(host_context{1}, csr);
  };
  const test::built<std::int32_t> b(check(make({0, 3, 5}, {2, 0, 1, 3, 1}, 4)));  // C29
  REQUIRE(b.indices == test::ids{2, 0, 1, 3, 1});
  REQUIRE(make({0, 3, 7}, {0, 0, 0, 0, 0, 0, 0, 0}, 1).error().position == 2);  // K44
  REQUIRE(make({1, 3}, {0, 0, 0}, 1).error().position == 0);
  REQUIRE(make({0, 3, 2}, {0, 0}, 1).error().position == 1);
  REQUIRE(make({0, 2}, {0, 7}, 7).error().position == 1);
}

TEST_CASE("conversions there and back change nothing") {  // C03
  using namespace quipu;
  const test::edge_list e{3, 4, {0, 0, 1, 2, 2}, {3, 0, 2, 1, 3}, {5, 6, 7, 8, 9}};
  const test::built<std::int32_t> once(check(test::host_builder{}.make<std::int32_t>(e, {})));
  // CSR -> reverse -> its reverse, following the edge maps.
  test::edge_list flipped{4, 3, {}, {}};
  for (std::int64_t j = 0; j < 4; ++j) {
    for (auto k = once.reverse_offsets[j]; k < once.reverse_offsets[j + 1]; ++k) {
      flipped.row.push_back(static_cast<std::int32_t>(j));
      flipped.column.push_back(static_cast<std::int32_t>(once.reverse_indices[k]));
      flipped.weight.push_back(once.weights[once.edge_map[k]]);
    }
  }
  const test::built<std::int32_t> twice(
      check(test::host_builder{}.make<std::int32_t>(flipped, {})));
  REQUIRE(twice.reverse_offsets == once.offsets);
  REQUIRE(twice.reverse_indices == once.indices);
  std::vector<float> back;
  for (const auto k : twice.edge_map) back.push_back(twice.weights[k]);
  REQUIRE(back == once.weights);
}

TEST_CASE("schedules hold on every shape and slice length") {
  for (const auto& [name, g] : test::graph_zoo()) {
    INFO(name);
    const test::stored_graph<std::int32_t, std::int32_t> stored(g);
    for (const std::int32_t slice : {0, 1, 7, 64}) {
      for (const auto order : {quipu::visit_order::natural, quipu::visit_order::grouped}) {
        quipu::graph_options o;
        o.schedule = {slice, order};
        const auto made = quipu::check(quipu::make_graph<std::int32_t, std::int32_t>(
            quipu::host_context{1}, stored.view(), o));
        test::require_schedule(made.view().forward);
        test::require_schedule(made.view().reverse);
      }
    }
  }
}
