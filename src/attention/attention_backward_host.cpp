// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "attention/host_heads.hpp"
#include "core/host_types.hpp"
#include "engine/host_dot.hpp"
#include "quipu/attention/detail/check_arguments.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/engine/host_engine.hpp"
#include "quipu/math/convert.hpp"

namespace quipu {

using detail::dot;
using detail::head_of;

namespace {

template <class T, class A>
void add_scaled(std::vector<A>& sum, A factor, const T* row) {
  if (factor == A{0}) return;  // weight 0 passes no gradient, whatever the row holds
  for (std::size_t f = 0; f < sum.size(); ++f) sum[f] += factor * widen(row[f]);
}

template <class T, class A>
void store(T* to, const std::vector<A>& sum, A factor) {
  for (std::size_t f = 0; f < sum.size(); ++f) to[f] = narrow<T>(factor * sum[f]);
}

/// alpha and the gradient of the logit of one edge.
template <class A>
struct edge_gradient {
  A alpha, logit;
};
template <class T, class I, class O, class A>
edge_gradient<A> at_edge(const transformer_backward_args<T, I, O>& a, std::int64_t receiver,
                         std::int64_t sender, std::int64_t edge, std::int64_t head, A lowered_by) {
  const auto dim = a.grad_output.extent(2);
  const A all = a.logsumexp.data_handle()[receiver * a.logsumexp.stride(0) + head];
  A logit = a.scale * dot(head_of(a.query, receiver, head), head_of(a.key, sender, head), dim);
  if (a.bias.data_handle() != nullptr) {
    logit += a.bias.data_handle()[edge * a.bias.stride(0) + head];
  }
  const A alpha = all == -std::numeric_limits<A>::infinity() ? A{0} : std::exp(logit - all);
  if (alpha == A{0}) return {0, 0};
  const A product =
      dot(head_of(a.grad_output, receiver, head), head_of(a.value, sender, head), dim);
  return {alpha, alpha * (product - lowered_by)};
}

}  // namespace

template <class T, class I, class O>
status transformer_backward(const host_context& ctx, const transformer_backward_args<T, I, O>& a) {
  const detail::trace_range range("transformer_backward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  using A = accumulator<T>;
  const auto& g = a.graph;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  constexpr std::int64_t grain = 64;
  std::vector<A> low;  // <grad_output, output>, [rows, heads]
  try {
    low.resize(static_cast<std::size_t>(g.rows() * heads));
  } catch (const std::exception&) {
    return failure(status_code::out_of_memory, "host scratch");
  }
  const auto s =
      detail::parallel_pieces(ctx, g.rows(), grain, [&](std::int64_t first, std::int64_t last) {
        std::vector<A> sum(static_cast<std::size_t>(dim));
        const auto& csr = g.forward.csr;
        for (auto i = first; i < last; ++i) {
          for (std::int64_t h = 0; h < heads; ++h) {
            std::fill(sum.begin(), sum.end(), A{0});
            const A lowered_by = low[static_cast<std::size_t>(i * heads + h)] =
                dot(head_of(a.grad_output, i, h), head_of(a.output, i, h), dim);
            for (std::int64_t k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
              const auto e = at_edge(a, i, csr.indices[k], k, h, lowered_by);
              add_scaled(sum, e.logit, head_of(a.key, csr.indices[k], h));
              if (a.grad_bias.data_handle() != nullptr) {
                a.grad_bias.data_handle()[k * a.grad_bias.stride(0) + h] = e.logit;
              }
            }
            store(head_of(a.grad_query, i, h), sum, a.scale);
          }
        }
      });
  if (!s.ok()) return s;
  return detail::parallel_pieces(
      ctx, g.columns(), grain, [&](std::int64_t first, std::int64_t last) {
        std::vector<A> of_key(static_cast<std::size_t>(dim)), of_value(of_key.size());
        const auto& csr = g.reverse.csr;
        for (auto j = first; j < last; ++j) {
          for (std::int64_t h = 0; h < heads; ++h) {
            std::fill(of_key.begin(), of_key.end(), A{0});
            std::fill(of_value.begin(), of_value.end(), A{0});
            for (std::int64_t k = csr.offsets[j]; k < csr.offsets[j + 1]; ++k) {
              const std::int64_t i = csr.indices[k];
              const auto edge = g.edge_map == nullptr ? k : std::int64_t{g.edge_map[k]};
              const auto e =
                  at_edge(a, i, j, edge, h, low[static_cast<std::size_t>(i * heads + h)]);
              add_scaled(of_key, e.logit, head_of(a.query, i, h));
              add_scaled(of_value, e.alpha, head_of(a.grad_output, i, h));
            }
            store(head_of(a.grad_key, j, h), of_key, a.scale);
            store(head_of(a.grad_value, j, h), of_value, A{1});
          }
        }
      });
}

#define QUIPU_INSTANTIATE(T, I, O)                          \
  template status transformer_backward(const host_context&, \
                                       const transformer_backward_args<T, I, O>&);
QUIPU_FOR_HOST_TYPES(QUIPU_INSTANTIATE)

}  // namespace quipu
