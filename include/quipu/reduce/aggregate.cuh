// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "quipu/core/trace.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/reduce/detail/aggregate_scatter.cuh"
#include "quipu/reduce/detail/aggregate_select.hpp"
#include "quipu/reduce/detail/aggregate_tuning.hpp"
#include "quipu/reduce/detail/check_arguments.hpp"

namespace quipu {

namespace detail {

template <class Program>
inline constexpr state_weight weight_of = state_weight::heavy;
template <class T>
inline constexpr state_weight weight_of<sum_program<T, unit_factor>> = state_weight::light;
template <class T>
inline constexpr state_weight weight_of<sum_program<T, weight_factor>> = state_weight::light;
template <class T, class I, extremum E>
inline constexpr state_weight weight_of<extremum_program<T, I, E>> = state_weight::light;
template <class P>
inline constexpr state_weight weight_of<gated_program<P>> = state_weight::rare;

/// True if every row of the matrix starts on a 16-byte border and ends with a whole vector.
template <class T>
bool on_vector_border(const matrix_view<T>& m) {
  return m.data_handle() == nullptr ||
         (reinterpret_cast<std::uintptr_t>(m.data_handle()) % 16 == 0 &&
          (m.extent(0) <= 1 || m.stride(0) * static_cast<std::int64_t>(sizeof(T)) % 16 == 0) &&
          m.extent(1) * static_cast<std::int64_t>(sizeof(T)) % 16 == 0);
}

/// Calls use.operator()<policy>() with the policy for this width.
template <class Tuning, int Index = 0, class Use>
auto with_policy(int index, Use&& use) {
  if constexpr (Index + 1 < static_cast<int>(Tuning::table.size())) {
    if (index != Index) return with_policy<Tuning, Index + 1>(index, use);
  }
  return use.template operator()<Tuning::table[Index]>();
}

/// Runs one program over one direction; with a counting arena it only lays scratch out.
template <class T>
struct device_run {
  const context& ctx;
  std::int64_t features;
  bool aligned;
  arena& scratch;
  bool count_only;

  template <class Program, class Rows, class I, class O>
  status operator()(Program program, const Rows& rows, const direction_view<I, O>& d) const {
    constexpr int width = 16 / static_cast<int>(sizeof(T));
    if constexpr (requires { program.hint; }) {
      const auto bytes =
          (d.csr.rows + d.csr.columns) * features * static_cast<std::int64_t>(sizeof(T));
      program.hint = bytes <= ctx.l2_bytes ? store_hint::keep : store_hint::stream;
    }
    return aligned && features % width == 0 ? run<width>(program, rows, d)
                                            : run<1>(program, rows, d);
  }

 private:
  template <int Width, class Program, class Rows, class I, class O>
  status run(const Program& program, const Rows& rows, const direction_view<I, O>& d) const {
    using tuning = aggregate_tuning<Width, weight_of<Program>>;
    const auto degree = d.csr.rows > 0 ? d.csr.edges / d.csr.rows : 0;
    return with_policy<tuning>(tuning::choose(features, degree), [&]<engine_policy P>() {
      const auto partial = carve_partials<P, Program>(scratch, d.schedule, features);
      if (count_only) return success();
      return traverse<P>(ctx, program, rows, d, features, partial);
    });
  }
};

/// Shared frame of the verbs. A body lays scratch out and, unless it only counts, enqueues; it runs
/// once to count, so that a workspace too small is told before anything is written.
template <class Body>
std::size_t count_bytes(Body body) {
  arena counting;
  (void)body(counting, true);
  return counting.bytes();
}
template <class Args, class Body>
status run_verb(const context& ctx, const Args& args, workspace w, const char* name, Body body) {
  const trace_range range(name);
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_arguments(ctx, args); !s.ok()) return s;
  arena scratch(w);
  (void)body(scratch, true);
  if (auto s = scratch.fits(); !s.ok()) return s;
  if (auto s = check_device_pointer(w.data, static_cast<std::int64_t>(scratch.bytes()),
                                    "workspace: not memory of the context's device", ctx.device);
      !s.ok()) {
    return s;
  }
  scratch = arena(w);
  return body(scratch, false);
}

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

template <class I, class O>
__global__ void expand_argument_kernel(argument_view a, const csr_view<I, O> csr,
                                       matrix_view<std::int64_t> edges) {
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= a.rows * a.features) return;
  const auto row = k / a.features;
  edges(row, k % a.features) = edge_of(a, csr, row, k % a.features);
}

}  // namespace detail

template <class T, class I, class O>
status aggregate(const context& ctx, const aggregate_args<T, I, O>& a, workspace w) {
  return detail::run_verb(ctx, a, w, "aggregate", detail::body_of(ctx, a));
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const aggregate_args<T, I, O>& a) {
  return detail::count_bytes(detail::body_of(ctx, a));
}

template <class T, class I, class O>
status aggregate_backward(const context& ctx, const aggregate_backward_args<T, I, O>& a,
                          workspace w) {
  return detail::run_verb(ctx, a, w, "aggregate_backward", detail::body_of(ctx, a));
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const aggregate_backward_args<T, I, O>& a) {
  return detail::count_bytes(detail::body_of(ctx, a));
}

template <class T, class I, class O>
status aggregate_several(const context& ctx, const aggregate_several_args<T, I, O>& a,
                         workspace w) {
  return detail::run_verb(ctx, a, w, "aggregate_several", detail::body_of(ctx, a));
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const aggregate_several_args<T, I, O>& a) {
  return detail::count_bytes(detail::body_of(ctx, a));
}

template <class T, class I, class O>
status aggregate_several_backward(const context& ctx,
                                  const aggregate_several_backward_args<T, I, O>& a, workspace w) {
  return detail::run_verb(ctx, a, w, "aggregate_several_backward", detail::body_of(ctx, a));
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
                        dim3(static_cast<unsigned>((count + 255) / 256)), 256, false, a,
                        g.forward.csr, edges);
}

}  // namespace quipu
