// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "quipu/core/context.hpp"
#include "quipu/core/status.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu {

/// Whether a symmetric shape's edges come in pairs (i, j), (j, i).
enum class edge_symmetry : std::uint8_t { directed, symmetric };

/// Where the longest row comes from.
enum class longest_row : std::uint8_t {
  drawn,    ///< the heaviest node: about max_degree, less what duplicates take away
  planted,  ///< one row receives from exactly max_degree distinct nodes; all others stay below
};

/// Shape of a synthetic graph. Names ending in `_like` stand for the graphs of docs/performance.md;
/// the others carry the node count, edge count and longest row of a public data set.
///
/// A node's weight is Pareto distributed, u^(-1 / tail), capped where its expected degree reaches
/// max_degree; the heaviest node lies at the cap. In a symmetric shape both ends of an edge are
/// drawn by weight, in a directed one only the receiver is. `locality` of the edges stay inside a
/// community: a range of consecutive ids.
struct synthetic_shape {
  std::string_view name;
  std::int64_t nodes = 0;
  std::int64_t edges = 0;       ///< exact, after symmetrising and removing duplicates
  std::int64_t max_degree = 0;  ///< in-edges of the heaviest node, see `longest`
  double tail = 0;              ///< exponent of the weights, above 1; 0: all weights equal
  double locality = 0;          ///< share of edges inside a community
  std::int64_t community = 1;   ///< nodes of one community
  edge_symmetry symmetry = edge_symmetry::symmetric;
  longest_row longest = longest_row::drawn;
};

/// Every shape with a name.
std::span<const synthetic_shape> synthetic_shapes();

enum class degree_skew : std::uint8_t {
  as_named,
  flat,  ///< the same nodes, edges and communities with equal weights and no planted row
};

struct synthetic_options {
  std::uint64_t seed = 0;
  degree_skew skew = degree_skew::as_named;
};

struct synthetic_request {
  synthetic_shape shape;
  synthetic_options options;
};

/// Parses NAME[,seed=N][,flat]. Errors: invalid_argument for an unknown name or option.
result<synthetic_request> parse_synthetic(std::string_view text);

/// Makes the graph, the same bit for bit on host and device: every draw is a hash of (seed,
/// counter) and all that follows is integer arithmetic. Rows are sorted; no duplicates, no self
/// loops, no weights. These calls allocate and synchronise; products_like takes about 2.5 GB of
/// scratch.
///
/// Errors: invalid_argument names the field of a shape that no graph can have; out_of_memory;
/// cuda_error.
result<graph<std::int32_t, std::int32_t>> make_synthetic(const context&, const synthetic_request&,
                                                         const graph_options& = {});
result<graph<std::int32_t, std::int32_t>> make_synthetic(const host_context&,
                                                         const synthetic_request&,
                                                         const graph_options& = {});

}  // namespace quipu
