// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/attention.cuh"
#include "quipu/attention/detail/attention_gradients.hpp"

namespace quipu {

namespace detail {

/// One side of a gradient: a traversal of one direction, by heads.
template <class T>
struct gradient_side {
  const context& ctx;
  std::int64_t heads, dim;
  bool aligned;
  arena& scratch;
  bool count_only;

  template <class Program, class Rows, class I, class O>
  status operator()(const Program& program, const Rows& rows, const direction_view<I, O>& d) const {
    return aligned ? run<16 / static_cast<int>(sizeof(T))>(program, rows, d)
                   : run<1>(program, rows, d);
  }

 private:
  template <int Width, class Program, class Rows, class I, class O>
  status run(const Program& program, const Rows& rows, const direction_view<I, O>& d) const {
    using tuning = gradient_tuning<Width>;
    const auto degree = d.csr.rows > 0 ? d.csr.edges / d.csr.rows : 0;
    if (dim > tuning::widest) {
      return failure(status_code::unsupported, "grad_output: heads this wide have no gradient", -1,
                     tuning::widest, dim);
    }
    return with_policy<tuning>(tuning::choose(dim, degree), [&]<engine_policy P>() {
      const auto partial = carve_partials<P, Program>(scratch, d.schedule, dim, heads);
      if (count_only) return check_launch<P>(d.schedule, partial);
      return traverse<P>(ctx, program, rows, d, dim, partial);
    });
  }
};

template <class T, class I, class O>
status send_back(const context& ctx, const transformer_backward_args<T, I, O>& a, arena& scratch,
                 bool count_only) {
  using A = accumulator<T>;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  const bool aligned = on_vector_border(a.query) && on_vector_border(a.key) &&
                       on_vector_border(a.value) && on_vector_border(a.output) &&
                       on_vector_border(a.grad_output) && on_vector_border(a.grad_query) &&
                       on_vector_border(a.grad_key) && on_vector_border(a.grad_value);
  auto* records = scratch.take<softmax_record<A>>(static_cast<std::size_t>(a.graph.rows() * heads));
  const gradient_side<T> side{ctx, heads, dim, aligned, scratch, count_only};
  const transformer_receivers<T> receivers{{{head_output<T>(a.grad_query, a.scale)}},
                                           head_matrix<T>(a.query),
                                           head_matrix<T>(a.grad_output),
                                           head_matrix<T>(a.output),
                                           a.logsumexp.data_handle(),
                                           a.logsumexp.stride(0),
                                           records,
                                           heads,
                                           a.scale,
                                           a.bias.data_handle(),
                                           a.bias.stride(0),
                                           a.grad_bias.data_handle(),
                                           a.grad_bias.stride(0)};
  auto s = side(receivers, key_value_rows<T>{head_rows<T>(a.key), head_rows<T>(a.value)},
                a.graph.forward);
  if (!s.ok()) return s;
  const transformer_senders<T, O> senders{
      {{head_output<T>(a.grad_key, a.scale), head_output<T>(a.grad_value)}},
      head_matrix<T>(a.key),
      head_matrix<T>(a.value),
      records,
      heads,
      a.scale,
      a.bias.data_handle(),
      a.bias.stride(0),
      a.graph.edge_map};
  return side(senders, receiver_rows<T>{head_rows<T>(a.query), head_rows<T>(a.grad_output)},
              a.graph.reverse);
}

}  // namespace detail

template <class T, class I, class O>
status transformer_backward(const context& ctx, const transformer_backward_args<T, I, O>& a,
                            workspace w) {
  using namespace detail;
  return run_verb(
      ctx, w, "transformer_backward", [&] { return check_arguments(ctx, a); },
      [&](arena& scratch, bool count_only) { return send_back(ctx, a, scratch, count_only); });
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const transformer_backward_args<T, I, O>& a) {
  return detail::count_bytes([&](arena& scratch, bool count_only) {
    return detail::send_back(ctx, a, scratch, count_only);
  });
}

}  // namespace quipu
