// SPDX-License-Identifier: Apache-2.0
#include "reduce/several_checks.hpp"

TEST_CASE("device: several reductions in one pass agree with the oracle") {
  for (const auto& [name, g] : test::graph_zoo()) {
    INFO(name);
    for (const auto mode : test::run_modes) {
      test::device_memory memory;
      memory.mode = mode;
      test::check_several<float>(memory, g, 32);
    }
    test::check_several<float>(test::device_memory{}, g, 9);
  }
  const auto g = test::random_graph(94, 80, 70, 6, 90, true);
  test::check_several<quipu::float16>(test::device_memory{}, g, 8);
  test::check_several<quipu::bfloat16>(test::device_memory{}, g, 130);
}

TEST_CASE("device: several reductions keep NaN, infinities and signs of zero") {
  test::check_several_special<float>(test::device_memory{});
  test::check_several_special<quipu::float16>(test::device_memory{});
  test::check_several_special<quipu::bfloat16>(test::device_memory{});
}

TEST_CASE("device: several reductions give the same bits in 20 runs") {
  const auto g = test::random_graph(93, 700, 600, 30, 3000);
  const test::stored_matrix<float> x(test::random_matrix(92, g.columns, 40));
  const std::vector<test::stored_matrix<float>> dy(
      5, test::stored_matrix<float>(test::random_matrix(91, g.rows, 40)));
  const auto run = [&](test::run_mode mode) {
    test::device_memory memory;
    memory.mode = mode;
    return test::run_several(memory, g, x, dy, {true, true, true, true, true, true});
  };
  const auto first = run(test::run_mode::eager);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto next =
        run(repeat % 2 == 0 ? test::run_mode::second_stream : test::run_mode::captured);
    for (int k = 0; k < 5; ++k) REQUIRE(first.outputs[k].data == next.outputs[k].data);
    REQUIRE(first.grad_input.data == next.grad_input.data);
    REQUIRE(first.max_edges == next.max_edges);
  }
}
