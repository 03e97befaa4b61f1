// SPDX-License-Identifier: Apache-2.0
#include "reduce/several_checks.hpp"

TEST_CASE("host: several reductions in one pass agree with the oracle") {
  for (const auto& [name, g] : test::graph_zoo()) {
    INFO(name);
    test::check_several<float>(test::host_memory{}, g, 9);
    test::check_several<double>(test::host_memory{}, g, 32);
  }
  test::check_several<quipu::float16>(test::host_memory{},
                                      test::random_graph(94, 80, 70, 6, 90, true), 8);
}

TEST_CASE("host: several reductions keep NaN, infinities and signs of zero") {
  test::check_several_special<float>(test::host_memory{});
  test::check_several_special<quipu::bfloat16>(test::host_memory{});
}
