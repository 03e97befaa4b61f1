// SPDX-License-Identifier: Apache-2.0
#include "quipu/graph/normalise.hpp"

#include "graph/launch.cuh"
#include "quipu/core/trace.hpp"

namespace quipu {

namespace detail {
namespace {

enum class power : std::uint8_t { inverse, inverse_root };

template <class O>
QUIPU_HD float factor_of(const O* offsets, std::int64_t node, power p) {
  const auto edges = static_cast<double>(offsets[node + 1] - offsets[node]);
  const double count = edges < 1.0 ? 1.0 : edges;
  return static_cast<float>(1.0 / (p == power::inverse ? count : sqrt(count)));
}

template <class O>
__global__ void fill_factors(const O* offsets, std::int64_t nodes, power p, float* factors) {
  const auto node = thread_index();
  if (node < nodes) factors[node] = factor_of(offsets, node, p);
}

template <class O>
buffer<float> make_factors(const context& ctx, const O* offsets, std::int64_t nodes, power p) {
  auto b = require(make_device_buffer<float>(ctx, nodes));
  enqueue(ctx, fill_factors<O>, nodes, offsets, nodes, p, b.data());
  return b;
}
template <class O>
buffer<float> make_factors(const host_context&, const O* offsets, std::int64_t nodes, power p) {
  auto b = require(make_host_buffer<float>(nodes));
  for (std::int64_t node = 0; node < nodes; ++node) b.data()[node] = factor_of(offsets, node, p);
  return b;
}

/// Offsets that a device is about to read.
template <class O>
void check_offsets(const context& ctx, const O* offsets, std::int64_t nodes) {
  if (nodes > 0) {
    require(check_device_pointer(offsets, nodes + 1,
                                 "graph: incomplete, or not where the context works", ctx.device));
  }
}
template <class O>
void check_offsets(const host_context&, const O* offsets, std::int64_t nodes) {
  if (nodes > 0 && offsets == nullptr) {
    throw build_failure{failure(status_code::invalid_argument, "graph: incomplete")};
  }
}

template <class Context, class I, class O>
node_scales build(const Context& ctx, const graph_view<I, O>& g, normalisation n) {
  if (counts_senders(n) && !g.has_reverse() && g.columns() > 0) {
    throw build_failure{failure(status_code::invalid_argument,
                                "graph: made without its reverse, which walk and symmetric need")};
  }
  const auto p = n == normalisation::symmetric ? power::inverse_root : power::inverse;
  buffer<float> row, column;
  if (n != normalisation::none) check_offsets(ctx, g.forward.csr.offsets, g.rows());
  if (counts_senders(n)) check_offsets(ctx, g.reverse.csr.offsets, g.columns());
  if (n == normalisation::mean || n == normalisation::symmetric) {
    row = make_factors(ctx, g.forward.csr.offsets, g.rows(), p);
  }
  if (counts_senders(n)) column = make_factors(ctx, g.reverse.csr.offsets, g.columns(), p);
  return {std::move(row), std::move(column)};
}

}  // namespace
}  // namespace detail

template <class I, class O>
result<node_scales> make_node_scales(const context& ctx, const graph_view<I, O>& g,
                                     normalisation n) {
  const detail::trace_range range("make_node_scales");
  const device_guard guard(ctx.device);
  return detail::as_result<result<node_scales>>([&]() -> result<node_scales> {
    detail::require(check_stream(ctx));
    auto scales = detail::build(ctx, g, n);
    detail::require(synchronize(ctx));
    return result<node_scales>(std::move(scales));
  });
}
template <class I, class O>
result<node_scales> make_node_scales(const host_context& ctx, const graph_view<I, O>& g,
                                     normalisation n) {
  const detail::trace_range range("make_node_scales");
  return detail::as_result<result<node_scales>>(
      [&]() -> result<node_scales> { return detail::build(ctx, g, n); });
}

#define QUIPU_INSTANTIATE(I, O)                                                               \
  template result<node_scales> make_node_scales(const context&, const graph_view<I, O>&,      \
                                                normalisation);                               \
  template result<node_scales> make_node_scales(const host_context&, const graph_view<I, O>&, \
                                                normalisation);
QUIPU_INSTANTIATE(std::int32_t, std::int32_t)
QUIPU_INSTANTIATE(std::int32_t, std::int64_t)
QUIPU_INSTANTIATE(std::int64_t, std::int64_t)
#undef QUIPU_INSTANTIATE

}  // namespace quipu
