// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>

#include "quipu/attention/detail/check_arguments.hpp"

namespace quipu::detail {

/// What every gradient has: a graph with its reverse, what forward left, and operands.
template <class Args>
void check_gradient(argument_check& c, const Args& a) {
  const auto& g = a.graph;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  c.that(g.has_reverse() || g.columns() == 0,
         "graph: made without its reverse, which backward needs");
  c.direction(g.reverse, "graph: incomplete, or not where the context works");
  check_heads(c, a.grad_output, g.rows(), heads, dim, QUIPU_HEADS_NAMES("grad_output", "rows"));
  check_heads(c, a.output, g.rows(), heads, dim, QUIPU_HEADS_NAMES("output", "rows"));
  check_scalars(c, a.logsumexp, g.rows(), heads, "logsumexp: [rows, heads] of forward wanted");
  c.that(dim > 0, "grad_output: heads without features");
  check_dropout(c, a.dropout);
  check_operands(c, a, heads, dim);
  const auto& stash = a.stash;
  if (stash.data_handle() != nullptr) {
    const char* what = "stash: [edges, 2 * heads] without gaps wanted, on a border of two numbers";
    check_scalars(c, stash, g.edges(), 2 * heads, what);
    c.that(g.edges() <= 1 || stash.stride(0) == 2 * heads, what);
    c.that(reinterpret_cast<std::uintptr_t>(stash.data_handle()) %
                   (2 * sizeof(*stash.data_handle())) ==
               0,
           what);
  }
  if (a.dropout.probability > 0 || stash.data_handle() != nullptr) {
    c.pointer(g.edge_map, g.edges(), "graph: dropout and a stash need its edge map");
  }
}

/// Gradients share no element with what they are made of, nor with each other.
template <class... Operands>
class apart_from {
 public:
  apart_from(argument_check& c, const Operands&... operands) : c_(c), operands_(operands...) {}
  template <class Written, class... Others>
  void operator()(const char* what, const Written& written, const Others&... others) const {
    std::apply([&](const auto&... o) { check_apart(c_, what, written, o..., others...); },
               operands_);
  }

 private:
  argument_check& c_;
  std::tuple<const Operands&...> operands_;
};

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const transformer_backward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  check_gradient(c, a);
  check_heads(c, a.grad_query, g.rows(), heads, dim, QUIPU_HEADS_NAMES("grad_query", "rows"));
  check_heads(c, a.grad_key, g.columns(), heads, dim, QUIPU_HEADS_NAMES("grad_key", "columns"));
  check_heads(c, a.grad_value, g.columns(), heads, dim, QUIPU_HEADS_NAMES("grad_value", "columns"));
  if (a.bias.data_handle() != nullptr) {
    c.pointer(g.edge_map, g.edges(), "graph: a bias needs its edge map");
  }
  if (a.grad_bias.data_handle() != nullptr) {
    check_scalars(c, a.grad_bias, g.edges(), heads, "grad_bias: [edges, heads] wanted");
  }
  const apart_from apart(c, a.query, a.key, a.value, a.output, a.grad_output, a.bias, a.logsumexp);
  apart("grad_query: overlaps an operand", a.grad_query);
  apart("grad_key: overlaps an operand or another gradient", a.grad_key, a.grad_query);
  apart("grad_value: overlaps an operand or another gradient", a.grad_value, a.grad_query,
        a.grad_key);
  apart("grad_bias: overlaps an operand or another gradient", a.grad_bias, a.grad_query, a.grad_key,
        a.grad_value);
  apart("stash: overlaps an operand or a gradient", a.stash, a.grad_query, a.grad_key, a.grad_value,
        a.grad_bias);
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const gatv2_backward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  check_gradient(c, a);
  check_heads(c, a.grad_target, g.rows(), heads, dim, QUIPU_HEADS_NAMES("grad_target", "rows"));
  check_heads(c, a.grad_source, g.columns(), heads, dim,
              QUIPU_HEADS_NAMES("grad_source", "columns"));
  check_vectors(c, a.grad_attention, heads, dim, QUIPU_HEADS_NAMES("grad_attention", "heads"));
  const apart_from apart(c, a.target, a.source, a.attention, a.output, a.grad_output, a.logsumexp);
  apart("grad_target: overlaps an operand", a.grad_target);
  apart("grad_source: overlaps an operand or another gradient", a.grad_source, a.grad_target);
  apart("grad_attention: overlaps an operand or another gradient", a.grad_attention, a.grad_target,
        a.grad_source);
  apart("stash: overlaps an operand or a gradient", a.stash, a.grad_target, a.grad_source,
        a.grad_attention);
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const gat_backward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  check_gradient(c, a);
  check_heads(c, a.grad_source, g.columns(), heads, dim,
              QUIPU_HEADS_NAMES("grad_source", "columns"));
  check_scalars(c, a.grad_target_score, g.rows(), heads, "grad_target_score: [rows, heads] wanted");
  check_scalars(c, a.grad_source_score, g.columns(), heads,
                "grad_source_score: [columns, heads] wanted");
  const apart_from apart(c, a.target_score, a.source_score, a.source, a.output, a.grad_output,
                         a.logsumexp);
  apart("grad_source: overlaps an operand", a.grad_source);
  apart("grad_target_score: overlaps an operand or another gradient", a.grad_target_score,
        a.grad_source);
  apart("grad_source_score: overlaps an operand or another gradient", a.grad_source_score,
        a.grad_source, a.grad_target_score);
  apart("stash: overlaps an operand or a gradient", a.stash, a.grad_source, a.grad_target_score,
        a.grad_source_score);
  return c.outcome();
}

}  // namespace quipu::detail
