// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/device_verb.cuh"
#include "quipu/reduce/detail/aggregate_scatter.cuh"
#include "quipu/reduce/detail/aggregate_select.hpp"
#include "quipu/reduce/detail/check_arguments.hpp"

namespace quipu {

namespace detail {

template <class T>
inline constexpr state_weight weight_of<reduce_sum_program<T, unit_factor>> = state_weight::light;
template <class T>
inline constexpr state_weight weight_of<reduce_sum_program<T, weight_factor>> = state_weight::light;
template <class T, class I, extremum E>
inline constexpr state_weight weight_of<extremum_program<T, I, E>> = state_weight::light;
template <class P>
inline constexpr state_weight weight_of<gated_program<P>> = state_weight::rare;

template <class T, class I, class O>
auto body_of(const context& ctx, const aggregate_args<T, I, O>& a) {
  return [&ctx, &a](arena& scratch, bool count_only) {
    const bool aligned = on_vector_border(a.input) && on_vector_border(a.output);
    return select_program(a, device_run<T>{ctx, a.output.extent(1), aligned, scratch, count_only});
  };
}

template <class T, class I, class O>
auto body_of(const context& ctx, const aggregate_several_args<T, I, O>& a) {
  return [&ctx, &a](arena& scratch, bool count_only) {
    const bool aligned = on_vector_border(a.input) && on_vector_border(a.sum) &&
                         on_vector_border(a.mean) && on_vector_border(a.min) &&
                         on_vector_border(a.max) && on_vector_border(a.squares);
    return select_program(a, device_run<T>{ctx, a.input.extent(1), aligned, scratch, count_only});
  };
}

template <class T, class I, class O>
auto body_of(const context& ctx, const aggregate_several_backward_args<T, I, O>& a) {
  return [&ctx, &a](arena& scratch, bool count_only) {
    const bool aligned = on_vector_border(a.grad_input) && on_vector_border(a.grad_sum) &&
                         on_vector_border(a.grad_mean) && on_vector_border(a.grad_min) &&
                         on_vector_border(a.grad_max) && on_vector_border(a.grad_squares) &&
                         on_vector_border(a.input);
    return select_program(a,
                          device_run<T>{ctx, a.grad_input.extent(1), aligned, scratch, count_only});
  };
}

/// Under run_to_run both ways are laid out and launched; the device lets one of them pass.
template <class T, class I, class O, class Gather>
status scatter(const context& ctx, const aggregate_backward_args<T, I, O>& a, const Gather& gather,
               const device_run<T>& run, arena& scratch, bool count_only) {
  if (ctx.repeat == determinism::any) return scatter_atomically(ctx, a, scratch, count_only);
  const auto fixed = carve_fixed_point(scratch, a.graph.columns(), a.grad_input.extent(1));
  if (!count_only) {
    if (auto s = scatter_in_fixed_point(ctx, a, fixed); !s.ok()) return s;
  }
  return run(gated_program<Gather>{gather, fixed.fits}, no_rows{}, a.graph.reverse);
}

template <class T, class I, class O>
auto body_of(const context& ctx, const aggregate_backward_args<T, I, O>& a) {
  return [&ctx, &a](arena& scratch, bool count_only) -> status {
    const auto features = a.grad_input.extent(1);
    const bool aligned = on_vector_border(a.grad_input) && on_vector_border(a.grad_output);
    const device_run<T> run{ctx, features, aligned, scratch, count_only};
    if (a.op == reduce::sum || a.op == reduce::mean) return select_sum_backward(a, run);
    const auto gather = make_winner_backward(a);
    // The scatter adds in fp32, or in fixed point made for fp32: nothing for fp64.
    if constexpr (!std::is_same_v<T, double>) {
      if (prefers_scatter(ctx, a)) return scatter(ctx, a, gather, run, scratch, count_only);
    }
    return run(gather, no_rows{}, a.graph.reverse);
  };
}

template <class Args>
status run_checked(const context& ctx, const Args& a, workspace w, const char* name) {
  return run_verb(
      ctx, w, name, [&] { return check_arguments(ctx, a); }, body_of(ctx, a));
}

template <class I, class O>
__global__ void expand_argument_kernel(argument_view a, const graph_view<I, O> g,
                                       matrix_view<std::int64_t> edges) {
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= a.rows * a.features) return;
  const auto row = k / a.features;
  edges(row, k % a.features) = edge_of(a, g, row, k % a.features);
}

}  // namespace detail

template <class T, class I, class O>
status aggregate(const context& ctx, const aggregate_args<T, I, O>& a, workspace w) {
  return detail::run_checked(ctx, a, w, "aggregate");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const aggregate_args<T, I, O>& a) {
  return detail::count_bytes(detail::body_of(ctx, a));
}

template <class T, class I, class O>
status aggregate_backward(const context& ctx, const aggregate_backward_args<T, I, O>& a,
                          workspace w) {
  return detail::run_checked(ctx, a, w, "aggregate_backward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const aggregate_backward_args<T, I, O>& a) {
  return detail::count_bytes(detail::body_of(ctx, a));
}

template <class T, class I, class O>
status aggregate_several(const context& ctx, const aggregate_several_args<T, I, O>& a,
                         workspace w) {
  return detail::run_checked(ctx, a, w, "aggregate_several");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const aggregate_several_args<T, I, O>& a) {
  return detail::count_bytes(detail::body_of(ctx, a));
}

template <class T, class I, class O>
status aggregate_several_backward(const context& ctx,
                                  const aggregate_several_backward_args<T, I, O>& a, workspace w) {
  return detail::run_checked(ctx, a, w, "aggregate_several_backward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const aggregate_several_backward_args<T, I, O>& a) {
  return detail::count_bytes(detail::body_of(ctx, a));
}

template <class I, class O>
status expand_argument(const context& ctx, const graph_view<I, O>& g, const argument_view& a,
                       matrix_view<std::int64_t> edges) {
  const detail::trace_range range("expand_argument");
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = detail::check_expand(ctx, g, a, edges); !s.ok()) return s;
  const auto count = a.rows * a.features;
  if (count == 0) return success();
  return detail::launch(ctx, detail::expand_argument_kernel<I, O>,
                        dim3(static_cast<unsigned>((count + 255) / 256)), 256,
                        detail::start::in_order, a, g, edges);
}

}  // namespace quipu
