// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/core/workspace.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu {

/// GATv2 attention (Brody, Alon, Yahav: How attentive are graph attention networks?, 2022). For the
/// edges from senders j to receiver i, and for each head on its own,
///   logit(i, j) = <attention, leaky(target[i] + source[j])>,  leaky(x) = x > 0 ? x : slope * x
///   alpha(i, j) = exp(logit(i, j)) / sum of exp(logit(i, k)) over the senders k of i
///   output[i]   = sum of alpha(i, j) * source[j].
/// A receiver without edges, or with logits of -inf alone, gets zeros and logsumexp -inf.
///
/// Logits and sums in fp32 (fp64 for fp64). `logsumexp`, the natural logarithm of the denominator,
/// and `output` are what backward needs; nothing is kept for each edge unless `alpha` is asked for.
/// One sender's row is gathered for an edge. Errors: invalid_argument names the field.
template <element T, node_index I, node_index O = I>
struct gatv2_forward_args {
  graph_view<I, O> graph;
  heads_view<const T> target;      // [rows, heads, dim]
  heads_view<const T> source;      // [columns, heads, dim]
  matrix_view<const T> attention;  // [heads, dim]
  heads_view<T> output;            // [rows, heads, dim]
  accumulator<T> slope = static_cast<accumulator<T>>(0.2);
  matrix_view<accumulator<T>> logsumexp = {};  // [rows, heads]; null: not wanted
  matrix_view<accumulator<T>> alpha = {};      // [edges, heads]; null: not wanted
};

template <class T, class I, class O>
status gatv2_forward(const context&, const gatv2_forward_args<T, I, O>&, workspace = {});
template <class T, class I, class O>
status gatv2_forward(const host_context&, const gatv2_forward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const gatv2_forward_args<T, I, O>&);

}  // namespace quipu
