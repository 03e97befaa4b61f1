// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
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
using detail::number_at;

namespace {

/// Attention of one row and head, in two passes over its edges: logits, then weights.
/// `logit(k)` of the edge at position k; `values` holds the senders' rows. Leaves the weights as
/// they were applied, dropout included.
template <class T, class I, class A, class Logit>
void attend(const I* indices, std::int64_t begin, std::int64_t end, std::int64_t head,
            const heads_view<const T>& values, const Logit& logit,
            const detail::dropout_mask<A>& dropout, std::vector<A>& weights, std::vector<A>& sum,
            A& logsumexp) {
  const auto degree = static_cast<std::size_t>(end - begin);
  const A minus_infinity = -std::numeric_limits<A>::infinity();
  weights.resize(std::max(weights.size(), degree));
  A largest = minus_infinity;
  for (std::size_t k = 0; k < degree; ++k) {
    weights[k] = logit(begin + static_cast<std::int64_t>(k));
    largest = weights[k] > largest ? weights[k] : largest;
  }
  const A base = largest == minus_infinity ? A{0} : largest;
  A total = 0;
  std::fill(sum.begin(), sum.end(), A{0});
  for (std::size_t k = 0; k < degree; ++k) {
    const auto edge = begin + static_cast<std::int64_t>(k);
    const A whole = std::exp(weights[k] - base);
    total += whole;
    const A w = weights[k] = whole * dropout(edge, head);
    const T* row = head_of(values, indices[edge], head);
    for (std::size_t f = 0; f < sum.size(); ++f) sum[f] += w * widen(row[f]);
  }
  const A inverse = total == A{0} ? A{0} : A{1} / total;
  // Without a weight there is nothing, whatever the rows hold.
  for (A& x : sum) x = total == A{0} ? A{0} : x * inverse;
  for (std::size_t k = 0; k < degree; ++k) weights[k] *= inverse;
  logsumexp = total == A{0} ? minus_infinity : largest + std::log(total);
}

/// All rows and heads. `logit_of(i, h)` gives the logit of an edge position of row i.
template <class T, class Args, class LogitOf>
status attend_all(const host_context& ctx, const Args& a, const heads_view<const T>& values,
                  const LogitOf& logit_of) {
  using A = accumulator<T>;
  const auto& csr = a.graph.forward.csr;
  const auto heads = a.output.extent(1), dim = a.output.extent(2);
  const detail::dropout_mask<A> dropout(a.dropout, heads);
  constexpr std::int64_t grain = 64;
  return detail::parallel_pieces(ctx, csr.rows, grain, [&](std::int64_t first, std::int64_t last) {
    std::vector<A> weights, sum(static_cast<std::size_t>(dim));
    for (auto i = first; i < last; ++i) {
      const std::int64_t begin = csr.offsets[i], end = csr.offsets[i + 1];
      for (std::int64_t h = 0; h < heads; ++h) {
        A logsumexp;
        attend<T>(csr.indices, begin, end, h, values, logit_of(i, h), dropout, weights, sum,
                  logsumexp);
        T* to = head_of(a.output, i, h);
        for (std::int64_t f = 0; f < dim; ++f) to[f] = narrow<T>(sum[static_cast<std::size_t>(f)]);
        if (a.logsumexp.data_handle() != nullptr) {
          number_at(a.logsumexp, i, h) = logsumexp;
        }
        if (a.alpha.data_handle() == nullptr) continue;
        for (auto k = begin; k < end; ++k) {
          number_at(a.alpha, k, h) = weights[static_cast<std::size_t>(k - begin)];
        }
      }
    }
  });
}

}  // namespace

template <class T, class I, class O>
status gatv2_forward(const host_context& ctx, const gatv2_forward_args<T, I, O>& a) {
  const detail::trace_range range("gatv2_forward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  const auto dim = a.output.extent(2);
  const I* indices = a.graph.forward.csr.indices;
  return attend_all<T>(ctx, a, a.source, [&](std::int64_t i, std::int64_t h) {
    const T* target = head_of(a.target, i, h);
    const T* attention = a.attention.data_handle() + h * a.attention.stride(0);
    return [&a, indices, dim, h, target, attention](std::int64_t k) {
      return detail::leaky_dot(attention, target, head_of(a.source, indices[k], h), dim, a.slope);
    };
  });
}

template <class T, class I, class O>
status transformer_forward(const host_context& ctx, const transformer_forward_args<T, I, O>& a) {
  const detail::trace_range range("transformer_forward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  using A = accumulator<T>;
  const auto dim = a.output.extent(2);
  const I* indices = a.graph.forward.csr.indices;
  return attend_all<T>(ctx, a, a.value, [&](std::int64_t i, std::int64_t h) {
    const T* query = head_of(a.query, i, h);
    return [&a, indices, dim, h, query](std::int64_t k) {
      const T* key = head_of(a.key, indices[k], h);
      const A logit = a.scale * dot(query, key, dim);
      return a.bias.data_handle() == nullptr ? logit : logit + number_at(a.bias, k, h);
    };
  });
}

template <class T, class I, class O>
status gat_forward(const host_context& ctx, const gat_forward_args<T, I, O>& a) {
  const detail::trace_range range("gat_forward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  const I* indices = a.graph.forward.csr.indices;
  return attend_all<T>(ctx, a, a.source, [&](std::int64_t i, std::int64_t h) {
    const auto target = widen(number_at(a.target_score, i, h));
    return [&a, indices, h, target](std::int64_t k) {
      return leaky_relu(target + widen(number_at(a.source_score, indices[k], h)), a.slope);
    };
  });
}

#define QUIPU_INSTANTIATE(T, I, O)                                                        \
  template status gatv2_forward(const host_context&, const gatv2_forward_args<T, I, O>&); \
  template status transformer_forward(const host_context&,                                \
                                      const transformer_forward_args<T, I, O>&);          \
  template status gat_forward(const host_context&, const gat_forward_args<T, I, O>&);
QUIPU_FOR_HOST_TYPES(QUIPU_INSTANTIATE)

}  // namespace quipu
