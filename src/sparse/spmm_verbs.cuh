// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "graph/launch.cuh"
#include "quipu/core/trace.hpp"
#include "quipu/sparse/detail/check_arguments.hpp"
#include "quipu/sparse/spmm.cuh"
#include "sparse/choose_backend.hpp"
#include "sparse/coded_columns.cuh"
#include "sparse/plan_state.hpp"

namespace quipu {

namespace detail {

/// cuSPARSE's coefficients: row scale * weight * column scale, in the element type. A warp a row.
template <class T, class I, class O>
__global__ void fill_values(const csr_view<I, O> csr, const float* weights,
                            const scales_view scales, T* values) {
  const auto row = thread_index() / 32;
  if (row >= csr.rows) return;
  const float f = scales.row == nullptr ? 1.0f : scales.row[row];
  const std::int64_t end = csr.offsets[row + 1];
  for (std::int64_t k = csr.offsets[row] + static_cast<O>(threadIdx.x % 32); k < end; k += 32) {
    const float w = weights == nullptr ? f : f * weights[k];
    values[k] = narrow<T>(scales.column == nullptr ? w : w * scales.column[csr.indices[k]]);
  }
}

template <class O>
__global__ void permute_weights(const float* weights, const O* edge_map, std::int64_t edges,
                                float* permuted) {
  const auto k = thread_index();
  if (k < edges) permuted[k] = weights[edge_map[k]];
}

template <class O>
__global__ void narrow_offsets(const O* offsets, std::int64_t count, std::int32_t* narrowed) {
  const auto k = thread_index();
  if (k < count) narrowed[k] = static_cast<std::int32_t>(offsets[k]);
}

template <class T, class I, class O, class Args>
plan_key key_of(const context& ctx, const Args& a, std::int64_t features) {
  const auto& csr = a.graph.forward.csr;
  return {a.graph.identity,
          csr.offsets,
          csr.indices,
          a.graph.forward.schedule.slices,
          a.graph.reverse.csr.offsets,
          a.graph.reverse.schedule.slices,
          a.graph.edge_map,
          csr.rows,
          csr.columns,
          csr.edges,
          weights_of(a.graph, a.weights),
          a.scales,
          features,
          element_kind_of<T>,
          8 * sizeof(I),
          8 * sizeof(O),
          ctx.device};
}

template <class T>
dense_operand operand_of(const matrix_view<T>& m) {
  return {m.data_handle(), m.extent(0) > 1 ? m.stride(0) : m.extent(1)};
}

/// cuSPARSE (CUDA 13.0) picks wide accesses by the width alone and faults on rows that start off
/// their border.
template <class T>
bool cusparse_reads(const matrix_view<T>& m) {
  const auto at = operand_of(m);
  const auto row_bytes = at.row_stride * static_cast<std::int64_t>(sizeof(T));
  return reinterpret_cast<std::uintptr_t>(at.data) % 16 == 0 &&
         (at.row_stride == m.extent(1) || row_bytes % 16 == 0);
}

/// The coefficients of one direction, for cuSPARSE.
template <class T, class I, class O>
void write_values(const context& ctx, const product<T, I, O>& p, direction_plan& plan) {
  enqueue(ctx, fill_values<T, I, O>, 32 * p.direction.csr.rows, p.direction.csr, p.weights,
          p.scales, reinterpret_cast<T*>(plan.values.data()));
}

/// cuSPARSE wants ids and offsets of one size.
template <class I, class O>
const void* matching_offsets(const context& ctx, const csr_view<I, O>& csr, direction_plan& plan) {
  if constexpr (sizeof(I) == sizeof(O)) {
    return csr.offsets;
  } else {
    plan.offsets = require(make_device_buffer<std::int32_t>(ctx, csr.rows + 1));
    enqueue(ctx, narrow_offsets<O>, csr.rows + 1, csr.offsets, csr.rows + 1, plan.offsets.data());
    return plan.offsets.data();
  }
}

template <class T, class I, class O>
void make_cusparse(const context& ctx, const product<T, I, O>& p, direction_plan& plan) {
  const auto& csr = p.direction.csr;
  plan.values =
      require(make_device_buffer<std::byte>(ctx, csr.edges * static_cast<std::int64_t>(sizeof(T))));
  write_values(ctx, p, plan);
  const sparse_operand matrix{
      csr.rows,    csr.columns,        csr.edges,     matching_offsets(ctx, csr, plan),
      csr.indices, plan.values.data(), 8 * sizeof(I), element_kind_of<T>};
  plan.product =
      require(cusparse_product::make(ctx, matrix, p.output.extent(1), plan.choice.algorithm,
                                     operand_of(p.input), operand_of(p.output)));
}

template <class T, class I, class O>
void make_direction(const context& ctx, const product<T, I, O>& p, const csr_view<I, O>& opposite,
                    const spmm_options& options, const char* name, direction_plan& plan,
                    spmm_plan_state& state, std::size_t& scratch_bytes) {
  const auto& d = p.direction;
  const product_shape shape{d.csr.rows,         d.csr.columns, d.csr.edges,
                            p.output.extent(1), sizeof(T),     ctx.l2_bytes};
  const backend_question question{
      shape, sizeof(O) == sizeof(I),
      p.weights != nullptr || p.scales.row != nullptr || p.scales.column != nullptr};
  plan.choice = require(choose_backend(ctx, question, options));
  log_choice(ctx, name, plan.choice);
  if (plan.choice.backend == spmm_backend::cusparse) {
    make_cusparse(ctx, p, plan);
    if (plan.choice.algorithm != cusparse_algorithm::csr3) state.repeat = determinism::any;
  }
  const bool by_code = p.weights == nullptr && p.scales.column != nullptr && d.csr.edges > 0;
  const auto coded =
      by_code ? code_columns(ctx, d.csr, p.scales.column, opposite, plan) : coded_columns<I>{};
  scratch_bytes = std::max(scratch_bytes, require(engine_scratch_bytes(ctx, p, coded)));
}

template <class T, class I, class O>
status run_direction(const context& ctx, const product<T, I, O>& p, direction_plan& plan,
                     spmm_plan_state& state) {
  // cuSPARSE would let a NaN of X through alpha = 0.
  const bool readable = cusparse_reads(p.input) && cusparse_reads(p.output);
  if (plan.product && readable && p.alpha != 0) {
    return plan.product->run(ctx, operand_of(p.input), operand_of(p.output), p.alpha, p.beta);
  }
  return engine_product(ctx, p, coded_of<I>(plan), {state.scratch.data(), state.scratch.bytes()});
}

/// Everything a call must pass before it enqueues.
template <class T, class I, class O, class Args>
status enter(const context& ctx, spmm_plan& plan, const Args& a, std::int64_t features) {
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_arguments(ctx, a); !s.ok()) return s;
  auto* state = plan.state();
  if (state == nullptr) return failure(status_code::invalid_argument, "plan: empty");
  if (auto s = compare(state->key, key_of<T, I, O>(ctx, a, features)); !s.ok()) return s;
  if (state->repeat == determinism::any && ctx.repeat == determinism::run_to_run) {
    return failure(status_code::invalid_argument, "plan: made under determinism::any");
  }
  return state->use.enter(ctx);
}

/// Marks the end of a call also where it failed: part of it may be under way.
inline status leave(const context& ctx, spmm_plan_state& state, const status& outcome) {
  const auto marked = state.use.leave(ctx);
  return outcome.ok() ? marked : outcome;
}

/// What plans read of a graph beyond what calls check: put together by hand, it may be incomplete.
template <class T, class I, class O>
status check_graph(const context& ctx, const spmm_args<T, I, O>& a, bool backward) {
  argument_check c(ctx);
  const char* what = "graph: incomplete, or not where the context works";
  const auto& g = a.graph;
  if (g.rows() > 0) c.pointer(g.forward.csr.offsets, g.rows() + 1, what);
  if (g.forward.csr.weights != nullptr) c.pointer(g.forward.csr.weights, g.edges(), what);
  if (!backward) return c.outcome();
  c.direction(g.reverse, what);
  if (g.columns() > 0) c.pointer(g.reverse.csr.offsets, g.columns() + 1, what);
  c.pointer(g.edge_map, g.edges(), what);
  return c.outcome();
}

}  // namespace detail

