// SPDX-License-Identifier: Apache-2.0
#include "graph/scratch.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/graph/make_graph.hpp"

namespace quipu {

namespace detail {
namespace {

/// Copies buffers to one kind of memory and repairs the views that point into them.
struct mover {
  const context& ctx;
  memory_kind kind;

  template <class T>
  buffer<T> copy(const T* from, std::int64_t size) const {
    if (from == nullptr) return {};
    auto b = require(buffer<T>::make(kind, ctx.device, size));
    require(copy_bytes(ctx, b.data(), from, b.bytes()));
    return b;
  }

  template <class I, class O>
  direction_storage<I, O> copy(const direction_view<I, O>& from) const {
    direction_storage<I, O> d;
    if (from.csr.offsets == nullptr) return d;
    d.view = from;
    d.offsets = copy(from.csr.offsets, from.csr.rows + 1);
    d.indices = copy(from.csr.indices, from.csr.edges);
    d.weights = copy(from.csr.weights, from.csr.edges);
    d.slices = copy(from.schedule.slices, from.schedule.slice_count);
    d.split_rows = copy(from.schedule.split_rows, from.schedule.split_row_count());
    d.split_of = copy(from.schedule.split_of, from.schedule.split_slice_count());
    d.wide_rank = copy(from.wide_rows.rank, from.csr.rows);
    d.view.wide_rows.rank = d.wide_rank.data();
    d.view.csr.offsets = d.offsets.data();
    d.view.csr.indices = d.indices.data();
    d.view.csr.weights = d.weights.data();
    d.view.schedule.slices = d.slices.data();
    d.view.schedule.split_rows = d.split_rows.data();
    d.view.schedule.split_of = d.split_of.data();
    return d;
  }

  template <class I, class O>
  result<graph<I, O>> copy(const graph<I, O>& g) const {
    return as_result<result<graph<I, O>>>([&]() -> result<graph<I, O>> {
      const device_guard guard(ctx.device);
      const auto v = g.view();
      return graph<I, O>(copy(v.forward), copy(v.reverse), copy(v.edge_map, v.edges()),
                         copy(g.edge_ids(), v.edges()));
    });
  }
};

}  // namespace
}  // namespace detail

template <class I, class O>
result<graph<I, O>> to_device(const context& ctx, const graph<I, O>& g) {
  const detail::trace_range range("to_device");
  return detail::mover{ctx, memory_kind::device}.copy(g);
}
template <class I, class O>
result<graph<I, O>> to_host(const context& ctx, const graph<I, O>& g) {
  const detail::trace_range range("to_host");
  return detail::mover{ctx, memory_kind::host}.copy(g);
}

#define QUIPU_INSTANTIATE(I, O)                                               \
  template result<graph<I, O>> to_device(const context&, const graph<I, O>&); \
  template result<graph<I, O>> to_host(const context&, const graph<I, O>&);
QUIPU_INSTANTIATE(std::int32_t, std::int32_t)
QUIPU_INSTANTIATE(std::int32_t, std::int64_t)
QUIPU_INSTANTIATE(std::int64_t, std::int64_t)
#undef QUIPU_INSTANTIATE

}  // namespace quipu
