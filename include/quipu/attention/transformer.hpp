// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/dropout.hpp"
#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/core/workspace.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu {

/// Dot-product attention along edges (the graph transformer of Shi et al., 2021). For the edges k
/// from senders j to receiver i, and for each head on its own,
///   logit(k)  = scale * <query[i], key[j]> + bias[k]
///   alpha(k)  = exp(logit(k)) / sum of exp(logit) over the edges of i
///   output[i] = sum of alpha(k) * value[j].
/// A receiver without edges, or with logits of -inf alone, gets zeros and logsumexp -inf.
///
/// `scale` has no default: usually 1 / sqrt(dim); 0 is a value. Logits and sums in fp32 (fp64 for
/// fp64). `logsumexp`, the natural logarithm of the denominator, and `output` are what backward
/// needs; nothing is kept for each edge unless `alpha` is asked for. Two rows are gathered for an
/// edge; keys and values that lie side by side are strides. Errors: invalid_argument names the
/// field.
template <element T, node_index I, node_index O = I>
struct transformer_forward_args {
  graph_view<I, O> graph;
  heads_view<const T> query;  // [rows, heads, dim]
  heads_view<const T> key;    // [columns, heads, dim]
  heads_view<const T> value;  // [columns, heads, dim]
  heads_view<T> output;       // [rows, heads, dim]
  accumulator<T> scale;
  matrix_view<const accumulator<T>> bias = {};  // [edges, heads], in the order of the graph
  matrix_view<accumulator<T>> logsumexp = {};   // [rows, heads]; null: not wanted
  matrix_view<accumulator<T>> alpha = {};       // [edges, heads]; null: not wanted
  attention_dropout dropout = {};
};

template <class T, class I, class O>
status transformer_forward(const context&, const transformer_forward_args<T, I, O>&,
                           workspace = {});
template <class T, class I, class O>
status transformer_forward(const host_context&, const transformer_forward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const transformer_forward_args<T, I, O>&);

/// The gradients of transformer_forward, from what it left. With p(k) = <grad_output[i], value[j]>
/// and D(i) = <grad_output[i], output[i]>, alpha made anew from logsumexp,
///   ds(k)         = alpha(k) * (p(k) - D(i))
///   grad_query[i] = scale * sum of ds(k) * key[j]           over the edges of receiver i
///   grad_key[j]   = scale * sum of ds(k) * query[i]         over the edges of sender j
///   grad_value[j] = sum of alpha(k) * grad_output[i]        over the edges of sender j
///   grad_bias[k]  = ds(k).
/// With dropout, p and the alpha of grad_value are 0 where forward dropped the edge, and 1 / (1 -
/// probability) times as much elsewhere. An edge of alpha 0, and so a receiver whose logits were
/// -inf alone, passes no gradient.
///
/// Needs the graph's reverse, and its edge map if there is a bias, dropout or a stash. Four rows
/// are gathered for an edge, two on either side; no float atomics: the same bits every run.
/// Workspace: 8 bytes (fp64: 16) for each receiver and head, half of that for 8 heads and more of
/// at most 64 bytes, and states of rows that are longer than a block. Heads wider than 128 vectors
/// of 16 bytes (256 features if unaligned) are `unsupported` on a device. Other errors:
/// invalid_argument names the field.
template <element T, node_index I, node_index O = I>
struct transformer_backward_args {
  graph_view<I, O> graph;
  heads_view<const T> query;                    // [rows, heads, dim]
  heads_view<const T> key;                      // [columns, heads, dim]
  heads_view<const T> value;                    // [columns, heads, dim]
  heads_view<const T> output;                   // [rows, heads, dim], of forward
  matrix_view<const accumulator<T>> logsumexp;  // [rows, heads], of forward
  heads_view<const T> grad_output;              // [rows, heads, dim]
  heads_view<T> grad_query;                     // [rows, heads, dim]
  heads_view<T> grad_key;                       // [columns, heads, dim]
  heads_view<T> grad_value;                     // [columns, heads, dim]
  accumulator<T> scale;
  matrix_view<const accumulator<T>> bias = {};  // [edges, heads], in the order of the graph
  matrix_view<accumulator<T>> grad_bias = {};   // [edges, heads]; null: not wanted
  attention_dropout dropout = {};
  attention_stash<T> stash = {};  // null: none
};

template <class T, class I, class O>
status transformer_backward(const context&, const transformer_backward_args<T, I, O>&,
                            workspace = {});
template <class T, class I, class O>
status transformer_backward(const host_context&, const transformer_backward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const transformer_backward_args<T, I, O>&);

}  // namespace quipu
