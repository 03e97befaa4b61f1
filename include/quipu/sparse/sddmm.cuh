// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "quipu/engine/device_verb.cuh"
#include "quipu/engine/row_source.hpp"
#include "quipu/sparse/detail/check_arguments.hpp"
#include "quipu/sparse/detail/sddmm_program.hpp"
#include "quipu/sparse/detail/sddmm_tuning.hpp"

namespace quipu {

namespace detail {

template <int Width, class T, class I, class O>
status run_sddmm(const context& ctx, const sddmm_args<T, I, O>& a) {
  const auto features = a.left.extent(1);
  const sddmm_program<T, I> program{a.left.data_handle(), a.left.stride(0), a.right.data_handle(),
                                    a.right.stride(0),    features,         a.scales.column,
                                    a.scales.row,         a.alpha,          a.output.data_handle()};
  using tuning = sddmm_tuning<Width>;
  const auto degree = a.graph.rows() > 0 ? a.graph.edges() / a.graph.rows() : 0;
  return with_policy<tuning>(tuning::choose(features, degree), [&]<engine_policy P>() {
    // One tile is the engine's, however wide the rows are.
    const auto first = std::min<std::int64_t>(features, policy_tile<P>::features);
    const auto nothing = no_partials<P, sddmm_program<T, I>>();
    return traverse<P>(ctx, program, dense_rows<T>(a.right), a.graph.forward, first, nothing);
  });
}

}  // namespace detail

template <class T, class I, class O>
status sddmm(const context& ctx, const sddmm_args<T, I, O>& a) {
  using namespace detail;
  const trace_range range("sddmm");
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_arguments(ctx, a); !s.ok()) return s;
  const auto features = a.left.extent(1);
  if (features == 0 || a.alpha == accumulator<T>{0}) {
    const auto bytes = static_cast<std::size_t>(a.graph.edges()) * sizeof(accumulator<T>);
    return from_cuda(cudaMemsetAsync(a.output.data_handle(), 0, bytes, ctx.stream), "output");
  }
  constexpr int width = 16 / static_cast<int>(sizeof(T));
  const bool aligned =
      on_vector_border(a.left) && on_vector_border(a.right) && features % width == 0;
  return aligned ? run_sddmm<width>(ctx, a) : run_sddmm<1>(ctx, a);
}

}  // namespace quipu
