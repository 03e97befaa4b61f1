// SPDX-License-Identifier: Apache-2.0
#include "pack/check_update.hpp"
#include "pack/read_rows.hpp"
#include "pack/record_kernels.cuh"
#include "pack/record_sums.cuh"
#include "pack/row_ids.cuh"
#include "pack/stored_records.cuh"
#include "quipu/core/trace.hpp"
#include "quipu/engine/device_engine.cuh"

namespace quipu {

namespace {

using namespace detail;

/// codec::raw.
template <class Word>
class raw_writer {
 public:
  static constexpr bool in_slots = true;
  static constexpr int lanes = warp_lanes;
  using block_shared = nothing_shared;
  using warp_shared = nothing_shared;
  raw_writer(const packing&, const std::byte*) {}
  __device__ void prepare(block_shared&) const {}

  __device__ int size(int, const std::byte*, std::int64_t, int count, const block_shared&) const {
    return count * static_cast<int>(sizeof(Word));
  }
  __device__ void write(int lane, const std::byte* elements, std::int64_t, int count,
                        std::byte* slot, const block_shared&, warp_shared&) const {
    const auto* from = reinterpret_cast<const Word*>(elements);
    auto* to = reinterpret_cast<Word*>(slot);
    for (int i = lane; i < count; i += warp_lanes) to[i] = __ldg(from + i);
  }
};

template <class Use>
auto with_any_writer(const packing& p, Use&& use) {
  if (p.how != codec::raw) return with_writer(p, use);
  return with_word(p.element_bytes,
                   [&]<class Word>() { return use.template operator()<raw_writer<Word>>(); });
}

/// Records of the input, by the rows that they become and so by address.
struct ordered_updates {
  const void *ids, *order;
  std::int32_t id_bytes;
  std::int64_t positions, rows, records;