template <class T, class I, class O>
result<spmm_plan> make_spmm_plan(const context& ctx, const spmm_args<T, I, O>& a,
                                 spmm_options options) {
  using namespace detail;
  const trace_range range("make_spmm_plan");
  const device_guard guard(ctx.device);
  return as_result<result<spmm_plan>>([&]() -> result<spmm_plan> {
    require(check_stream(ctx));
    require(check_arguments(ctx, a));
    require(check_graph(ctx, a, a.graph.has_reverse()));
    auto state = std::make_unique<spmm_plan_state>();
    require(state->use.prepare());
    state->key = key_of<T, I, O>(ctx, a, a.output.extent(1));
    state->has_backward = options.backward == edge_option::apply && a.graph.has_reverse();
    std::size_t scratch_bytes = 0;
    const auto forward = forward_product(a);
    make_direction(ctx, forward, a.graph.reverse.csr, options, "spmm", state->forward, *state,
                   scratch_bytes);
    if (state->has_backward) {
      if (forward.weights != nullptr) {
        state->reverse_weights = require(make_device_buffer<float>(ctx, a.graph.edges()));
        enqueue(ctx, permute_weights<O>, a.graph.edges(), forward.weights, a.graph.edge_map,
                a.graph.edges(), state->reverse_weights.data());
      }
      // Shapes and strides of the gradients; what lies there is neither read nor written.
      const auto from = make_matrix_view<const T>(a.output.data_handle(), a.graph.rows(),
                                                  a.output.extent(1), a.output.stride(0));
      const auto to = make_matrix_view(const_cast<T*>(a.input.data_handle()), a.graph.columns(),
                                       a.output.extent(1), a.input.stride(0));
      make_direction(
          ctx,
          backward_product<T>(a.graph, a.scales, state->reverse_weights.data(), from, to, 1, 0),
          a.graph.forward.csr, options, "spmm_backward", state->backward, *state, scratch_bytes);
    }
    state->scratch =
        require(make_device_buffer<std::byte>(ctx, static_cast<std::int64_t>(scratch_bytes)));
    require(synchronize(ctx));
    return spmm_plan(std::move(state));
  });
}

