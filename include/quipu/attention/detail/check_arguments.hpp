// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "quipu/attention/gat.hpp"
#include "quipu/attention/gatv2.hpp"
#include "quipu/attention/transformer.hpp"
#include "quipu/engine/argument_check.hpp"

namespace quipu::detail {

/// Elements that a view of heads spans, gaps included.
template <class T>
byte_range range_of(const heads_view<T>& m) {
  const bool none = m.extent(0) == 0 || m.extent(1) == 0 || m.extent(2) == 0;
  return range_of(
      m.data_handle(),
      none ? 0 : (m.extent(0) - 1) * m.stride(0) + (m.extent(1) - 1) * m.stride(1) + m.extent(2));
}

/// What the heads of one operand are called in errors.
struct heads_names {
  const char *pointer, *rows, *heads, *dim, *strides;
};
#define QUIPU_HEADS_NAMES(name, of_rows)                                                           \
  quipu::detail::heads_names {                                                                     \
    name ": null, or not where the context works", name ": rows differ from the graph's " of_rows, \
        name ": heads differ from the output's", name ": dim differs from the output's",           \
        name ": strides"                                                                           \
  }

template <class T>
void check_heads(argument_check& c, const heads_view<T>& m, std::int64_t rows, std::int64_t heads,
                 std::int64_t dim, const heads_names& names) {
  c.that(m.extent(0) == rows, names.rows, rows, m.extent(0));
  c.that(m.extent(1) == heads, names.heads, heads, m.extent(1));
  c.that(m.extent(2) == dim, names.dim, dim, m.extent(2));
  c.that(dim <= 1 || m.stride(2) == 1, names.strides);
  c.that(heads <= 1 || m.stride(1) >= dim, names.strides);
  const auto row = (heads - 1) * m.stride(1) + dim;
  c.that(rows <= 1 || heads == 0 || m.stride(0) >= row, names.strides);
  c.that(rows <= 1 || m.stride(0) < std::numeric_limits<std::int32_t>::max(), names.strides);
  c.pointer(m.data_handle(), rows * heads * dim, names.pointer);
}

/// Numbers for each row, or each edge, and head.
template <class A>
void check_scalars(argument_check& c, const matrix_view<A>& m, std::int64_t rows,
                   std::int64_t heads, const char* what) {
  c.that(m.extent(0) == rows, what, rows, m.extent(0));
  c.that(m.extent(1) == heads, what, heads, m.extent(1));
  c.that(rows <= 1 || m.stride(0) >= heads, what);
  c.that(heads <= 1 || m.stride(1) == 1, what);
  c.pointer(m.data_handle(), rows * heads, what);
}

/// What every attention forward has: a graph, results, and the senders' rows that they are made of.
template <class Args>
void check_attention(argument_check& c, const Args& a) {
  const auto& g = a.graph;
  const auto heads = a.output.extent(1), dim = a.output.extent(2);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  check_heads(c, a.output, g.rows(), heads, dim, QUIPU_HEADS_NAMES("output", "rows"));
  if (a.logsumexp.data_handle() != nullptr) {
    check_scalars(c, a.logsumexp, g.rows(), heads, "logsumexp: [rows, heads] wanted");
    c.that(!range_of(a.logsumexp).meets(range_of(a.output)), "logsumexp: overlaps the output");
  }
  if (a.alpha.data_handle() != nullptr) {
    check_scalars(c, a.alpha, g.edges(), heads, "alpha: [edges, heads] wanted");
    c.that(!range_of(a.alpha).meets(range_of(a.output)), "alpha: overlaps the output");
    c.that(!range_of(a.alpha).meets(range_of(a.logsumexp)), "alpha: overlaps logsumexp");
  }
}

/// Results may share no element with what they are made of.
template <class Args>
void check_apart(argument_check& c, const Args& a, const byte_range& read, const char* what) {
  c.that(!read.meets(range_of(a.output)) && !read.meets(range_of(a.logsumexp)) &&
             !read.meets(range_of(a.alpha)),
         what);
}

template <class A>
void check_slope(argument_check& c, A slope) {
  c.that(slope == slope, "slope: NaN");
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const gatv2_forward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto heads = a.output.extent(1), dim = a.output.extent(2);
  check_attention(c, a);
  check_heads(c, a.target, g.rows(), heads, dim, QUIPU_HEADS_NAMES("target", "rows"));
  check_heads(c, a.source, g.columns(), heads, dim, QUIPU_HEADS_NAMES("source", "columns"));
  c.matrix(a.attention, heads, dim, "attention: null, or not where the context works",
           "attention: heads differ from the output's", "attention: dim differs from the output's",
           "attention: row stride");
  check_apart(c, a, range_of(a.target), "output: overlaps the target");
  check_apart(c, a, range_of(a.source), "output: overlaps the source");
  check_apart(c, a, range_of(a.attention), "output: overlaps the attention vector");
  check_slope(c, a.slope);
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const transformer_forward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto heads = a.output.extent(1), dim = a.output.extent(2);
  check_attention(c, a);
  check_heads(c, a.query, g.rows(), heads, dim, QUIPU_HEADS_NAMES("query", "rows"));
  check_heads(c, a.key, g.columns(), heads, dim, QUIPU_HEADS_NAMES("key", "columns"));
  check_heads(c, a.value, g.columns(), heads, dim, QUIPU_HEADS_NAMES("value", "columns"));
  if (a.bias.data_handle() != nullptr) {
    check_scalars(c, a.bias, g.edges(), heads, "bias: [edges, heads] wanted");
    check_apart(c, a, range_of(a.bias), "output: overlaps the bias");
  }
  check_apart(c, a, range_of(a.query), "output: overlaps the query");
  check_apart(c, a, range_of(a.key), "output: overlaps the key");
  check_apart(c, a, range_of(a.value), "output: overlaps the value");
  c.that(a.scale == a.scale, "scale: NaN");
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const gat_forward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto heads = a.output.extent(1), dim = a.output.extent(2);
  check_attention(c, a);
  check_heads(c, a.source, g.columns(), heads, dim, QUIPU_HEADS_NAMES("source", "columns"));
  check_scalars(c, a.target_score, g.rows(), heads, "target_score: [rows, heads] wanted");
  check_scalars(c, a.source_score, g.columns(), heads, "source_score: [columns, heads] wanted");
  check_apart(c, a, range_of(a.source), "output: overlaps the source");
  check_apart(c, a, range_of(a.target_score), "output: overlaps the target's scores");
  check_apart(c, a, range_of(a.source_score), "output: overlaps the source's scores");
  check_slope(c, a.slope);
  return c.outcome();
}

/// Gradients may share no element with what they are made of, nor with each other.
template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const transformer_backward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  c.that(g.has_reverse() || g.columns() == 0,
         "graph: made without its reverse, which backward needs");
  c.direction(g.reverse, "graph: incomplete, or not where the context works");
  const auto receivers = [&](const auto& m, const heads_names& names) {
    check_heads(c, m, g.rows(), heads, dim, names);
  };
  const auto senders = [&](const auto& m, const heads_names& names) {
    check_heads(c, m, g.columns(), heads, dim, names);
  };
  receivers(a.grad_output, QUIPU_HEADS_NAMES("grad_output", "rows"));
  receivers(a.query, QUIPU_HEADS_NAMES("query", "rows"));
  senders(a.key, QUIPU_HEADS_NAMES("key", "columns"));
  senders(a.value, QUIPU_HEADS_NAMES("value", "columns"));
  receivers(a.output, QUIPU_HEADS_NAMES("output", "rows"));
  receivers(a.grad_query, QUIPU_HEADS_NAMES("grad_query", "rows"));
  senders(a.grad_key, QUIPU_HEADS_NAMES("grad_key", "columns"));
  senders(a.grad_value, QUIPU_HEADS_NAMES("grad_value", "columns"));
  check_scalars(c, a.logsumexp, g.rows(), heads, "logsumexp: [rows, heads] of forward wanted");
  if (a.bias.data_handle() != nullptr) {
    check_scalars(c, a.bias, g.edges(), heads, "bias: [edges, heads] wanted");
    c.that(g.edge_map != nullptr || g.edges() == 0, "graph: a bias needs its edge map");
  }
  if (a.grad_bias.data_handle() != nullptr) {
    check_scalars(c, a.grad_bias, g.edges(), heads, "grad_bias: [edges, heads] wanted");
  }
  c.that(a.scale == a.scale, "scale: NaN");
  const byte_range read[] = {range_of(a.query),    range_of(a.key),         range_of(a.value),
                             range_of(a.output),   range_of(a.grad_output), range_of(a.bias),
                             range_of(a.logsumexp)};
  const byte_range written[] = {range_of(a.grad_query), range_of(a.grad_key),
                                range_of(a.grad_value), range_of(a.grad_bias)};
  const char* names[] = {"grad_query: overlaps an operand or another gradient",
                         "grad_key: overlaps an operand or another gradient",
                         "grad_value: overlaps an operand or another gradient",
                         "grad_bias: overlaps an operand or another gradient"};
  for (int w = 0; w < 4; ++w) {
    for (const auto& r : read) c.that(!written[w].meets(r), names[w]);
    for (int other = 0; other < w; ++other) c.that(!written[w].meets(written[other]), names[w]);
  }
  return c.outcome();
}

#undef QUIPU_HEADS_NAMES

}  // namespace quipu::detail
