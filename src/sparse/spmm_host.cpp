// SPDX-License-Identifier: Apache-2.0
#include "core/host_types.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/engine/host_engine.hpp"
#include "quipu/sparse/detail/check_arguments.hpp"
#include "quipu/sparse/detail/product_program.hpp"

namespace quipu {

namespace {

constexpr int unroll = 2;  // as in reduce: more spills the 32-feature tile on 16 vector registers

auto run_on(const host_context& ctx, std::int64_t features) {
  return [&ctx, features](const auto& program, const auto& rows, const auto& direction) {
    return traverse<unroll>(ctx, program, rows, direction, features);
  };
}

}  // namespace

template <class T, class I, class O>
status spmm(const host_context& ctx, const spmm_args<T, I, O>& a) {
  const detail::trace_range range("spmm");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  return detail::select_program(detail::forward_product(a), run_on(ctx, a.output.extent(1)));
}

template <class T, class I, class O>
status spmm_backward(const host_context& ctx, const spmm_backward_args<T, I, O>& a) {
  const detail::trace_range range("spmm_backward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  const auto run = run_on(ctx, a.grad_input.extent(1));
  const float* weights = detail::weights_of(a.graph, a.weights);
  if (weights == nullptr) {
    return detail::select_program(
        detail::backward_product<T>(a.graph, a.scales, nullptr, a.grad_output, a.grad_input,
                                    a.alpha, a.beta),
        run);
  }
  using factor = detail::mapped_column_factor<O>;
  const detail::product_program<T, factor> program{a.grad_input.data_handle(),
                                                   a.grad_input.stride(0),
                                                   factor{weights, a.graph.edge_map, a.scales.row},
                                                   {a.scales.column, a.alpha, a.beta}};
  return run(program, dense_rows<T>(a.grad_output), a.graph.reverse);
}

#define QUIPU_INSTANTIATE(T, I, O)                                      \
  template status spmm(const host_context&, const spmm_args<T, I, O>&); \
  template status spmm_backward(const host_context&, const spmm_backward_args<T, I, O>&);
QUIPU_FOR_HOST_TYPES(QUIPU_INSTANTIATE)

}  // namespace quipu
