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
