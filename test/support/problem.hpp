// SPDX-License-Identifier: Apache-2.0
#pragma once

// Turns oracle graphs and matrices into what the library takes, and back.

#include <cstdint>
#include <vector>

#include "quipu/core/element.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/math/convert.hpp"
#include "support/oracle.hpp"

namespace test {

template <class T>
T to_element(double v) {
  if constexpr (std::is_same_v<T, double>) {
    return v;
  } else {
    return quipu::narrow<T>(static_cast<float>(v));
  }
}

/// [rows, width] in storage type T, with `stride` elements a row and `shift` elements before the
/// first; gaps hold `gap`.
template <class T>
struct stored_matrix {
  std::int64_t rows = 0, width = 0, stride = 0, shift = 0;
  std::vector<T> data;

  stored_matrix(std::int64_t r, std::int64_t w, double fill, std::int64_t padding = 0,
                std::int64_t shift_by = 0)
      : rows(r),
        width(w),
        stride(w + padding),
        shift(shift_by),
        data(static_cast<std::size_t>(r * stride + shift_by), to_element<T>(fill)) {}
  stored_matrix(const oracle::matrix& m, std::int64_t padding = 0, std::int64_t shift_by = 0,
                double gap = 777.0)
      : stored_matrix(m.rows, m.width, gap, padding, shift_by) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t f = 0; f < width; ++f) at(i, f) = to_element<T>(m.at(i, f));
  }
  T& at(std::int64_t i, std::int64_t f) { return data[shift + i * stride + f]; }
  T at(std::int64_t i, std::int64_t f) const { return data[shift + i * stride + f]; }

  /// What the storage type holds, in double: the oracle's input.
  oracle::matrix rounded() const {
    oracle::matrix m(rows, width);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t f = 0; f < width; ++f)
        m.at(i, f) = static_cast<double>(quipu::widen(at(i, f)));
    return m;
  }
};

/// Compressed rows in the library's types.
template <class I, class O>
struct stored_graph {
  std::vector<O> offsets;
  std::vector<I> indices;
  std::vector<float> weights;
  std::int64_t rows, columns;

  explicit stored_graph(const oracle::graph& g)
      : offsets(g.offsets.begin(), g.offsets.end()),
        indices(g.indices.begin(), g.indices.end()),
        weights(g.weights.begin(), g.weights.end()),
        rows(g.rows),
        columns(g.columns) {}
  quipu::csr_view<I, O> view() const {
    return {rows,           columns,        static_cast<std::int64_t>(indices.size()),
            offsets.data(), indices.data(), weights.empty() ? nullptr : weights.data()};
  }
};

/// A small slice length, so that tests split rows as large graphs do.
inline quipu::graph_options small_slices(std::int32_t edges = 16) {
  quipu::graph_options o;
  o.schedule.slice_edges = edges;
  return o;
}

/// Unit round-off of a storage type.
template <class T>
constexpr double epsilon() {
  if constexpr (std::is_same_v<T, double>) return 1.1e-16;
  if constexpr (std::is_same_v<T, float>) return 6.0e-8;
  if constexpr (std::is_same_v<T, quipu::float16>) return 4.9e-4;
  return 3.9e-3;
}
/// Unit round-off of the accumulator of a storage type.
template <class T>
constexpr double accumulator_epsilon() {
  return epsilon<quipu::accumulator<T>>();
}

}  // namespace test
