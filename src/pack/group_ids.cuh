// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cub/block/block_scan.cuh>

#include "quipu/math/bits.hpp"
#include "quipu/pack/pack.hpp"

/// Positions of ids by 256 ranges of rows: one pass of a sort, in two short kernels. A library's
/// sort takes five kernels, which small batches would wait for.
namespace quipu::detail {

constexpr int group_bits = 8, id_groups = 1 << group_bits;
constexpr int group_threads = id_groups, group_warps = group_threads / 32, group_blocks = 64;

/// Ids, and the group of each: the upper bits of those that numbers of rows have. A warp takes a
/// run of them.
template <class I>
struct grouped_ids {
  const I* ids;
  std::int64_t size, of_warp;
  int first_bit;

  explicit grouped_ids(const order_rows_args<I>& a)
      : ids(a.ids.data_handle()), size(a.ids.extent(0)) {
    of_warp = (size + group_blocks * group_warps * 32 - 1) / (group_blocks * group_warps * 32) * 32;
    const auto used = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(a.rows - 1)));
    constexpr int most = 8 * static_cast<int>(sizeof(I)) - 1;
    first_bit = std::max(0, std::min(used, most) - group_bits);
  }
  __device__ unsigned group(std::int64_t k) const {
    return static_cast<unsigned>(ids[k] >> first_bit) % id_groups;
  }
  __device__ std::int64_t begin(int warp) const {
    const auto k = (std::int64_t{blockIdx.x} * group_warps + warp) * of_warp;
    return k < size ? k : size;
  }
};

/// counts[block, group]
template <class I>
__global__ void __launch_bounds__(group_threads)
    count_groups(const grouped_ids<I> ids, std::int32_t* counts) {
  __shared__ std::int32_t count[id_groups];
  count[threadIdx.x] = 0;
  __syncthreads();
  const auto end = ids.begin(group_warps);
  for (auto k = ids.begin(0) + threadIdx.x; k < end; k += group_threads) {
    atomicAdd(&count[ids.group(k)], 1);
  }
  __syncthreads();
  counts[blockIdx.x * id_groups + threadIdx.x] = count[threadIdx.x];
}

/// Places by group, and in a group as they come.
template <class I>
__global__ void __launch_bounds__(group_threads)
    place_by_group(const grouped_ids<I> ids, const std::int32_t* counts, I* order) {
  using scan = cub::BlockScan<std::int32_t, group_threads>;
  __shared__ typename scan::TempStorage scratch;
  __shared__ std::int32_t next[group_warps][id_groups];  // where a warp's next one of a group goes
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (auto& of_warp : next) of_warp[threadIdx.x] = 0;
  __syncthreads();
  const auto begin = ids.begin(warp), end = ids.begin(warp + 1);
  for (auto k = begin + lane; k < end; k += 32) atomicAdd(&next[warp][ids.group(k)], 1);
  __syncthreads();
  // A thread a group.
  std::int32_t before = 0, all = 0, place;
#pragma unroll 16
  for (unsigned b = 0; b < group_blocks; ++b) {
    const auto count = counts[b * id_groups + threadIdx.x];
    before += b < blockIdx.x ? count : 0;
    all += count;
  }
  scan(scratch).ExclusiveSum(all, place);
  place += before;
  for (auto& of_warp : next) {
    const auto count = of_warp[threadIdx.x];
    of_warp[threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
  for (auto first = begin; first < end; first += 32) {
    const auto k = first + lane;
    const unsigned group = k < end ? ids.group(k) : id_groups;
    const auto peers = __match_any_sync(~0u, group);
    if (k < end) {
      order[next[warp][group] + __popc(peers & ((1u << lane) - 1))] = static_cast<I>(k);
    }
    __syncwarp();
    if (k < end && peers >> lane == 1) next[warp][group] += __popc(peers);
    __syncwarp();
  }
}

}  // namespace quipu::detail
