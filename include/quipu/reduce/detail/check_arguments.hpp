// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/reduce/aggregate.hpp"

namespace quipu::detail {

/// Collects O(1) checks; the first failure stays.
class argument_check {
 public:
  argument_check(const context& ctx) : on_device_(true), device_(ctx.device) {}
  argument_check(const host_context&) {}

  const status& outcome() const { return outcome_; }

  void that(bool holds, const char* what, std::int64_t expected = 0, std::int64_t actual = 0) {
    if (outcome_.ok() && !holds) {
      outcome_ = failure(status_code::invalid_argument, what, -1, expected, actual);
    }
  }

  void pointer(const void* data, std::int64_t count, const char* what) {
    if (!outcome_.ok()) return;
    if (on_device_) {
      outcome_ = check_device_pointer(data, count, what, device_);
    } else {
      that(data != nullptr || count == 0, what);
    }
  }

  template <class T>
  void matrix(const matrix_view<T>& m, std::int64_t rows, std::int64_t features,
              const char* what_pointer, const char* what_rows, const char* what_features,
              const char* what_stride) {
    that(m.extent(0) == rows, what_rows, rows, m.extent(0));
    that(m.extent(1) == features, what_features, features, m.extent(1));
    that(m.extent(0) <= 1 || m.stride(0) >= m.extent(1), what_stride);
    that(m.extent(1) <= 1 || m.stride(1) == 1, what_stride);
    that(m.extent(0) <= 1 || m.stride(0) < std::numeric_limits<std::int32_t>::max(), what_stride);
    pointer(m.data_handle(), rows * features, what_pointer);
  }

  template <class I, class O>
  void direction(const direction_view<I, O>& d, const char* what) {
    that(d.csr.rows >= 0 && d.csr.columns >= 0 && d.csr.edges >= 0, what);
    that(d.csr.offsets != nullptr || d.csr.rows == 0, what);
    that(d.csr.rows == 0 || d.schedule.slice_count > 0, what);
    if (d.csr.rows > 0) pointer(d.schedule.slices, d.schedule.slice_count, what);
    pointer(d.csr.indices, d.csr.edges, what);
  }

  /// What every gradient needs: the reverse graph, and room for the senders' rows.
  template <class T, class I, class O>
  void backward(const graph_view<I, O>& g, const matrix_view<T>& grad_input) {
    that(g.has_reverse() || g.columns() == 0,
         "graph: made without its reverse, which backward needs");
    direction(g.reverse, "graph: incomplete, or not where the context works");
    matrix(grad_input, g.columns(), grad_input.extent(1),
           "grad_input: null, or not where the context works",
           "grad_input: rows differ from the graph's columns", "grad_input: features",
           "grad_input: row stride");
  }

  template <class I, class O>
  void argument(const argument_view& a, const graph_view<I, O>& g, std::int64_t features,
                const char* what_pointer, const char* what_shape) {
    const auto& wide = g.forward.wide_rows;
    that(a.rows == g.rows() && a.features == features, what_shape);
    that(a.wide_rows == wide.count && a.rank == wide.rank, what_shape);
    that(g.columns() <= argument_view::most_columns,
         "argument: its words cannot name the graph's columns", argument_view::most_columns,
         g.columns());
    that(reinterpret_cast<std::uintptr_t>(a.wide) % alignof(std::uint32_t) == 0, what_shape);
    pointer(a.low, g.rows() * features, what_pointer);
    pointer(a.wide, wide.count * features, what_pointer);
  }

 private:
  bool on_device_ = false;
  std::int32_t device_ = -1;
  status outcome_ = success();
};

template <class T>
bool given(const matrix_view<T>& m) {
  return m.data_handle() != nullptr;
}

/// Bytes from the first element to behind the last.
struct byte_range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool meets(const byte_range& o) const { return begin < o.end && o.begin < end; }
};
template <class T>
byte_range range_of(const T* data, std::int64_t count) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin, data == nullptr ? begin : begin + static_cast<std::uintptr_t>(count) * sizeof(T)};
}
template <class T>
byte_range range_of(const matrix_view<T>& m) {
  const bool none = m.extent(0) == 0 || m.extent(1) == 0;
  return range_of(m.data_handle(), none ? 0 : (m.extent(0) - 1) * m.stride(0) + m.extent(1));
}

