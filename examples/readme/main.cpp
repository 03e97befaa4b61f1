// SPDX-License-Identifier: Apache-2.0
// [doc: program]
#include <cstdio>
#include <vector>

#include "quipu/graph/make_graph.hpp"
#include "quipu/reduce/aggregate.hpp"

int main() {
  const std::vector<std::int32_t> row{0, 0, 2, 2, 2}, column{1, 2, 0, 1, 3};  // row receives
  const std::vector<float> x{1, 8, 2, 7, 3, 6, 4, 5};  // 4 nodes, 2 features each
  std::vector<float> y(x.size());

  const quipu::host_context host;
  const quipu::coo_view<std::int32_t> edges{4, 4, 5, row.data(), column.data()};
  const auto graph = quipu::check(quipu::make_graph<std::int32_t, std::int32_t>(host, edges));

  quipu::aggregate_args<float, std::int32_t> args;
  args.graph = graph.view();
  args.input = quipu::make_matrix_view(x.data(), 4, 2);
  args.output = quipu::make_matrix_view(y.data(), 4, 2);
  args.op = quipu::reduce::max;
  quipu::check(quipu::aggregate(host, args));

  for (int i = 0; i < 4; ++i) std::printf("node %d: %g %g\n", i, y[2 * i], y[2 * i + 1]);
}
// [doc end]
