// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/engine/argument_check.hpp"
#include "quipu/reduce/aggregate.hpp"

namespace quipu::detail {

template <class I, class O>
void check_winners(argument_check& c, const argument_view& a, const graph_view<I, O>& g,
                   std::int64_t features, const char* what_pointer, const char* what_shape) {
  const auto& wide = g.forward.wide_rows;
  c.that(a.rows == g.rows() && a.features == features, what_shape);
  c.that(a.wide_rows == wide.count && a.rank == wide.rank, what_shape);
  c.that(wide.count == 0 || g.columns() <= argument_view::most_columns,
         "argument: its words cannot name the graph's columns", argument_view::most_columns,
         g.columns());
  c.that(reinterpret_cast<std::uintptr_t>(a.wide) % alignof(std::uint32_t) == 0, what_shape);
  c.pointer(a.low, g.rows() * features, what_pointer);
  c.pointer(a.wide, wide.count * features, what_pointer);
}

/// True if stored winners share a byte with a range.
inline bool overlap(const argument_view& a, const byte_range& other) {
  return range_of(a.low, a.rows * a.features).meets(other) ||
         range_of(a.wide, a.wide_rows * a.features).meets(other);
}
inline bool overlap(const argument_view& a, const argument_view& b) {
  return overlap(a, range_of(b.low, b.rows * b.features)) ||
         overlap(a, range_of(b.wide, b.wide_rows * b.features));
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const aggregate_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto features = a.output.extent(1);
  c.forward(g, a.input, a.output);
  const bool extremum = a.op == reduce::min || a.op == reduce::max;
  if (!a.argument.empty()) {
    c.that(extremum, "argument: only min and max have one");
    check_winners(c, a.argument, g, features, "argument: not where the context works",
                  "argument: made for another graph or width");
    c.that(!overlap(a.argument, range_of(a.input)) && !overlap(a.argument, range_of(a.output)),
           "argument: overlaps the input or the output");
  }
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const aggregate_backward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto features = a.grad_input.extent(1);
  c.backward(g, a.grad_output, a.grad_input);
  if (a.op == reduce::min || a.op == reduce::max) {
    c.that(!a.argument.empty() || g.rows() * features == 0,
           "argument: missing; min and max need it");
    if (!a.argument.empty()) {
      check_winners(c, a.argument, g, features, "argument: not where the context works",
                    "argument: made for another graph or width");
      c.that(!overlap(a.argument, range_of(a.grad_input)), "grad_input: overlaps the argument");
    }
  }
  return c.outcome();
}

/// The first edge from `sender` in a row: by halving the sender's receivers, which rise, where the
/// graph has its reverse; else by walking the row. -1 if there is none.
template <class I, class O>
QUIPU_HD std::int64_t first_edge_from(const graph_view<I, O>& g, std::int64_t row,
                                      std::int64_t sender) {
  const auto& csr = g.forward.csr;
  if (g.reverse.csr.offsets == nullptr) {
    for (std::int64_t k = csr.offsets[row]; k < csr.offsets[row + 1]; ++k) {
      if (csr.indices[k] == sender) return k;
    }
    return -1;
  }
  std::int64_t low = g.reverse.csr.offsets[sender], high = g.reverse.csr.offsets[sender + 1];
  const auto end = high;
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (g.reverse.csr.indices[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < end && g.reverse.csr.indices[low] == row ? g.edge_map[low] : -1;
}

/// The global edge position of a stored winner, -1 for none.
template <class I, class O>
QUIPU_HD std::int64_t edge_of(const argument_view& a, const graph_view<I, O>& g, std::int64_t row,
                              std::int64_t feature) {
  const std::int64_t begin = g.forward.csr.offsets[row], end = g.forward.csr.offsets[row + 1];
  if (begin == end) return -1;
  if (!wide_rows_view::is_wide(end - begin)) return begin + a.low[row * a.features + feature];
  const auto sender = static_cast<std::int64_t>(a.wide[a.rank[row] * a.features + feature]);
  return sender < g.forward.csr.columns ? first_edge_from(g, row, sender) : -1;
}

template <class Context, class I, class O>
status check_expand(const Context& ctx, const graph_view<I, O>& g, const argument_view& a,
                    const matrix_view<std::int64_t>& edges) {
  argument_check c(ctx);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  check_winners(c, a, g, a.features, "argument: null, or not where the context works",
                "argument: made for another graph");
  c.matrix(edges, g.rows(), a.features, "edges: null, or not where the context works",
           "edges: rows differ from the graph's", "edges: features differ from the argument's",
           "edges: row stride");
  c.that(!overlap(a, range_of(edges)), "edges: overlaps the argument");
  return c.outcome();
}

/// The one check of an optional matrix of several reductions.
template <class T>
void check_optional(argument_check& c, const matrix_view<T>& m, std::int64_t rows,
                    std::int64_t features, const char* what) {
  if (given(m)) c.matrix(m, rows, features, what, what, what, what);
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const aggregate_several_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto features = a.input.extent(1);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  c.matrix(a.input, g.columns(), features, "input: null, or not where the context works",
           "input: rows differ from the graph's columns", "input: features", "input: row stride");
  check_optional(c, a.sum, g.rows(), features, "sum: shape, stride or memory");
  check_optional(c, a.mean, g.rows(), features, "mean: shape, stride or memory");
  check_optional(c, a.min, g.rows(), features, "min: shape, stride or memory");
  check_optional(c, a.max, g.rows(), features, "max: shape, stride or memory");
  check_optional(c, a.squares, g.rows(), features, "squares: shape, stride or memory");
  const matrix_view<T>* outputs[] = {&a.sum, &a.mean, &a.min, &a.max, &a.squares};
  for (const auto* m : outputs) {
    if (given(*m)) c.that(!overlap(a.input, *m), "output: overlaps the input");
    for (const auto* other = outputs; *other != m; ++other) {
      if (given(*m)) c.that(!overlap(**other, *m), "output: overlaps another output");
    }
  }
  const auto winners = [&](const argument_view& w, const char* what) {
    if (!w.empty()) check_winners(c, w, g, features, what, what);
  };
  winners(a.min_argument, "min_argument: shape, width or memory");
  winners(a.max_argument, "max_argument: shape, width or memory");
  c.that(!overlap(a.min_argument, a.max_argument), "max_argument: overlaps min_argument");
  for (const auto* w : {&a.min_argument, &a.max_argument}) {
    c.that(!overlap(*w, range_of(a.input)), "argument: overlaps the input");
    for (const auto* m : outputs)
      c.that(!overlap(*w, range_of(*m)), "argument: overlaps an output");
  }
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const aggregate_several_backward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto features = a.grad_input.extent(1);
  c.backward(g, a.grad_input);
  check_optional(c, a.grad_sum, g.rows(), features, "grad_sum: shape, stride or memory");
  check_optional(c, a.grad_mean, g.rows(), features, "grad_mean: shape, stride or memory");
  check_optional(c, a.grad_min, g.rows(), features, "grad_min: shape, stride or memory");
  check_optional(c, a.grad_max, g.rows(), features, "grad_max: shape, stride or memory");
  check_optional(c, a.grad_squares, g.rows(), features, "grad_squares: shape, stride or memory");
  const auto winners = [&](bool wanted, const argument_view& w, const char* what) {
    if (!wanted) return;
    c.that(!w.empty(), what);
    if (!w.empty()) check_winners(c, w, g, features, what, what);
  };
  winners(given(a.grad_min), a.min_argument,
          "min_argument: missing, or its shape, width or memory");
  winners(given(a.grad_max), a.max_argument,
          "max_argument: missing, or its shape, width or memory");
  for (const auto* w : {&a.min_argument, &a.max_argument}) {
    c.that(!overlap(*w, range_of(a.grad_input)), "grad_input: overlaps an argument");
  }
  for (const auto* m :
       {&a.grad_sum, &a.grad_mean, &a.grad_min, &a.grad_max, &a.grad_squares, &a.input}) {
    if (given(*m))
      c.that(!overlap(*m, a.grad_input), "grad_input: overlaps a gradient or the input");
  }
  if (given(a.grad_squares)) {
    c.that(given(a.input) || g.columns() * features == 0,
           "input: missing; the gradient of squares needs it");
    check_optional(c, a.input, g.columns(), features, "input: shape, stride or memory");
  }
  return c.outcome();
}

}  // namespace quipu::detail