/// True if two matrices share an element; outputs may share none with anything. Column blocks of
/// one wide matrix lie side by side: their address ranges meet, their elements do not.
template <class A, class B>
bool overlap(const matrix_view<A>& a, const matrix_view<B>& b) {
  const auto x = range_of(a);
  const auto y = range_of(b);
  if (!x.meets(y)) return false;
  const auto row = static_cast<std::uintptr_t>(a.stride(0)) * sizeof(A);
  if (a.stride(0) != b.stride(0) || sizeof(A) != sizeof(B) || row == 0) return true;
  const auto shift = (y.begin - x.begin) % row;  // of b's first column behind a's, round the row
  return shift < static_cast<std::uintptr_t>(a.extent(1)) * sizeof(A) ||
         shift + static_cast<std::uintptr_t>(b.extent(1)) * sizeof(B) > row;
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
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  c.matrix(a.output, g.rows(), features, "output: null, or not where the context works",
           "output: rows differ from the graph's rows", "output: features", "output: row stride");
  c.matrix(a.input, g.columns(), features, "input: null, or not where the context works",
           "input: rows differ from the graph's columns",
           "input: features differ from the output's", "input: row stride");
  c.that(!overlap(a.input, a.output), "output: overlaps the input");
  const bool extremum = a.op == reduce::min || a.op == reduce::max;
  if (!a.argument.empty()) {
    c.that(extremum, "argument: only min and max have one");
    c.argument(a.argument, g, features, "argument: not where the context works",
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
  c.backward(g, a.grad_input);
  c.matrix(a.grad_output, g.rows(), features, "grad_output: null, or not where the context works",
           "grad_output: rows differ from the graph's rows",
           "grad_output: features differ from grad_input's", "grad_output: row stride");
  c.that(!overlap(a.grad_output, a.grad_input), "grad_input: overlaps grad_output");
  if (a.op == reduce::min || a.op == reduce::max) {
    c.that(!a.argument.empty() || g.rows() * features == 0,
           "argument: missing; min and max need it");
    if (!a.argument.empty()) {
      c.argument(a.argument, g, features, "argument: not where the context works",
                 "argument: made for another graph or width");
      c.that(!overlap(a.argument, range_of(a.grad_input)), "grad_input: overlaps the argument");
    }
  }
  return c.outcome();
}

/// The global edge position of a stored winner, -1 for none. A sender stands for the first of its
/// edges in the row.
template <class I, class O>
QUIPU_HD std::int64_t edge_of(const argument_view& a, const csr_view<I, O>& csr, std::int64_t row,
                              std::int64_t feature) {
  const std::int64_t begin = csr.offsets[row], end = csr.offsets[row + 1];
  if (begin == end) return -1;
  if (!wide_rows_view::is_wide(end - begin)) return begin + a.low[row * a.features + feature];
  const auto sender = a.wide[a.rank[row] * a.features + feature];
  for (auto k = begin; k < end; ++k) {
    if (static_cast<std::uint32_t>(csr.indices[k]) == sender) return k;
  }
  return -1;
}

template <class Context, class I, class O>
status check_expand(const Context& ctx, const graph_view<I, O>& g, const argument_view& a,
                    const matrix_view<std::int64_t>& edges) {
  argument_check c(ctx);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  c.argument(a, g, a.features, "argument: null, or not where the context works",
             "argument: made for another graph");
  c.matrix(edges, g.rows(), a.features, "edges: null, or not where the context works",
           "edges: rows differ from the graph's", "edges: features differ from the argument's",
           "edges: row stride");
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
    if (!w.empty()) c.argument(w, g, features, what, what);
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
    if (!w.empty()) c.argument(w, g, features, what, what);
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
