// SPDX-License-Identifier: Apache-2.0
// expects: use of deleted function
#include <utility>

#include "quipu/graph/graph.hpp"

using graph = quipu::graph<std::int32_t>;

graph hand_over(graph& g) {
#ifdef OFFEND
  return graph(g);
#else
  return graph(std::move(g));
#endif
}
