// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "pack/check_pack.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/pack/pack.hpp"

namespace quipu {

namespace {

template <class I>
__global__ void count_up(I* to, std::int64_t size) {
  const auto k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size) to[k] = static_cast<I>(k);
}

/// Scratch of a sort: sorted ids, positions, and what the sort itself wants.
template <class I>
struct order_scratch {
  I *ids, *positions;
  char* temporary;
  std::size_t temporary_bytes = 0;

  order_scratch(arena& scratch, std::int64_t size) {
    ids = scratch.take<I>(size);
    positions = scratch.take<I>(size);
    (void)cub::DeviceRadixSort::SortPairs(nullptr, temporary_bytes, static_cast<const I*>(nullptr),
                                          static_cast<I*>(nullptr), static_cast<const I*>(nullptr),
                                          static_cast<I*>(nullptr), size);
    temporary = scratch.take<char>(static_cast<std::int64_t>(temporary_bytes));
  }
};

/// Bits of ids that decide, from the first on and up to the second.
template <class I>
std::pair<int, int> deciding_bits(std::int64_t rows) {
  constexpr int all = 8 * static_cast<int>(sizeof(I)), of_group = 8;  // one pass of the sort
  if (rows <= 0) return {0, all};
  const auto used = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows - 1)));
  const int end = std::clamp(used, 1, all);
  return {std::max(0, end - of_group), end};
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
  order_scratch<I> counted(counting, a.ids.extent(0));
  return counting.bytes();
}

template <class I>
status order_rows(const context& ctx, const order_rows_args<I>& a, workspace w) {
  const detail::trace_range range("order_rows");
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_order(a); !s.ok()) return s;
  const auto size = a.ids.extent(0);
  arena scratch(w);
  order_scratch<I> s(scratch, size);
  if (auto fits = scratch.fits(); !fits.ok()) return fits;
  if (size == 0) return success();
  constexpr unsigned threads = 256;
  const dim3 grid(static_cast<unsigned>((size + threads - 1) / threads));
  if (auto e = detail::launch(ctx, count_up<I>, grid, threads, detail::start::in_order, s.positions,
                              size);
      !e.ok()) {
    return e;
  }
  const auto [begin, end] = deciding_bits<I>(a.rows);
  return from_cuda(
      cub::DeviceRadixSort::SortPairs(s.temporary, s.temporary_bytes, a.ids.data_handle(), s.ids,
                                      static_cast<const I*>(s.positions), a.order.data_handle(),
                                      size, begin, end, ctx.stream),
      "order_rows: sort");
}

bool order_pays(const packed_view& v, std::int64_t ids) {
  constexpr std::int64_t reach = std::int64_t{1} << 30;
  constexpr std::int64_t fewest = 4096;  // a sort takes about 20 us
  constexpr std::int64_t longest_row = 1024;
  cudaPointerAttributes a{};
  if (v.how == nullptr || cudaPointerGetAttributes(&a, v.bytes) != cudaSuccess) return false;
  return a.type == cudaMemoryTypeHost && v.byte_count > reach && ids >= fewest &&
         v.byte_count / std::max<std::int64_t>(1, v.rows) < longest_row;
}

#define QUIPU_INSTANTIATE(I)                                                        \
  template status order_rows(const context&, const order_rows_args<I>&, workspace); \
  template std::size_t workspace_bytes(const context&, const order_rows_args<I>&);
QUIPU_INSTANTIATE(std::int32_t)
QUIPU_INSTANTIATE(std::int64_t)
#undef QUIPU_INSTANTIATE

}  // namespace quipu
