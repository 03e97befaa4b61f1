// SPDX-License-Identifier: Apache-2.0
#include "graph/make_schedule_device.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "graph/launch.cuh"
#include "graph/limits.hpp"

namespace quipu::detail {
namespace {

/// How much of the work list lies before a row: split rows of each class, and slices of class 0;
/// the others have all the same number.
template <class I>
struct place {
  I rows[split_classes];
  std::int64_t long_slices;
  __host__ __device__ std::int64_t slices(int of_class) const {
    return of_class == 0 ? long_slices : std::int64_t{rows[of_class]} * (16 >> of_class);
  }
  __host__ __device__ std::int64_t split_rows() const {
    std::int64_t sum = 0;
    for (const auto r : rows) sum += r;
    return sum;
  }
};
struct add_places {
  template <class I>
  __host__ __device__ place<I> operator()(place<I> a, const place<I>& b) const {
    for (int c = 0; c < split_classes; ++c) a.rows[c] += b.rows[c];
    a.long_slices += b.long_slices;
    return a;
  }
};

struct totals {
  unsigned long long max_degree;
  unsigned long long empty_rows;
};

template <class I, class O>
__global__ void visit_keys(const O* offsets, std::int64_t rows, std::uint64_t* keys, I* order) {
  const auto r = thread_index();
  if (r >= rows) return;
  keys[r] = visit_key(r, offsets[r + 1] - offsets[r]);
  order[r] = static_cast<I>(r);
}

template <class I, class O>
__global__ void count_places(const O* offsets, const I* order, std::int64_t rows,
                             std::int32_t slice_edges, place<I>* places, totals* sums) {
  const auto k = thread_index();
  std::int64_t degree = -1;
  if (k < rows) {
    const auto r = order != nullptr ? static_cast<std::int64_t>(order[k]) : k;
    degree = offsets[r + 1] - offsets[r];
    place<I> own{};
    if (degree > slice_edges) {
      const auto slices = count_slices(degree, slice_edges);
      own.rows[split_class_of(slices)] = 1;
      if (split_class_of(slices) == 0) own.long_slices = slices;
    }
    places[k] = own;
  } else if (k == rows) {
    places[k] = {};
  }
  // One atomic a warp keeps the counters from becoming a queue.
  const auto longest =
      __reduce_max_sync(0xffffffffu, degree > 0x7fffffff ? 0x7fffffff : static_cast<int>(degree));
  const auto empty = __popc(__ballot_sync(0xffffffffu, degree == 0));
  if (degree > 0x7fffffff) atomicMax(&sums->max_degree, static_cast<unsigned long long>(degree));
  if (threadIdx.x % 32 == 0) {
    if (longest > 0) atomicMax(&sums->max_degree, static_cast<unsigned long long>(longest));
    if (empty > 0) atomicAdd(&sums->empty_rows, static_cast<unsigned long long>(empty));
  }
}

template <class I, class O>
__global__ void fill_rows(const O* offsets, const I* order, std::int64_t rows,
                          const schedule_view<I> schedule, const place<I>* places, slice<I>* slices,
                          split_row<I>* split_rows) {
  const auto k = thread_index();
  if (k >= rows) return;
  const I r = order != nullptr ? order[k] : static_cast<I>(k);
  const std::int64_t begin = offsets[r];
  const std::int64_t degree = offsets[r + 1] - begin;
  const auto& before = places[k];
  if (degree > schedule.slice_edges) {
    const int c = split_class_of(count_slices(degree, schedule.slice_edges));
    const auto earlier = c == 0 ? split_count{} : schedule.longer_than(16 >> c);
    split_rows[earlier.rows + before.rows[c]] = {begin, degree, earlier.slices + before.slices(c),
                                                 r};
  } else {
    slices[schedule.split_slice_count() + k - before.split_rows()] = {
        begin, r, static_cast<std::int32_t>(degree)};
  }
}

/// A block for each split row: a row of millions of edges is cut by many threads at once.
template <class I>
__global__ void cut_rows(const schedule_view<I> schedule, slice<I>* slices,
                         std::int32_t* split_of) {
  const auto row = schedule.split_rows[blockIdx.x];
  const std::int64_t count = schedule.slices_of(row);
  for (std::int64_t c = threadIdx.x; c < count; c += blockDim.x) {
    slices[row.first + c] = cut_slice(row, c, count);
    split_of[row.first + c] = static_cast<std::int32_t>(blockIdx.x);
  }
}

template <class O>
__global__ void mark_wide(const O* offsets, std::int64_t rows, std::int32_t* marks) {
  const auto r = thread_index();
  if (r >= rows) return;
  marks[r] = wide_rows_view::is_wide(offsets[r + 1] - offsets[r]) ? 1 : 0;
}

template <class I, class O>
scratch<I> visit_list(const context& ctx, const csr_view<I, O>& csr) {
  auto keys = require(scratch<std::uint64_t>::make(ctx, csr.rows));
  auto sorted_keys = require(scratch<std::uint64_t>::make(ctx, csr.rows));
  auto rows = require(scratch<I>::make(ctx, csr.rows));
  auto order = require(scratch<I>::make(ctx, csr.rows));
  enqueue(ctx, visit_keys<I, O>, csr.rows, csr.offsets, csr.rows, keys.data(), rows.data());
  const int bits = 10 + id_bits(csr.rows / visit_window + 1);
  run_cub(ctx, [&](void* temporary, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(temporary, bytes, keys.data(), sorted_keys.data(),
                                           rows.data(), order.data(), csr.rows, 0, bits,
                                           ctx.stream);
  });
  return order;
}

template <class I>
void scan_places(const context& ctx, place<I>* places, std::int64_t count) {
  run_cub(ctx, [&](void* temporary, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveScan(temporary, bytes, places, places, add_places{},
                                          place<I>{}, count, ctx.stream);
  });
}

/// Numbers the rows that are longer than a byte can count.
template <class I, class O>
void number_wide_rows(const context& ctx, direction_storage<I, O>& d) {
  if (!wide_rows_view::is_wide(d.view.degrees.max_degree)) return;
  const auto rows = d.view.csr.rows;
  auto marks = require(scratch<std::int32_t>::make(ctx, rows));
  d.wide_rank = require(make_device_buffer<std::int32_t>(ctx, rows));
  enqueue(ctx, mark_wide<O>, rows, d.view.csr.offsets, rows, marks.data());
  run_cub(ctx, [&](void* temporary, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(temporary, bytes, marks.data(), d.wide_rank.data(), rows,
                                         ctx.stream);
  });
  const auto [before, last] =
      read_back(ctx, d.wide_rank.data() + rows - 1, marks.data() + rows - 1);
  d.view.wide_rows = {d.wide_rank.data(), before + last};
}

/// Lays the work list out for the counts that were found.
template <class I, class O>
void allocate_schedule(const context& ctx, direction_storage<I, O>& d, const place<I>& all) {
  auto& schedule = d.view.schedule;
  split_count sum;
  for (int c = 0; c < split_classes; ++c) {
    sum.rows += all.rows[c];
    sum.slices += all.slices(c);
    schedule.split[c] = sum;
  }
  schedule.slice_count = sum.slices + d.view.csr.rows - sum.rows;
  d.slices = require(make_device_buffer<slice<I>>(ctx, schedule.slice_count));
  d.split_rows = require(make_device_buffer<split_row<I>>(ctx, sum.rows));
  d.split_of = require(make_device_buffer<std::int32_t>(ctx, sum.slices));
  schedule.slices = d.slices.data();
  schedule.split_rows = d.split_rows.data();
  schedule.split_of = d.split_of.data();
}

}  // namespace

template <class I, class O>
void make_schedule_on_device(const context& ctx, direction_storage<I, O>& d,
                             const schedule_options& options) {
  const auto& csr = d.view.csr;
  auto& schedule = d.view.schedule;
  schedule.slice_edges = options.slice_edges > 0
                             ? options.slice_edges
                             : choose_slice_edges(csr.edges, csr.rows, ctx.multiprocessors);
  scratch<I> order;
  if (options.order == visit_order::grouped && csr.rows > 1) order = visit_list(ctx, csr);
  auto places = require(scratch<place<I>>::make(ctx, csr.rows + 1));
  auto sums = require(scratch<totals>::make(ctx, 1));
  require(cudaMemsetAsync(sums.data(), 0, sizeof(totals), ctx.stream), "schedule");
  enqueue(ctx, count_places<I, O>, csr.rows + 1, csr.offsets, order.data(), csr.rows,
          schedule.slice_edges, places.data(), sums.data());
  scan_places(ctx, places.data(), csr.rows + 1);
  const auto [all, degrees] = read_back(ctx, places.data() + csr.rows, sums.data());
  d.view.degrees = {static_cast<std::int64_t>(degrees.max_degree),
                    static_cast<std::int64_t>(degrees.empty_rows)};
  allocate_schedule(ctx, d, all);
  enqueue(ctx, fill_rows<I, O>, csr.rows, csr.offsets, order.data(), csr.rows, schedule,
          places.data(), d.slices.data(), d.split_rows.data());
  enqueue_blocks(ctx, cut_rows<I>, schedule.split_row_count(), schedule, d.slices.data(),
                 d.split_of.data());
  number_wide_rows(ctx, d);
}

template void make_schedule_on_device(const context&,
                                      direction_storage<std::int32_t, std::int32_t>&,
                                      const schedule_options&);
template void make_schedule_on_device(const context&,
                                      direction_storage<std::int32_t, std::int64_t>&,
                                      const schedule_options&);
template void make_schedule_on_device(const context&,
                                      direction_storage<std::int64_t, std::int64_t>&,
                                      const schedule_options&);

}  // namespace quipu::detail
