// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/dropout.hpp"
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
  attention_dropout dropout = {};
};

template <class T, class I, class O>
status gat_forward(const context&, const gat_forward_args<T, I, O>&, workspace = {});
template <class T, class I, class O>
status gat_forward(const host_context&, const gat_forward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const gat_forward_args<T, I, O>&);

/// The gradients of gat_forward, from what it left. With p(i, j) = <grad_output[i], source[j]>,
/// D(i) = <grad_output[i], output[i]>, and alpha made anew from logsumexp,
///   ds(i, j) = alpha(i, j) * (p(i, j) - D(i))
///   dx(i, j) = ds(i, j) * leaky'(target_score[i] + source_score[j]), with leaky'(0) = slope
///   grad_target_score[i] = sum of dx(i, j) over the edges of receiver i
///   grad_source_score[j] = sum of dx(i, j) over the edges of sender j
///   grad_source[j] = sum of alpha(i, j) * grad_output[i] over the edges of sender j.
/// With dropout, p and the last alpha are 0 where forward dropped the edge, and 1 / (1 -
/// probability) times as much elsewhere. An edge of alpha 0 passes no gradient.
///
/// Needs the graph's reverse, and its edge map if there is dropout or a stash. Two rows are
/// gathered for an edge, one on either side; no float atomics: the same bits every run. Workspace:
/// 8 bytes (fp64: 16) for each receiver and head, half of that for 8 heads and more of at most 64
/// bytes, and states of rows that are longer than a block. Heads wider than 128 vectors of 16 bytes
/// (256 features if unaligned) are `unsupported` on a device. Other errors: invalid_argument names
/// the field.
template <element T, node_index I, node_index O = I>
struct gat_backward_args {
  graph_view<I, O> graph;
  matrix_view<const T> target_score;            // [rows, heads]
  matrix_view<const T> source_score;            // [columns, heads]
  heads_view<const T> source;                   // [columns, heads, dim]
  heads_view<const T> output;                   // [rows, heads, dim], of forward
  matrix_view<const accumulator<T>> logsumexp;  // [rows, heads], of forward
  heads_view<const T> grad_output;              // [rows, heads, dim]
  matrix_view<T> grad_target_score;             // [rows, heads]
  matrix_view<T> grad_source_score;             // [columns, heads]
  heads_view<T> grad_source;                    // [columns, heads, dim]
  accumulator<T> slope = static_cast<accumulator<T>>(0.2);
  attention_dropout dropout = {};
  attention_stash<T> stash = {};  // null: none
};

template <class T, class I, class O>
status gat_backward(const context&, const gat_backward_args<T, I, O>&, workspace = {});
template <class T, class I, class O>
status gat_backward(const host_context&, const gat_backward_args<T, I, O>&);
template <class T, class I, class O>
std::size_t workspace_bytes(const context&, const gat_backward_args<T, I, O>&);

}  // namespace quipu
