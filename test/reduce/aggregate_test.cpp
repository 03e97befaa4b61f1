// SPDX-License-Identifier: Apache-2.0
#include "quipu/reduce/aggregate.hpp"

#include <algorithm>
#include <random>

#include "reduce/checks.hpp"
#include "reduce/public_cases.hpp"

using quipu::bfloat16;
using quipu::float16;

TEST_CASE("host aggregate agrees with the oracle on every shape") {
  test::check_everything<test::host_runner, float, double, float16, bfloat16>({});
}

TEST_CASE("host aggregate takes every width") {
  test::check_widths<test::host_runner, float, double>({});
}

TEST_CASE("host aggregate keeps to its rows in padded and misaligned views") {
  test::check_layouts<test::host_runner, float, float16>({});
}

TEST_CASE("host aggregate passes the public cases") {
  test::check_public_cases(test::host_runner{});
}

TEST_CASE("host aggregate gives the same bits whatever the threads") {
  const auto g = test::random_graph(31, 900, 800, 20, 5000);
  const test::stored_graph<std::int32_t, std::int32_t> graph(g);
  const test::stored_matrix<float> x(test::random_matrix(32, g.columns, 40));
  const test::stored_matrix<float> dy(test::random_matrix(33, g.rows, 40));
  for (const auto op : test::all_reductions) {
    const auto one = test::host_runner{1}(graph, x, dy, op, {}, test::small_slices());
    for (const std::int32_t threads : {2, 3, 8}) {
      const auto many = test::host_runner{threads}(graph, x, dy, op, {}, test::small_slices());
      REQUIRE(one.output.data == many.output.data);
      REQUIRE(one.grad_input.data == many.grad_input.data);
      REQUIRE(one.edges == many.edges);
    }
  }
}

TEST_CASE("winners are refused where their words cannot name every sender") {
  constexpr std::int64_t columns = std::int64_t{1} << 32;
  struct {
    float y = 7;
    std::uint8_t low = 7;
    float x = 1;  // the input claims all addresses behind it, so it comes last
  } m;
  const std::int64_t offsets[] = {0, 0};
  const quipu::slice<std::int64_t> whole{0, 0, 0};
  quipu::aggregate_args<float, std::int64_t> a;
  auto& forward = a.graph.forward;
  forward.csr.rows = 1;
  forward.csr.columns = columns;
  forward.csr.offsets = offsets;
  std::uint32_t word = 7;
  const std::int32_t rank[] = {0};
  forward.wide_rows = {rank, 1};
  forward.schedule.slices = &whole;
  forward.schedule.slice_count = 1;
  a.input = quipu::make_matrix_view<const float>(&m.x, columns, 1);
  a.output = quipu::make_matrix_view(&m.y, 1, 1);
  a.op = quipu::reduce::max;
  a.argument = {&m.low, &word, rank, 1, 1, 1};
  const auto refused = quipu::aggregate(quipu::host_context{1}, a);
  REQUIRE(refused.code == quipu::status_code::invalid_argument);
  REQUIRE(refused.actual == columns);
  REQUIRE(m.y == 7);
  a.argument = {};
  REQUIRE(quipu::aggregate(quipu::host_context{1}, a).ok());
  REQUIRE(m.y == 0);
}

TEST_CASE("the value of a maximum does not depend on the order of edges") {
  std::mt19937_64 random(34);
  auto g = test::random_graph(35, 120, 90, 12, 400);
  const test::stored_matrix<float> x(test::random_matrix(36, g.columns, 17));
  const test::stored_matrix<float> dy(test::random_matrix(37, g.rows, 17));
  const auto run = [&](quipu::reduce op) {
    return test::host_runner{2}(test::stored_graph<std::int32_t, std::int32_t>(g), x, dy, op, {},
                                test::small_slices());
  };
  const auto max = run(quipu::reduce::max), min = run(quipu::reduce::min);
  for (int round = 0; round < 5; ++round) {
    for (std::int64_t i = 0; i < g.rows; ++i) {
      std::shuffle(g.indices.begin() + g.offsets[i], g.indices.begin() + g.offsets[i + 1], random);
    }
    REQUIRE(run(quipu::reduce::max).output.data == max.output.data);
    REQUIRE(run(quipu::reduce::min).output.data == min.output.data);
  }
}