  struct update {
    std::int64_t position, row;
    int part;
    bool is_there, is_last;  // whether there is such a row, and no later position of it
  };
  __device__ update operator[](std::int64_t g) const {
    const auto j = records == 1 ? g : g / records;
    const auto position = id_at(order, id_bytes, j);
    const auto row = id_at(ids, id_bytes, position);
    const bool is_last =
        j + 1 == positions || id_at(ids, id_bytes, id_at(order, id_bytes, j + 1)) != row;
    return {position, row, static_cast<int>(g - j * records), row >= 0 && row < rows, is_last};
  }
  /// Its number by position.
  __device__ std::int64_t record(const update& u) const { return u.position * records + u.part; }
};

/// Of a record of the input.
struct measured_record {
  std::uint32_t stored = 0;  // bytes, with whole_flag if they are its elements; 0: is not written
  std::uint32_t room = 0;    // bytes of spare room that it takes
};
struct room_of {
  const measured_record* records = nullptr;
  __host__ __device__ std::int64_t operator()(std::int64_t r) const { return records[r].room; }
};
using room_sums = record_sums<std::int64_t, room_of>;

/// Where spare room begins, and for how many positions it suffices.
struct spare_room {
  std::int64_t begin, positions;
};

/// Looks at old records, which nobody writes yet. `most`: what a record packs to at most.
template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    measure_updates(const Writer writer, const device_input input, const ordered_updates updates,
                    const stored_records<Writer> there, const int most, measured_record* measured,
                    row_faults* faults) {
  static_assert(Writer::lanes == warp_lanes);
  __shared__ typename Writer::block_shared block;
  writer.prepare(block);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  for (auto g = first_record(); g < input.all; g += record_step()) {
    const auto u = updates[g];
    const auto r = updates.record(u);
    measured_record m;
    if (u.is_there && u.is_last) {
      const auto part = input[r];
      const int size = writer.size(lane, part.elements, part.column, part.count, block);
      m.stored = stored_size(size <= most ? size : -1, part.count * input.element_bytes);
      m.room = there.room_for(lane, u.row, u.part, m.stored);
    }
    if (lane == 0) {
      measured[r] = m;
      if (!u.is_there && faults != nullptr) note(&faults->id, u.position);
    }
  }
}

/// Gives spare room out in the order of positions, up to the first one for which it does not
/// suffice. `used` is to lie in [least, most].
__global__ void share_room(const std::int64_t* sums, const std::int64_t positions,
                           const std::int64_t records, const std::int64_t least,
                           const std::int64_t most, std::int64_t* used, spare_room* room,
                           row_faults* faults) {
  const auto begin = *used;
  const auto suffices = [&](std::int64_t count) {
    return begin >= least && begin <= most && sums[count * records] <= most - begin;
  };
  // It suffices for `some` positions, and for no more than `all`.
  std::int64_t some = 0, all = positions;
  if (suffices(all)) some = all;
  while (some < all) {
    const auto middle = all - (all - some) / 2;
    if (suffices(middle)) {
      some = middle;
    } else {
      all = middle - 1;
    }
  }
  *room = {begin, some};
  *used = begin + sums[some * records];
  if (some < positions && faults != nullptr) faults->room = some;
}

/// Packed rows to write to.
struct update_target {
  device_records rows;
  std::byte* bytes;
  std::uint32_t* addresses;
  explicit update_target(const packed_view& v)
      : rows(v, {}), bytes(v.bytes), addresses(v.addresses) {}
};

/// A record in its slot or, from its elements, in the overflow area: in the place that it has, or
/// at `spare`.
template <class Writer>
__device__ void put_in_slot(const Writer& writer, int lane, const device_input::part& part,
                            const measured_record& m, std::int64_t spare,
                            const ordered_updates::update& u, const update_target& to,
                            const typename Writer::block_shared& block,
                            typename Writer::warp_shared& own) {
  const auto& rows = to.rows;
  auto* slot = to.bytes + (rows.slot(u.row, u.part) - rows.bytes);
  if ((m.stored & whole_flag) == 0) {
    writer.write(lane, part.elements, part.column, part.count, slot, block, own);
    return;
  }
  const auto number = m.room == 0
                          ? *reinterpret_cast<const std::uint32_t*>(slot)
                          : static_cast<std::uint32_t>((spare - rows.overflow) / rows.record_bytes);
  __syncwarp();  // all have read
  point_to_overflow(lane, slot, rows.slot_bytes, number);
  put_whole(lane, part.elements,
            to.bytes + rows.overflow + std::int64_t{number} * rows.record_bytes,
            static_cast<int>(m.stored & ~whole_flag), rows.record_bytes);
}

/// A record with an address, in its place or at `spare`.
template <class Writer>
__device__ void put_at_address(const Writer& writer, int lane, const device_input::part& part,
                               const measured_record& m, std::int64_t spare,
                               const ordered_updates::update& u, const update_target& to,
                               typename Writer::warp_shared& own) {
  auto* address = to.addresses + u.row * to.rows.records + u.part;
  const auto place =
      m.room == 0 ? *address & ~whole_flag : static_cast<std::uint32_t>(spare / to.rows.granule);
  __syncwarp();  // all have read
  if (lane == 0) *address = place | (m.stored & whole_flag);
  put_addressed(writer, lane, part, m.stored, to.rows.granule,
                to.bytes + std::int64_t{place} * to.rows.granule, own);
}

template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    write_updates(const Writer writer, const device_input input, const ordered_updates updates,
                  const measured_record* measured, const std::int64_t* sums, const spare_room* room,
                  const update_target to) {
  __shared__ typename Writer::block_shared block;
  __shared__ typename Writer::warp_shared own[pack_warps];
  writer.prepare(block);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  auto& mine = own[threadIdx.x / warp_lanes];
  const auto spare = *room;
  for (auto g = first_record(); g < input.all; g += record_step()) {
    const auto u = updates[g];
    const auto r = updates.record(u);
    const auto m = measured[r];
    if (m.stored == 0 || u.position >= spare.positions) continue;
    if constexpr (Writer::in_slots) {
      put_in_slot(writer, lane, input[r], m, spare.begin + sums[r], u, to, block, mine);
    } else {
      put_at_address(writer, lane, input[r], m, spare.begin + sums[r], u, to, mine);
    }
  }
}

/// What updating wants besides its arguments.
template <class I>
struct update_scratch {
  I* order;
  workspace sorting;  // until the rest is written
  measured_record* measured;
  spare_room* room;
  room_sums sums;

  update_scratch(const context& ctx, arena& scratch, const update_rows_args<I>& a,
                 std::int64_t records)
      : order(scratch.take<I>(a.ids.extent(0))),
        sorting(lend(ctx, scratch, a)),
        measured(scratch.take<measured_record>(records)),
        room(scratch.take<spare_room>(1)),
        sums(ctx, scratch, records) {}

  /// In full, so that equal ids lie side by side.
  order_rows_args<I> sort(const update_rows_args<I>& a) const {
    return {a.ids, make_vector_view(order, a.ids.extent(0))};
  }

 private:
  workspace lend(const context& ctx, arena& scratch, const update_rows_args<I>& a) const {
    const arena::loan while_sorting(scratch);
    const auto bytes = workspace_bytes(ctx, sort(a));
    return {scratch.take<char>(static_cast<std::int64_t>(bytes)), bytes};
  }
};

/// One update, with what is made for it.
template <class I>
struct update_job {
  const context& ctx;
  const update_rows_args<I>& a;
  const update_scratch<I>& scratch;

