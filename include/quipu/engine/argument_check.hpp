// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu::detail {

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
  // Of b's first column behind a's, round the row; b may begin first.
  const auto shift =
      y.begin >= x.begin ? (y.begin - x.begin) % row : (row - (x.begin - y.begin) % row) % row;
  return shift < static_cast<std::uintptr_t>(a.extent(1)) * sizeof(A) ||
         shift + static_cast<std::uintptr_t>(b.extent(1)) * sizeof(B) > row;
}

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
    that(m.extent(0) <= 1 || m.stride(0) <= longest_stride<std::remove_const_t<T>>, what_stride);
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

  /// What every verb from senders' rows to receivers' rows needs.
  template <class T, class I, class O>
  void forward(const graph_view<I, O>& g, const matrix_view<const T>& input,
               const matrix_view<T>& output) {
    direction(g.forward, "graph: incomplete, or not where the context works");
    matrix(output, g.rows(), output.extent(1), "output: null, or not where the context works",
           "output: rows differ from the graph's rows", "output: features", "output: row stride");
    matrix(input, g.columns(), output.extent(1), "input: null, or not where the context works",
           "input: rows differ from the graph's columns",
           "input: features differ from the output's", "input: row stride");
    that(!overlap(input, output), "output: overlaps the input");
  }

  /// The same of its gradient.
  template <class T, class I, class O>
  void backward(const graph_view<I, O>& g, const matrix_view<const T>& grad_output,
                const matrix_view<T>& grad_input) {
    backward(g, grad_input);
    matrix(grad_output, g.rows(), grad_input.extent(1),
           "grad_output: null, or not where the context works",
           "grad_output: rows differ from the graph's rows",
           "grad_output: features differ from grad_input's", "grad_output: row stride");
    that(!overlap(grad_output, grad_input), "grad_input: overlaps grad_output");
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

 private:
  bool on_device_ = false;
  std::int32_t device_ = -1;
  status outcome_ = success();
};

}  // namespace quipu::detail
