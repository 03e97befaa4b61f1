// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/argument_check.hpp"
#include "quipu/sparse/sddmm.hpp"
#include "quipu/sparse/spmm.hpp"

namespace quipu::detail {

/// Weights and factors; what is written may share no element with them.
template <class I, class O>
void check_coefficients(argument_check& c, const graph_view<I, O>& g, const scales_view& scales,
                        const vector_view<const float>& weights, const byte_range& written) {
  const char* what_weights = "weights: one for each edge wanted";
  if (weights.data_handle() != nullptr || weights.extent(0) != 0) {
    c.that(weights.extent(0) == g.edges(), what_weights, g.edges(), weights.extent(0));
    c.pointer(weights.data_handle(), g.edges(), "weights: null, or not where the context works");
  }
  if (scales.row != nullptr) {
    c.pointer(scales.row, g.rows(), "scales.row: not where the context works");
  }
  if (scales.column != nullptr) {
    c.pointer(scales.column, g.columns(), "scales.column: not where the context works");
  }
  c.that(!written.meets(range_of(scales.row, g.rows())) &&
             !written.meets(range_of(scales.column, g.columns())),
         "output: overlaps the scales");
  c.that(!written.meets(range_of(weights.data_handle(), weights.extent(0))) &&
             !written.meets(range_of(g.forward.csr.weights, g.edges())),
         "output: overlaps the weights");
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const spmm_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  c.forward(g, a.input, a.output);
  check_coefficients(c, g, a.scales, a.weights, range_of(a.output));
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const spmm_backward_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  c.backward(g, a.grad_output, a.grad_input);
  check_coefficients(c, g, a.scales, a.weights, range_of(a.grad_input));
  const bool weighted = a.weights.data_handle() != nullptr || g.forward.csr.weights != nullptr;
  c.that(!weighted || g.edge_map != nullptr || g.edges() == 0,
         "graph: weights of the reverse need its edge map");
  return c.outcome();
}

template <class Context, class T, class I, class O>
status check_arguments(const Context& ctx, const sddmm_args<T, I, O>& a) {
  argument_check c(ctx);
  const auto& g = a.graph;
  const auto features = a.left.extent(1);
  c.direction(g.forward, "graph: incomplete, or not where the context works");
  const auto written = range_of(a.output.data_handle(), a.output.extent(0));
  check_coefficients(c, g, a.scales, {}, written);
  c.matrix(a.left, g.rows(), features, "left: null, or not where the context works",
           "left: rows differ from the graph's rows", "left: features", "left: row stride");
  c.matrix(a.right, g.columns(), features, "right: null, or not where the context works",
           "right: rows differ from the graph's columns", "right: features differ from left's",
           "right: row stride");
  c.that(a.output.extent(0) == g.edges(), "output: one element for each edge wanted", g.edges(),
         a.output.extent(0));
  c.pointer(a.output.data_handle(), g.edges(), "output: null, or not where the context works");
  c.that(!written.meets(range_of(a.left)) && !written.meets(range_of(a.right)),
         "output: overlaps left or right");
  return c.outcome();
}

}  // namespace quipu::detail
