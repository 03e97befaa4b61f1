// SPDX-License-Identifier: Apache-2.0
#include "quipu/reduce/aggregate.hpp"

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

TEST_CASE("host aggregate passes the public cases") { test::check_public_cases(test::host_runner{}); }

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
