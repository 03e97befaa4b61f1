// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/row_source.hpp"
#include "quipu/engine/sum_program.hpp"
#include "quipu/graph/normalise.hpp"
#include "quipu/sparse/detail/coded_columns.hpp"
#include "quipu/sparse/spmm.hpp"

namespace quipu::detail {

/// Factor of a binary matrix that is scaled by columns.
struct column_factor {
  const float* scales;
  template <class A, class I>
  QUIPU_HD A at(std::int64_t, I column) const {
    return static_cast<A>(scales[column]);
  }
};

/// Factor of a weighted matrix; `scales` may be null.
struct weighted_column_factor {
  const float* weights;
  const float* scales;
  template <class A, class I>
  QUIPU_HD A at(std::int64_t edge, I column) const {
    const A w = static_cast<A>(weights[edge]);
    return scales == nullptr ? w : w * static_cast<A>(scales[column]);
  }
};

/// The same where weights lie in the order of the other direction.
template <node_index O>
struct mapped_column_factor {
  const float* weights;
  const O* edge_map;
  const float* scales;
  template <class A, class I>
  QUIPU_HD A at(std::int64_t edge, I column) const {
    const A w = static_cast<A>(weights[edge_map[edge]]);
    return scales == nullptr ? w : w * static_cast<A>(scales[column]);
  }
};

/// Y = alpha * scale * sum + beta * Y, as in BLAS: beta = 0 does not read Y, alpha = 0 does not let
/// a NaN of X through.
template <class A>
struct affine_ending {
  const float* row_scales;  // null: ones
  A alpha;
  A beta;

  template <class Tile, class I, class T>
  QUIPU_HD void apply(const lane_position<Tile>& at, const row_edges<I>& row, const T* old,
                      A (&sum)[Tile::elements]) const {
    if (alpha == A{0} || row.degree == 0) {
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) sum[i] = A{0};
    } else if (row_scales != nullptr) {
      const A f = alpha * static_cast<A>(row_scales[row.row]);
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) sum[i] *= f;
    } else if (alpha != A{1}) {
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) sum[i] *= alpha;
    }
    if (beta == A{0}) return;
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      if (!at.active(v)) continue;
      const auto y = load_written_vector<T, Tile::width>(old + at.feature(v));
      QUIPU_UNROLL
      for (int e = 0; e < Tile::width; ++e) sum[v * Tile::width + e] += beta * widen(y.data[e]);
    }
  }
};

template <class T, class Factor>
using product_program = sum_program<T, Factor, affine_ending<accumulator<T>>>;

/// Those given for a call, else the graph's own; null: ones.
template <class I, class O>
const float* weights_of(const graph_view<I, O>& g, const vector_view<const float>& given) {
  return given.data_handle() != nullptr ? given.data_handle() : g.forward.csr.weights;
}

/// One product with a direction of a graph: what forward and backward both come down to.
template <element T, node_index I, node_index O>
struct product {
  direction_view<I, O> direction;
  const float* weights = nullptr;  // null: ones
  scales_view scales;              // row: of the direction's rows
  matrix_view<const T> input;
  matrix_view<T> output;
  accumulator<T> alpha = 1;
  accumulator<T> beta = 0;
};

template <class T, class I, class O>
product<T, I, O> forward_product(const spmm_args<T, I, O>& a) {
  return {a.graph.forward, weights_of(a.graph, a.weights), a.scales, a.input, a.output, a.alpha,
          a.beta};
}

/// The same coefficients seen from the senders: the two scalings change places.
template <class T, class I, class O>
product<T, I, O> backward_product(const graph_view<I, O>& g, const scales_view& scales,
                                  const float* reverse_weights, const matrix_view<const T>& from,
                                  const matrix_view<T>& to, accumulator<T> alpha,
                                  accumulator<T> beta) {
  return {g.reverse, reverse_weights, {scales.column, scales.row}, from, to, alpha, beta};
}

/// A direction's columns with the codes of their scales.
template <node_index I>
struct coded_columns {
  const I* indices = nullptr;  // [edges]; null: none were made
  const float* table = nullptr;
  column_code<I> columns;
  bool complete = false;  // the table holds every scale
};

/// The same product by coded columns.
template <class T, class I, class O, class Use>
auto use_coded_program(const product<T, I, O>& p, const coded_columns<I>& coded, Use&& use) {
  auto direction = p.direction;
  direction.csr.indices = coded.indices;
  const coded_rows<T, I> rows{dense_rows<T>(p.input), coded.columns};
  const auto with = [&](const auto& factor) {
    return use(
        product_program<T, std::remove_cvref_t<decltype(factor)>>{
            p.output.data_handle(), p.output.stride(0), factor, {p.scales.row, p.alpha, p.beta}},
        rows, direction);
  };
  if (coded.complete) {
    return with(coded_column_factor<I, true>{coded.columns, coded.table, p.scales.column});
  }
  return with(coded_column_factor<I, false>{coded.columns, coded.table, p.scales.column});
}

/// A sum without factors an edge.
template <class T, class I, class O, class Use>
auto use_plain_program(const product<T, I, O>& p, Use&& use) {
  return use(
      product_program<T, unit_factor>{
          p.output.data_handle(), p.output.stride(0), {}, {p.scales.row, p.alpha, p.beta}},
      dense_rows<T>(p.input), p.direction);
}

/// Weights, which lie in the order of the direction, times scales of columns if there are any.
template <class T, class I, class O, class Use>
auto use_weighted_program(const product<T, I, O>& p, Use&& use) {
  return use(product_program<T, weighted_column_factor>{p.output.data_handle(),
                                                        p.output.stride(0),
                                                        {p.weights, p.scales.column},
                                                        {p.scales.row, p.alpha, p.beta}},
             dense_rows<T>(p.input), p.direction);
}

/// Calls use(program, rows, direction) with the program that the product needs on the host.
template <class T, class I, class O, class Use>
auto select_program(const product<T, I, O>& p, Use&& use) {
  if (p.weights != nullptr) return use_weighted_program(p, use);
  if (p.scales.column == nullptr) return use_plain_program(p, use);
  return use(product_program<T, column_factor>{p.output.data_handle(),
                                               p.output.stride(0),
                                               {p.scales.column},
                                               {p.scales.row, p.alpha, p.beta}},
             dense_rows<T>(p.input), p.direction);
}

}  // namespace quipu::detail
