// SPDX-License-Identifier: Apache-2.0
// Two rows that receive from three: built and run as other projects do.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "quipu/graph/make_graph.hpp"
#include "quipu/reduce/aggregate.hpp"

int run_consumer() {
  const std::vector<std::int32_t> offsets{0, 2, 3};
  const std::vector<std::int32_t> indices{0, 2, 1};
  const quipu::csr_view<std::int32_t> csr{2, 3, 3, offsets.data(), indices.data()};
  const quipu::host_context host;
  const auto graph = quipu::check(quipu::make_graph(host, csr));

  const std::vector<float> input{1, 2, 4};
  std::vector<float> output(2);
  quipu::aggregate_args<float, std::int32_t> args;
  args.graph = graph.view();
  args.input = quipu::make_matrix_view(input.data(), 3, 1);
  args.output = quipu::make_matrix_view(output.data(), 2, 1);
  quipu::check(quipu::aggregate(host, args));
  std::printf("sums: %g %g\n", output[0], output[1]);
  if (output[0] != 5 || output[1] != 2) return 1;

  // The library's exceptions are caught here, on the other side of its border.
  try {
    quipu::check(quipu::make_graph(host, quipu::csr_view<std::int32_t>{-1}));
  } catch (const quipu::error& e) {
    std::printf("refused: %s\n", e.what());
    return 0;
  }
  return 2;
}
