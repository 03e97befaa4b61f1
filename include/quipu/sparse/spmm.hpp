// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/graph/normalise.hpp"
#include "quipu/sparse/cost_model.hpp"

namespace quipu {

/// Y[i] = alpha * sum over the edges k of row i of c[k] X[column of k] + beta Y[i], with
/// c[k] = scales.row[i] * w[k] * scales.column[j].
///
/// Weights are those given here, else the graph's own, else ones. A row without edges gives
/// beta Y[i]. beta = 0 never reads Y; alpha = 0 leaves no trace of X. Every output element is
/// written. Sums in fp32 (fp64 for fp64).
///
/// Errors: invalid_argument names the field.
template <element T, node_index I, node_index O = I>
struct spmm_args {
  graph_view<I, O> graph;
  scales_view scales = {};
  vector_view<const float> weights = {};  // [edges], in the order of the graph; empty: the graph's
  matrix_view<const T> input;             // [columns, features]
  matrix_view<T> output;                  // [rows, features]
  accumulator<T> alpha = 1;
  accumulator<T> beta = 0;
};

/// Gradient of `spmm` with respect to the input, with the same coefficients, over the graph's
/// reverse: dX[j] = alpha * sum over the edges k that j sends to i of c[k] dY[i] + beta dX[j].
/// `sddmm` gives the gradient of the weights.
template <element T, node_index I, node_index O = I>
struct spmm_backward_args {
  graph_view<I, O> graph;
  scales_view scales = {};
  vector_view<const float> weights = {};
  matrix_view<const T> grad_output;  // [rows, features]
  matrix_view<T> grad_input;         // [columns, features]
  accumulator<T> alpha = 1;
  accumulator<T> beta = 0;
};

/// How a plan is made. What cuSPARSE cannot do, a plan with the cuSPARSE backend leaves to the
/// engine, call by call: views that start off a 16-byte border, or whose padded rows do, and
/// alpha = 0. Of 16-bit elements the coefficients are rounded to the element type there, and the
/// algorithm is always csr3: the others add parts of long rows in 16 bits. `algorithm` is for the
/// cuSPARSE backend: csr3 alone gives the same bits every run, so under determinism::run_to_run it
/// is the only one that may be asked for.
struct spmm_options {
  spmm_backend backend = spmm_backend::automatic;
  cusparse_algorithm algorithm = cusparse_algorithm::automatic;
  edge_option backward = edge_option::apply;  // prepare backward too, if the graph has its reverse
};

namespace detail {
struct spmm_plan_state;
}  // namespace detail

/// Everything that products with one graph, one set of factors and weights, one element type and
/// one width need again and again: which backend, its scratch memory, weights in the order of the
/// reverse; for cuSPARSE the handle, descriptors, coefficients and what preprocessing found, of the
/// graph and of its reverse.
///
/// Belongs to one context's device. One call at a time, calls on one stream after the other; a call
/// while another stream is still at work on the plan is refused, except in stream capture, where
/// this is the caller's care. The graph, factors and weights must outlive the plan; a plan that is
/// used with others is refused (weights, which have no identity, and factors put together by hand
/// are told apart by their address). Factors must not change: the plan keeps copies. Destroying it
/// waits for its last call that was not captured.
class spmm_plan {
 public:
  spmm_plan() noexcept;
  explicit spmm_plan(std::unique_ptr<detail::spmm_plan_state>) noexcept;
  spmm_plan(spmm_plan&&) noexcept;
  spmm_plan& operator=(spmm_plan&&) noexcept;
  ~spmm_plan();

  /// What was chosen, and the times that the choice was based on.
  const spmm_choice& forward() const noexcept;
  const spmm_choice& backward() const noexcept;
  /// Device memory held, in bytes.
  std::size_t bytes() const noexcept;

  detail::spmm_plan_state* state() const noexcept { return state_.get(); }

 private:
  std::unique_ptr<detail::spmm_plan_state> state_;
};

/// Allocates, preprocesses and waits for the stream. Of the arguments the matrices' values are not
/// read or written; `alpha` and `beta` do not matter. Errors: invalid_argument; unsupported where
/// cuSPARSE was asked for and cannot; out_of_memory; cuda_error; cusparse_error with its code.
template <class T, class I, class O>
result<spmm_plan> make_spmm_plan(const context&, const spmm_args<T, I, O>&, spmm_options = {});

/// Reads changed weights (same memory, same size) into what the plan keeps of them, for both
/// directions. Only enqueues; not while captured.
template <class T, class I, class O>
status update_weights(const context&, spmm_plan&, const spmm_args<T, I, O>&);

template <class T, class I, class O>
status spmm(const context&, spmm_plan&, const spmm_args<T, I, O>&);
template <class T, class I, class O>
status spmm(const host_context&, const spmm_args<T, I, O>&);

template <class T, class I, class O>
status spmm_backward(const context&, spmm_plan&, const spmm_backward_args<T, I, O>&);
template <class T, class I, class O>
status spmm_backward(const host_context&, const spmm_backward_args<T, I, O>&);

}  // namespace quipu
