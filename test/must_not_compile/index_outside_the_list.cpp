// SPDX-License-Identifier: Apache-2.0
// expects: constraints? (not satisfied|failure)
#include "quipu/graph/graph.hpp"

#ifdef OFFEND
using id = std::uint32_t;  // node ids are signed
#else
using id = std::int32_t;
#endif

quipu::graph_view<id, id> view;
