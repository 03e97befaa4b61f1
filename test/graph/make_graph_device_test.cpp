// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_checks.hpp"

TEST_CASE("device graphs pass the public cases") {
  test::check_public_graphs(test::device_builder{});
}

TEST_CASE("device graphs refuse bad edges by position") {
  test::check_bad_edges(test::device_builder{});
}

TEST_CASE("device and host build the same graph") {
  using quipu::edge_option;
  std::mt19937_64 random(91);
  for (int round = 0; round < 12; ++round) {
    const std::int64_t nodes = round < 2 ? 3 : 200 + 50 * round;
    test::edge_list e{nodes, nodes, {}, {}};
    for (int k = 0; k < 40 * round + 5; ++k) {
      e.row.push_back(static_cast<std::int32_t>(random() % nodes));
      e.column.push_back(
          static_cast<std::int32_t>(round % 3 == 0 ? random() % 3 : random() % nodes));
      if (round % 2 == 1) e.weight.push_back(static_cast<float>(random() % 64));
    }
    quipu::graph_options o;
    o.schedule.slice_edges = 8;
    if (round & 1) o.symmetrise = edge_option::apply;
    if (round & 2) o.coalesce = edge_option::apply;
    if (round & 4) o.add_self_loops = edge_option::apply;
    if (round & 8) o.remove_self_loops = edge_option::apply;
    INFO("round " << round);
    const test::built<std::int64_t> on_host(
        quipu::check(test::host_builder{}.make<std::int64_t>(e, o)));
    const test::built<std::int64_t> on_device(
        quipu::check(test::device_builder{}.make<std::int64_t>(e, o)));
    REQUIRE(on_host.offsets == on_device.offsets);
    REQUIRE(on_host.indices == on_device.indices);
    REQUIRE(on_host.weights == on_device.weights);
    REQUIRE(on_host.edge_ids == on_device.edge_ids);
    REQUIRE(on_host.edge_map == on_device.edge_map);
    REQUIRE(on_host.reverse_indices == on_device.reverse_indices);
    test::require_schedule(on_device.graph.view().forward);
    test::require_schedule(on_device.graph.view().reverse);
    const auto& a = on_host.graph.view().forward.schedule;
    const auto& b = on_device.graph.view().forward.schedule;
    REQUIRE(a.slice_count == b.slice_count);
    bool same = true;
    for (std::int64_t i = 0; i < a.slice_count; ++i) {
      same &= a.slices[i].row == b.slices[i].row && a.slices[i].begin == b.slices[i].begin;
    }
    REQUIRE(same);
  }
}
