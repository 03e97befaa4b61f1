// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_radix_sort.cuh>

#include "pack/check_pack.hpp"
#include "pack/group_ids.cuh"
#include "quipu/core/trace.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/pack/detail/pack_tuning.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu {

namespace {

template <class I>
__global__ void count_up(I* to, std::int64_t size) {
  const auto k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size) to[k] = static_cast<I>(k);
}

/// Scratch: of groups their counts; of a sort sorted ids, positions, and what the sort itself
/// wants.
template <class I>
struct order_scratch {
  std::int32_t* counts = nullptr;
  I *ids = nullptr, *positions = nullptr;
  char* temporary = nullptr;
  std::size_t temporary_bytes = 0;

  order_scratch(arena& scratch, const order_rows_args<I>& a) {
    const auto size = a.ids.extent(0);
    if (a.rows > 0) {
      counts = scratch.take<std::int32_t>(detail::group_blocks * detail::id_groups);
      return;
    }
    ids = scratch.take<I>(size);
    positions = scratch.take<I>(size);
    (void)cub::DeviceRadixSort::SortPairs(nullptr, temporary_bytes, static_cast<const I*>(nullptr),
                                          static_cast<I*>(nullptr), static_cast<const I*>(nullptr),
                                          static_cast<I*>(nullptr), size);
    temporary = scratch.take<char>(static_cast<std::int64_t>(temporary_bytes));
  }
};

template <class I>
status group_ids(const context& ctx, const order_rows_args<I>& a, std::int32_t* counts) {
  using namespace detail;
  const grouped_ids<I> ids(a);
  if (auto s = launch(ctx, count_groups<I>, dim3(group_blocks), group_threads, start::in_order, ids,
                      counts);
      !s.ok()) {
    return s;
  }
  return launch(ctx, place_by_group<I>, dim3(group_blocks), group_threads, start::in_order, ids,
                static_cast<const std::int32_t*>(counts), a.order.data_handle());
}

template <class I>
status sort_ids(const context& ctx, const order_rows_args<I>& a, order_scratch<I>& s) {
  const auto size = a.ids.extent(0);
  constexpr unsigned threads = 256;
  const dim3 grid(static_cast<unsigned>((size + threads - 1) / threads));
  if (auto e = detail::launch(ctx, count_up<I>, grid, threads, detail::start::in_order, s.positions,
                              size);
      !e.ok()) {
    return e;
  }
  return from_cuda(
      cub::DeviceRadixSort::SortPairs(s.temporary, s.temporary_bytes, a.ids.data_handle(), s.ids,
                                      static_cast<const I*>(s.positions), a.order.data_handle(),
                                      size, 0, 8 * static_cast<int>(sizeof(I)), ctx.stream),
      "order_rows: sort");
}

template <class I>
status check_order(const order_rows_args<I>& a) {
  const auto size = a.ids.extent(0);
  if (a.order.extent(0) != size) {
    return detail::wrong_argument("order: not as long as ids", size, a.order.extent(0));
  }
  if (a.rows < 0) return detail::wrong_argument("rows: negative", 0, a.rows);
  if (size > 0x7fffffff) return detail::wrong_argument("ids: more than 2^31 - 1", 0x7fffffff, size);
  if (size > 0 && (a.ids.data_handle() == nullptr || a.order.data_handle() == nullptr)) {
    return detail::wrong_argument("ids, order: null");
  }
  return success();
}

}  // namespace

template <class I>
std::size_t workspace_bytes(const context&, const order_rows_args<I>& a) {
  arena counting;
  (void)order_scratch<I>(counting, a);
  return counting.bytes();
}

template <class I>
status order_rows(const context& ctx, const order_rows_args<I>& a, workspace w) {
  const detail::trace_range range("order_rows");
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_order(a); !s.ok()) return s;
  arena scratch(w);
  order_scratch<I> s(scratch, a);
  if (auto fits = scratch.fits(); !fits.ok()) return fits;
  if (a.ids.extent(0) == 0) return success();
  return a.rows > 0 ? group_ids(ctx, a, s.counts) : sort_ids(ctx, a, s);
}

bool order_pays(const packed_view& v, std::int64_t ids) {
  using tuning = detail::link_tuning;
  cudaPointerAttributes a{};
  if (v.how == nullptr || cudaPointerGetAttributes(&a, v.bytes) != cudaSuccess) return false;
  return a.type == cudaMemoryTypeHost && v.byte_count > tuning::reach &&
         ids >= tuning::fewest_ordered &&
         v.byte_count / std::max<std::int64_t>(1, v.rows) < tuning::longest_ordered;
}

#define QUIPU_INSTANTIATE(I)                                                        \
  template status order_rows(const context&, const order_rows_args<I>&, workspace); \
  template std::size_t workspace_bytes(const context&, const order_rows_args<I>&);
QUIPU_INSTANTIATE(std::int32_t)
QUIPU_INSTANTIATE(std::int64_t)
#undef QUIPU_INSTANTIATE

}  // namespace quipu