template <class T, class I, class O>
status update_weights(const context& ctx, spmm_plan& plan, const spmm_args<T, I, O>& a) {
  using namespace detail;
  const trace_range range("update_weights");
  const device_guard guard(ctx.device);
  return as_result<status>([&]() -> status {
    require(check_stream(ctx));
    if (stream_use::capturing(ctx)) {
      return failure(status_code::invalid_argument, "stream: is being captured");
    }
    require(enter<T, I, O>(ctx, plan, a, a.output.extent(1)));
    auto& state = *plan.state();
    const auto forward = forward_product(a);
    if (forward.weights == nullptr) return success();
    if (state.forward.product) {
      write_values(ctx, forward, state.forward);
      require(state.forward.product->refresh(ctx));
    }
    if (state.has_backward) {
      enqueue(ctx, permute_weights<O>, a.graph.edges(), forward.weights, a.graph.edge_map,
              a.graph.edges(), state.reverse_weights.data());
    }
    if (state.backward.product) {
      write_values(
          ctx, backward_product<T>(a.graph, a.scales, state.reverse_weights.data(), {}, {}, 1, 0),
          state.backward);
      require(state.backward.product->refresh(ctx));
    }
    return state.use.leave(ctx);
  });
}

template <class T, class I, class O>
status spmm(const context& ctx, spmm_plan& plan, const spmm_args<T, I, O>& a) {
  using namespace detail;
  const trace_range range("spmm");
  const device_guard guard(ctx.device);
  if (auto s = enter<T, I, O>(ctx, plan, a, a.output.extent(1)); !s.ok()) return s;
  auto& state = *plan.state();
  return leave(ctx, state, run_direction(ctx, forward_product(a), state.forward, state));
}

template <class T, class I, class O>
status spmm_backward(const context& ctx, spmm_plan& plan, const spmm_backward_args<T, I, O>& a) {
  using namespace detail;
  const trace_range range("spmm_backward");
  const device_guard guard(ctx.device);
  if (auto s = enter<T, I, O>(ctx, plan, a, a.grad_input.extent(1)); !s.ok()) return s;
  auto& state = *plan.state();
  if (!state.has_backward) {
    return failure(status_code::invalid_argument, "plan: made without backward");
  }
  const auto p = backward_product<T>(a.graph, a.scales, state.reverse_weights.data(), a.grad_output,
                                     a.grad_input, a.alpha, a.beta);
  return leave(ctx, state, run_direction(ctx, p, state.backward, state));
}

}  // namespace quipu
