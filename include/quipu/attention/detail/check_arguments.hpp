// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "quipu/attention/gat.hpp"
#include "quipu/attention/gatv2.hpp"
#include "quipu/attention/transformer.hpp"
#include "quipu/engine/argument_check.hpp"

namespace quipu::detail {

/// The rows of an operand as a matrix, gaps between its heads included: what may not overlap.
/// Column blocks of one wide matrix, as packed queries, keys and values are, lie side by side.
template <class T>
matrix_view<const T> rows_of(const heads_view<T>& m) {
  const auto width = m.extent(1) == 0 ? 0 : (m.extent(1) - 1) * m.stride(1) + m.extent(2);
  return make_matrix_view<const T>(m.data_handle(), m.extent(0), width, m.stride(0));
}
template <class T>
matrix_view<const T> rows_of(const matrix_view<T>& m) {
  return m;
}
/// What is written shares no element with any of the others.
template <class Written, class... Others>
void check_apart(argument_check& c, const char* what, const Written& written,
                 const Others&... others) {
  c.that((!overlap(rows_of(written), rows_of(others)) && ...), what);
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
  c.that(rows <= 1 || m.stride(0) <= longest_stride<T>, names.strides);
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

/// Results may share no element with what they are made of.
template <class Args, class... Read>
void check_results_apart(argument_check& c, const Args& a, const Read&... read) {
  check_apart(c, "output: overlaps an operand", a.output, read...);
  check_apart(c, "logsumexp: overlaps an operand", a.logsumexp, read...);
  check_apart(c, "alpha: overlaps an operand", a.alpha, read...);
}

/// A vector for each head.
template <class T>
void check_vectors(argument_check& c, const matrix_view<T>& m, std::int64_t heads, std::int64_t dim,
                   const heads_names& names) {
  c.matrix(m, heads, dim, names.pointer, names.heads, names.dim, names.strides);
}

/// The operands of a pass, forward or backward: both call them the same.
template <class Args>
void check_operands(argument_check& c, const Args& a, std::int64_t heads, std::int64_t dim) {
  const auto rows = a.graph.rows(), columns = a.graph.columns();
  if constexpr (requires { a.query; }) {
    check_heads(c, a.query, rows, heads, dim, QUIPU_HEADS_NAMES("query", "rows"));
    check_heads(c, a.key, columns, heads, dim, QUIPU_HEADS_NAMES("key", "columns"));
    check_heads(c, a.value, columns, heads, dim, QUIPU_HEADS_NAMES("value", "columns"));
    if (a.bias.data_handle() != nullptr) {
      check_scalars(c, a.bias, a.graph.edges(), heads, "bias: [edges, heads] wanted");
    }
    c.that(a.scale == a.scale, "scale: NaN");
  } else if constexpr (requires { a.target_score; }) {
    check_heads(c, a.source, columns, heads, dim, QUIPU_HEADS_NAMES("source", "columns"));
    check_scalars(c, a.target_score, rows, heads, "target_score: [rows, heads] wanted");
    check_scalars(c, a.source_score, columns, heads, "source_score: [columns, heads] wanted");
  } else {
    check_heads(c, a.target, rows, heads, dim, QUIPU_HEADS_NAMES("target", "rows"));
    check_heads(c, a.source, columns, heads, dim, QUIPU_HEADS_NAMES("source", "columns"));
    check_vectors(c, a.attention, heads, dim, QUIPU_HEADS_NAMES("attention", "heads"));
  }
  if constexpr (requires { a.slope; }) c.that(a.slope - a.slope == 0, "slope: not finite");
}

inline void check_dropout(argument_check& c, const attention_dropout& d) {
  c.that(d.probability >= 0 && d.probability < 1, "dropout: probability is outside [0, 1)");
}

/// What every attention forward has: a graph, results, and operands.
template <class Args>
void check_attention(argument_check& c, const Args& a) {
  const auto& g = a.graph;
  const auto heads = a.output.extent(1), dim = a.output.extent(2);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  check_heads(c, a.output, g.rows(), heads, dim, QUIPU_HEADS_NAMES("output", "rows"));
  c.that(dim > 0, "output: heads without features");
  check_dropout(c, a.dropout);
  if (a.logsumexp.data_handle() != nullptr) {
    check_scalars(c, a.logsumexp, g.rows(), heads, "logsumexp: [rows, heads] wanted");
    check_apart(c, "logsumexp: overlaps the output", a.logsumexp, a.output);
  }
  if (a.alpha.data_handle() != nullptr) {
    check_scalars(c, a.alpha, g.edges(), heads, "alpha: [edges, heads] wanted");
    check_apart(c, "alpha: overlaps the output or logsumexp", a.alpha, a.output, a.logsumexp);
    if (g.rows() > 0) {
      c.pointer(g.forward.csr.offsets, g.rows() + 1,
                "graph: incomplete, or not where the context works");
    }
  }
  check_operands(c, a, heads, dim);
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const gatv2_forward_args<T, I, O>& a) {
  argument_check c(ctx);
  check_attention(c, a);
  check_results_apart(c, a, a.target, a.source, a.attention);
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const transformer_forward_args<T, I, O>& a) {
  argument_check c(ctx);
  check_attention(c, a);
  check_results_apart(c, a, a.query, a.key, a.value, a.bias);
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const gat_forward_args<T, I, O>& a) {
  argument_check c(ctx);
  check_attention(c, a);
  check_results_apart(c, a, a.source, a.target_score, a.source_score);
  return c.outcome();
}

}  // namespace quipu::detail
