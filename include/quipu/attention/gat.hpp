// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/core/workspace.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu {

/// GAT attention (Velickovic et al., 2018) from scores that the caller made, one for a node and
/// head. For the edges from senders j to receiver i, and for each head on its own,
///   logit(i, j) = leaky(target_score[i] + source_score[j]),  leaky(x) = x > 0 ? x : slope * x
///   alpha(i, j) = exp(logit(i, j)) / sum of exp(logit(i, k)) over the senders k of i
///   output[i]   = sum of alpha(i, j) * source[j].
/// A receiver without edges, or with logits of -inf alone, gets zeros and logsumexp -inf.
///
/// Logits and sums in fp32 (fp64 for fp64). `logsumexp`, the natural logarithm of the denominator,
/// and `output` are what backward needs; nothing is kept for each edge unless `alpha` is asked for.
/// One row and one score are gathered for an edge. Errors: invalid_argument names the field.
template <element T, node_index I, node_index O = I>
struct gat_forward_args {
  graph_view<I, O> graph;
  matrix_view<const T> target_score;  // [rows, heads]
  matrix_view<const T> source_score;  // [columns, heads]
  heads_view<const T> source;         // [columns, heads, dim]
  heads_view<T> output;               // [rows, heads, dim]
  accumulator<T> slope = static_cast<accumulator<T>>(0.2);
  matrix_view<accumulator<T>> logsumexp = {};  // [rows, heads]; null: not wanted
  matrix_view<accumulator<T>> alpha = {};      // [edges, heads]; null: not wanted
};

template <class T, class I, class O>
status gat_forward(const context&, const gat_forward_args<T, I, O>&, workspace = {});
template <class T, class I, class O>
status gat_forward(const host_context&, const gat_forward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const gat_forward_args<T, I, O>&);

}  // namespace quipu