  template <class Writer>
  status run() const {
    const auto& p = *a.packed.how;
    const Writer writer(p, a.packed.columns);
    const device_input input(a.input);
    const ordered_updates updates{
        a.ids.data_handle(), scratch.order, static_cast<std::int32_t>(sizeof(I)),
        a.input.rows,        a.packed.rows, input.records};
    const auto grid = record_grid(ctx, input.all);
    const int most =
        static_cast<int>(p.has_slots() ? p.slot_bytes : input.elements * p.element_bytes);
    if (auto s =
            launch(ctx, measure_updates<Writer>, grid, pack_threads, start::in_order, writer, input,
                   updates, stored_records<Writer>(a.packed), most, scratch.measured, a.faults);
        !s.ok()) {
      return s;
    }
    if (auto s = scratch.sums.add(ctx, {scratch.measured}); !s.ok()) return s;
    if (auto s = share(input.records); !s.ok()) return s;
    return launch(ctx, write_updates<Writer>, grid, pack_threads, start::in_order, writer, input,
                  updates, scratch.measured, scratch.sums.values, scratch.room,
                  update_target(a.packed));
  }

 private:
  status share(std::int64_t records) const {
    const auto& v = a.packed;
    const bool has_slots = v.how->has_slots();
    const auto least = has_slots ? v.rows * slot_bytes_of_row(*v.how) : 0;
    // Up to the last byte of which an address can tell.
    const auto told = (std::int64_t{whole_flag} + 1) * v.how->granule - 1;
    const auto most = has_slots ? v.byte_count : std::min(v.byte_count, told);
    return launch(ctx, share_room, dim3(1), 1, start::in_order, scratch.sums.values, a.input.rows,
                  records, least, most, v.used, scratch.room, a.faults);
  }
};

template <class I>
status check_arguments(const context& ctx, const update_rows_args<I>& a) {
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_update(a); !s.ok()) return s;
  if (!is_aligned(a.input)) return wrong_argument("input: elements are not aligned");
  if (a.packed.rows == 0 && a.ids.extent(0) > 0) {
    return failure(status_code::out_of_range, "ids: there are no rows", 0);
  }
  for (auto s :
       {check_device_pointer(a.input.data, a.input.rows * a.input.width, input_messages.null,
                             ctx.device),
        check_device_pointer(a.ids.data_handle(), a.ids.extent(0), "ids: not device memory",
                             ctx.device),
        check_device_pointer(a.packed.used, 1, "packed: used is not on the device", ctx.device),
        check_device_pointer(a.faults, a.faults != nullptr ? 1 : 0, "faults: not device memory",
                             ctx.device)}) {
    if (!s.ok()) return s;
  }
  return check_on_device(ctx, a.packed);
}

/// Records to write at most.
template <class I>
std::int64_t records_of(const update_rows_args<I>& a) {
  return a.ids.extent(0) * record_shape(a.packed.how->width).records;
}

}  // namespace

template <class I>
std::size_t workspace_bytes(const context& ctx, const update_rows_args<I>& a) {
  if (!check_packed(a.packed).ok() || records_of(a) == 0) return 0;
  const device_guard guard(ctx.device);
  arena counting;
  (void)update_scratch<I>(ctx, counting, a, records_of(a));
  return counting.bytes();
}

template <class I>
status update_rows(const context& ctx, const update_rows_args<I>& a, workspace w) {
  const trace_range range("update_rows");
  const device_guard guard(ctx.device);
  if (auto s = check_arguments(ctx, a); !s.ok()) return s;
  if (records_of(a) == 0) return clear(ctx, a.faults);
  arena memory(w);
  const update_scratch<I> scratch(ctx, memory, a, records_of(a));
  if (auto s = memory.fits(); !s.ok()) return s;
  if (auto s = clear(ctx, a.faults); !s.ok()) return s;
  if (auto s = order_rows(ctx, scratch.sort(a), scratch.sorting); !s.ok()) return s;
  const update_job<I> job{ctx, a, scratch};
  return with_any_writer(*a.packed.how, [&]<class Writer>() { return job.template run<Writer>(); });
}

#define QUIPU_INSTANTIATE(I)                                                          \
  template status update_rows(const context&, const update_rows_args<I>&, workspace); \
  template std::size_t workspace_bytes(const context&, const update_rows_args<I>&);
QUIPU_INSTANTIATE(std::int32_t)
QUIPU_INSTANTIATE(std::int64_t)
#undef QUIPU_INSTANTIATE

}  // namespace quipu
