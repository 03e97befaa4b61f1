// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "pack/record_writers.cuh"
#include "pack/with_word.hpp"
#include "quipu/core/context.hpp"
#include "quipu/pack/table.hpp"

/// What kernels share that take a group of lanes a record of a table.
namespace quipu::detail {

constexpr int pack_threads = 256;
template <int Lanes>
inline constexpr int pack_groups = pack_threads / Lanes;
constexpr int pack_warps = pack_groups<warp_lanes>;

/// The table, record by record.
struct device_input {
  const std::byte* data;
  std::int64_t stride, all;
  std::int32_t records, elements, last_elements;  // of a row; of a record; of a row's last one
  std::int32_t element_bytes;

  explicit device_input(const table_view& t)
      : data(t.data), stride(t.row_stride), element_bytes(t.element_bytes) {
    const record_shape shape(t.width);
    records = static_cast<std::int32_t>(shape.records);
    elements = static_cast<std::int32_t>(shape.elements);
    last_elements = static_cast<std::int32_t>(shape.count(shape.records - 1));
    all = t.rows * records;
  }
  struct part {
    const std::byte* elements;
    std::int64_t column;
    int count;
  };
  __device__ part operator[](std::int64_t record) const {
    if (records == 1) return {data + record * stride, 0, elements};
    const auto row = record / records;
    const auto k = record - row * records, column = k * elements;
    return {data + row * stride + column * element_bytes, column,
            k + 1 < records ? elements : last_elements};
  }
};

template <int Lanes = warp_lanes>
__device__ inline std::int64_t first_record() {
  return std::int64_t{blockIdx.x} * pack_groups<Lanes> + threadIdx.x / Lanes;
}
template <int Lanes = warp_lanes>
__device__ inline std::int64_t record_step() {
  return std::int64_t{gridDim.x} * pack_groups<Lanes>;
}

template <int Lanes = warp_lanes>
dim3 record_grid(const context& ctx, std::int64_t records) {
  const auto wanted = (records + pack_groups<Lanes> - 1) / pack_groups<Lanes>;
  return dim3(static_cast<unsigned>(
      std::min<std::int64_t>(wanted, std::int64_t{16} * ctx.multiprocessors)));
}

/// Bytes of a record, or with whole_flag those of its elements; `size` is -1 if it is not packed.
__device__ inline std::uint32_t stored_size(int size, int element_bytes) {
  return size < 0 ? static_cast<std::uint32_t>(element_bytes) | whole_flag
                  : static_cast<std::uint32_t>(size);
}

template <int Lanes = warp_lanes>
__device__ inline void copy_record(int lane, const std::byte* from, std::byte* to, int bytes) {
  for (int b = lane; b < bytes; b += Lanes) to[b] = from[b];
}

/// A record as it is, and zeros up to the end of its place.
__device__ inline void put_whole(int lane, const std::byte* from, std::byte* to, int bytes,
                                 int place_bytes) {
  copy_record(lane, from, to, bytes);
  clear_bytes(lane, to, bytes, place_bytes);
}

/// A slot that says which record of the overflow area is meant.
__device__ inline void point_to_overflow(int lane, std::byte* slot, int slot_bytes,
                                         std::uint32_t number) {
  clear_bytes(lane, slot, 4, slot_bytes - 1);
  if (lane < 4) slot[lane] = static_cast<std::byte>(number >> (8 * lane));
  if (lane == 0) slot[slot_bytes - 1] = overflow_tag;
}

/// A record with an address, as it is if `stored` says so, and zeros up to the end of its last
/// granule.
template <class Writer>
__device__ void put_addressed(const Writer& writer, int lane, const device_input::part& part,
                              std::uint32_t stored, int granule, std::byte* to,
                              typename Writer::warp_shared& own) {
  const auto size = static_cast<int>(stored & ~whole_flag);
  if ((stored & whole_flag) != 0) {
    copy_record<Writer::lanes>(lane, part.elements, to, size);
  } else {
    writer.write(lane, part.elements, part.column, part.count, size, to, own);
  }
  clear_bytes<Writer::lanes>(lane, to, size, static_cast<int>(round_up(size, granule)));
}

/// Calls use.operator()<Word, Kept>() as an exponent_writer wants them.
template <class Use>
auto with_exponents(const packing& p, Use&& use) {
  const bool is_plain = p.exponent.constant_mask == 0;
  if (p.format == number_format::float32) {
    return is_plain ? use.template operator()<std::uint32_t, 24>()
                    : use.template operator()<std::uint32_t, 0>();
  }
  return is_plain && p.format == number_format::bfloat16
             ? use.template operator()<std::uint16_t, 8>()
             : use.template operator()<std::uint16_t, 0>();
}

/// Calls use.operator()<Writer>() for a codec that is not raw, a warp a record.
template <class Use>
auto with_writer(const packing& p, Use&& use) {
  if (p.how == codec::exponent) {
    return with_exponents(p, [&]<class Word, int Kept>() {
      return use.template operator()<exponent_writer<Word, Kept>>();
    });
  }
  if (p.how == codec::invariant) {
    return with_word(p.invariant.unit_bytes, [&]<class Unit>() {
      return use.template operator()<invariant_writer<Unit>>();
    });
  }
  return with_word(p.element_bytes,
                   [&]<class Word>() { return use.template operator()<sparse_writer<Word>>(); });
}

}  // namespace quipu::detail
