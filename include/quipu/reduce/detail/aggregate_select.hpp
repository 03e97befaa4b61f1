// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/row_source.hpp"
#include "quipu/reduce/detail/aggregate_backward_program.hpp"
#include "quipu/reduce/detail/aggregate_program.hpp"

namespace quipu::detail {

/// Each `select_program` calls use(program, rows, direction) with what the arguments ask for; host
/// and device run the same choice.

template <class T, class I, class O, class Use>
auto select_program(const aggregate_args<T, I, O>& a, Use&& use) {
  const dense_rows<T> rows(a.input);
  const auto& forward = a.graph.forward;
  T* out = a.output.data_handle();
  const auto stride = a.output.stride(0);
  const auto extremum_of = [&]<extremum E>() {
    const input_rows<T, I> input{rows.data, rows.row_stride, forward.csr.indices};
    return extremum_program<T, I, E>{out, stride, a.argument, input};
  };
  if (a.op == reduce::max)
    return use(extremum_of.template operator()<extremum::max>(), rows, forward);
  if (a.op == reduce::min)
    return use(extremum_of.template operator()<extremum::min>(), rows, forward);
  if (const float* w = forward.csr.weights; w != nullptr) {
    return use(reduce_sum_program<T, weight_factor>{out, stride, {w}, {a.op}}, rows, forward);
  }
  return use(reduce_sum_program<T, unit_factor>{out, stride, {}, {a.op}}, rows, forward);
}

/// sum and mean: the same sum over the reverse graph, with the forward coefficients.
template <class T, class I, class O, class Use>
auto select_sum_backward(const aggregate_backward_args<T, I, O>& a, Use&& use) {
  const dense_rows<T> rows(a.grad_output);
  const auto& g = a.graph;
  T* out = a.grad_input.data_handle();
  const auto stride = a.grad_input.stride(0);
  const bool mean = a.op == reduce::mean;
  if (mean || g.forward.csr.weights != nullptr) {
    const mapped_factor<O> factor{g.forward.csr.weights, g.edge_map,
                                  mean ? g.forward.csr.offsets : nullptr};
    return use(reduce_sum_program<T, mapped_factor<O>>{out, stride, factor, {reduce::sum}}, rows,
               g.reverse);
  }
  return use(reduce_sum_program<T, unit_factor>{out, stride, {}, {reduce::sum}}, rows, g.reverse);
}

template <class T, class I, class O>
winner_backward_program<T, I, O> make_winner_backward(const aggregate_backward_args<T, I, O>& a) {
  return {a.grad_input.data_handle(),
          a.grad_input.stride(0),
          {a.grad_output.data_handle(), a.grad_output.stride(0)},
          a.argument,
          reverse_edges<I, O>(a.graph)};
}

template <positions P, class T, class I, class O>
several_program<T, I, P> make_several(const aggregate_several_args<T, I, O>& a) {
  const auto to = [](const matrix_view<T>& m) {
    return typename several_program<T, I, P>::target{m.data_handle(), m.stride(0)};
  };
  const auto& csr = a.graph.forward.csr;
  return {to(a.sum),
          to(a.mean),
          to(a.min),
          to(a.max),
          to(a.squares),
          a.min_argument,
          a.max_argument,
          csr.weights,
          input_rows<T, I>{a.input.data_handle(), a.input.stride(0), csr.indices}};
}

template <class T, class I, class O, class Use>
auto select_program(const aggregate_several_args<T, I, O>& a, Use&& use) {
  const dense_rows<T> rows(a.input);
  if constexpr (sizeof(T) > 2) {
    if (a.min_argument.empty() && a.max_argument.empty()) {
      return use(make_several<positions::dropped>(a), rows, a.graph.forward);
    }
  }
  return use(make_several<positions::kept>(a), rows, a.graph.forward);
}

template <class T, class I, class O, class Use>
auto select_program(const aggregate_several_backward_args<T, I, O>& a, Use&& use) {
  const auto from = [](const matrix_view<const T>& m) {
    return gradient_rows<T>{m.data_handle(), m.stride(0)};
  };
  const several_backward_program<T, I, O> p{a.grad_input.data_handle(),
                                            a.grad_input.stride(0),
                                            from(a.grad_sum),
                                            from(a.grad_mean),
                                            from(a.grad_min),
                                            from(a.grad_max),
                                            from(a.grad_squares),
                                            from(a.input),
                                            a.min_argument,
                                            a.max_argument,
                                            a.graph.forward.csr.weights,
                                            reverse_edges<I, O>(a.graph)};
  return use(p, no_rows{}, a.graph.reverse);
}

}  // namespace quipu::detail
