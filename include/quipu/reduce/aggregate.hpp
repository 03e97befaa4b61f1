// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/core/workspace.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu {

/// How the messages of a row's edges become one row.
enum class reduce : std::uint8_t { sum, mean, min, max };

/// Which edge won each element of min or max. A row of up to 255 edges keeps a byte an element, the
/// edge's position inside the row (edge position minus the row's offset): a quarter of what an id
/// would cost in traffic. A longer row is wide: it keeps the sender's id in a 32-bit word an
/// element, which backward need not look up, and its low bits in the byte. Of parallel edges, which
/// carry equal values, the sender's id means the first. In rows without edges nothing won, and what
/// is stored means nothing.
struct argument_view {
  static constexpr std::int64_t most_columns = 0xffffffff;  // with wide rows: ids fit a word

  std::uint8_t* low = nullptr;         // [rows, features]
  std::uint32_t* wide = nullptr;       // [wide rows, features]
  const std::int32_t* rank = nullptr;  // [rows] which wide row; from the graph
  std::int64_t rows = 0;
  std::int64_t wide_rows = 0;
  std::int64_t features = 0;
  QUIPU_HD bool empty() const { return low == nullptr; }
};

/// Bytes that the winners of a graph take.
template <node_index I, node_index O>
std::size_t argument_bytes(const graph_view<I, O>& g, std::int64_t features) {
  const auto low = (g.rows() * features + 15) / 16 * 16;
  return static_cast<std::size_t>(low + 4 * g.forward.wide_rows.count * features);
}
/// Lays the winners out in `argument_bytes` of memory that starts on a 16-byte border.
template <node_index I, node_index O>
argument_view make_argument_view(const graph_view<I, O>& g, void* data, std::int64_t features) {
  const auto low = (g.rows() * features + 15) / 16 * 16;
  auto* bytes = static_cast<std::uint8_t*>(data);
  const auto& wide = g.forward.wide_rows;
  return {bytes,      wide.count > 0 ? reinterpret_cast<std::uint32_t*>(bytes + low) : nullptr,
          wide.rank,  g.rows(),
          wide.count, features};
}

/// Y[i] = op over the edges k of row i of w[k] * X[column of k].
///
/// sum and mean use the graph's edge weights if it has any; mean divides by the number of edges.
/// min and max ignore weights: the edge-wise winner, ties to the lowest edge position, NaN before
/// numbers, -0 equal to +0; the output has the bits of the winning element. An empty row gives 0
/// and no argument. Every output element is written.
///
/// Accumulates in fp32 (fp64 for fp64). Same bits every run. Moves edges * features * sizeof(T)
/// bytes of gathered rows, plus input ids and the output once.
///
/// Errors: invalid_argument names the field; workspace_too_small.
template <element T, node_index I, node_index O = I>
struct aggregate_args {
  graph_view<I, O> graph;
  matrix_view<const T> input;   // [columns, features]
  matrix_view<T> output;        // [rows, features]
  argument_view argument = {};  // min and max: the winners, for backward; empty: not wanted
  reduce op = reduce::sum;
};

template <class T, class I, class O>
status aggregate(const context&, const aggregate_args<T, I, O>&, workspace = {});
template <class T, class I, class O>
status aggregate(const host_context&, const aggregate_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const aggregate_args<T, I, O>&);

/// Which way the gradients of min and max go on a device; see `aggregate_backward_args`.
enum class backward_method : std::uint8_t { automatic, gather, scatter };

/// Gradient of `aggregate` with respect to the input; needs the graph's reverse.
///
/// sum: dX[j] = sum of w[k] dY[i] over the edges k that j sends to i; mean: the same with
/// dY[i] / degree(i). min and max: each winner receives its gradient; reads the saved `argument`.
/// Rows of senders without edges become 0. Sums in fp32 (fp64 for fp64).
///
/// determinism::run_to_run (default): same bits every run. determinism::any may add with float
/// atomics in any order. Errors: as for `aggregate`; invalid_argument without a reverse graph.
template <element T, node_index I, node_index O = I>
struct aggregate_backward_args {
  graph_view<I, O> graph;
  matrix_view<const T> grad_output;  // [rows, features]
  matrix_view<T> grad_input;         // [columns, features]
  argument_view argument = {};       // min and max: what forward wrote
  reduce op = reduce::sum;
  backward_method method = backward_method::automatic;  // of min and max on a device
};

template <class T, class I, class O>
status aggregate_backward(const context&, const aggregate_backward_args<T, I, O>&, workspace = {});
template <class T, class I, class O>
status aggregate_backward(const host_context&, const aggregate_backward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const aggregate_backward_args<T, I, O>&);

/// Several reductions in one pass over the edges; outputs left empty are not computed. `squares` is
/// the sum of squares, for variance and standard deviation. Weights apply to sum and mean alone.
template <element T, node_index I, node_index O = I>
struct aggregate_several_args {
  graph_view<I, O> graph;
  matrix_view<const T> input;  // [columns, features]
  matrix_view<T> sum = {};     // each [rows, features], or empty
  matrix_view<T> mean = {};
  matrix_view<T> min = {};
  matrix_view<T> max = {};
  matrix_view<T> squares = {};
  argument_view min_argument = {};
  argument_view max_argument = {};
};

template <class T, class I, class O>
status aggregate_several(const context&, const aggregate_several_args<T, I, O>&, workspace = {});
template <class T, class I, class O>
status aggregate_several(const host_context&, const aggregate_several_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const aggregate_several_args<T, I, O>&);

/// Gradient of `aggregate_several`: one gather over the reverse graph adds up all parts. Gradients
/// left empty count as 0. `squares` needs the input; min and max need their arguments.
template <element T, node_index I, node_index O = I>
struct aggregate_several_backward_args {
  graph_view<I, O> graph;
  matrix_view<const T> input = {};  // [columns, features], for squares
  matrix_view<const T> grad_sum = {};
  matrix_view<const T> grad_mean = {};
  matrix_view<const T> grad_min = {};
  matrix_view<const T> grad_max = {};
  matrix_view<const T> grad_squares = {};
  argument_view min_argument = {};
  argument_view max_argument = {};
  matrix_view<T> grad_input;  // [columns, features]
};

template <class T, class I, class O>
status aggregate_several_backward(const context&, const aggregate_several_backward_args<T, I, O>&,
                                  workspace = {});
template <class T, class I, class O>
status aggregate_several_backward(const host_context&,
                                  const aggregate_several_backward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const aggregate_several_backward_args<T, I, O>&);

/// Turns stored winners into global edge positions, -1 where none won: [rows, features] int64. In
/// wide rows it searches the edges of the winning sender or, in a graph without its reverse, walks
/// the row for each element.
template <class I, class O>
status expand_argument(const context&, const graph_view<I, O>&, const argument_view&,
                       matrix_view<std::int64_t> edges);
template <class I, class O>
status expand_argument(const host_context&, const graph_view<I, O>&, const argument_view&,
                       matrix_view<std::int64_t> edges);

}  // namespace quipu
