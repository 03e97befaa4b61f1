// SPDX-License-Identifier: Apache-2.0
#include "core/host_types.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/engine/host_engine.hpp"
#include "quipu/reduce/detail/aggregate_select.hpp"
#include "quipu/reduce/detail/check_arguments.hpp"

namespace quipu {

namespace {

constexpr int unroll = 2;  // edges at once: more spills the 32-feature tile on 16 vector registers

auto run_on(const host_context& ctx, std::int64_t features) {
  return [&ctx, features](const auto& program, const auto& rows, const auto& direction) {
    return traverse<unroll>(ctx, program, rows, direction, features);
  };
}

}  // namespace

template <class T, class I, class O>
status aggregate(const host_context& ctx, const aggregate_args<T, I, O>& a) {
  const detail::trace_range range("aggregate");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  return detail::select_program(a, run_on(ctx, a.output.extent(1)));
}

template <class T, class I, class O>
status aggregate_backward(const host_context& ctx, const aggregate_backward_args<T, I, O>& a) {
  const detail::trace_range range("aggregate_backward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  const auto run = run_on(ctx, a.grad_input.extent(1));
  if (a.op == reduce::sum || a.op == reduce::mean) return detail::select_sum_backward(a, run);
  return run(detail::make_winner_backward(a), no_rows{}, a.graph.reverse);
}

template <class T, class I, class O>
status aggregate_several(const host_context& ctx, const aggregate_several_args<T, I, O>& a) {
  const detail::trace_range range("aggregate_several");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  return detail::select_program(a, run_on(ctx, a.input.extent(1)));
}

template <class T, class I, class O>
status aggregate_several_backward(const host_context& ctx,
                                  const aggregate_several_backward_args<T, I, O>& a) {
  const detail::trace_range range("aggregate_several_backward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  return detail::select_program(a, run_on(ctx, a.grad_input.extent(1)));
}

template <class I, class O>
status expand_argument(const host_context& ctx, const graph_view<I, O>& g, const argument_view& a,
                       matrix_view<std::int64_t> edges) {
  const detail::trace_range range("expand_argument");
  if (auto s = detail::check_expand(ctx, g, a, edges); !s.ok()) return s;
  constexpr std::int64_t grain = 1024;
  return detail::parallel_pieces(ctx, a.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto r = begin; r < end; ++r) {
      for (std::int64_t f = 0; f < a.features; ++f) {
        edges(r, f) = detail::edge_of(a, g, r, f);
      }
    }
  });
}

#define QUIPU_INSTANTIATE_GRAPH(I, O)                                           \
  template status expand_argument(const host_context&, const graph_view<I, O>&, \
                                  const argument_view&, matrix_view<std::int64_t>);
#define QUIPU_INSTANTIATE(T, I, O)                                                                \
  template status aggregate(const host_context&, const aggregate_args<T, I, O>&);                 \
  template status aggregate_backward(const host_context&,                                         \
                                     const aggregate_backward_args<T, I, O>&);                    \
  template status aggregate_several(const host_context&, const aggregate_several_args<T, I, O>&); \
  template status aggregate_several_backward(const host_context&,                                 \
                                             const aggregate_several_backward_args<T, I, O>&);
QUIPU_FOR_HOST_TYPES(QUIPU_INSTANTIATE)
QUIPU_FOR_INDICES(QUIPU_INSTANTIATE_GRAPH)

}  // namespace quipu
