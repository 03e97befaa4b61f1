// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "quipu/lane/group.hpp"
#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/detail/pack_tuning.hpp"
#include "quipu/pack/detail/stage_window.hpp"
#include "quipu/pack/packed_table.hpp"

namespace quipu {

template <class Word>
inline constexpr int elements_of_lane = 16 / static_cast<int>(sizeof(Word));

namespace detail {

/// Records of a packed table as kernels see them; places are counted from `bytes` on, of rows in a
/// stage too. Inside a record 32 bits count everything.
struct device_records {
  const std::byte* bytes;
  std::int64_t first_byte = 0, byte_count;  // records with addresses lie in between
  const std::uint32_t* addresses;
  std::int64_t row_bytes, overflow, all;
  std::int32_t records, elements, last_elements;  // of a row; of a record; of a row's last one
  std::int32_t slot_bytes, record_bytes, granule, element_bytes;
  bool over_link;             // the bytes lie in memory of the host
  std::uint32_t nothing = 0;  // which the compiler does not know

  explicit device_records(const packed_view& v, const stage_window& stage)
      : bytes(v.bytes),
        byte_count(v.byte_count),
        addresses(v.addresses),
        row_bytes(v.how->has_slots() ? slot_bytes_of_row(*v.how) : 0),
        overflow(v.rows * row_bytes),
        slot_bytes(static_cast<std::int32_t>(v.how->slot_bytes)),
        granule(v.how->granule),
        element_bytes(v.how->element_bytes) {
    const record_shape shape(v.how->width);
    records = static_cast<std::int32_t>(shape.records);
    elements = static_cast<std::int32_t>(shape.elements);
    last_elements = records > 0 ? static_cast<std::int32_t>(shape.count(records - 1)) : 0;
    all = v.rows * records;
    record_bytes = elements * element_bytes;
    if (stage.bytes != nullptr) move_to(stage, v.how->has_slots());
    over_link = stage.bytes == nullptr && lies_on_host(v.bytes);
  }
  static bool lies_on_host(const std::byte* bytes) {
    cudaPointerAttributes a{};
    return cudaPointerGetAttributes(&a, bytes) == cudaSuccess && a.type == cudaMemoryTypeHost;
  }
  /// Slots that overflow still speak of the table.
  void move_to(const stage_window& stage, bool has_slots) {
    const auto* there = stage.bytes - stage.first;
    const auto back = has_slots ? bytes - there : 0;
    overflow += back;
    byte_count = has_slots ? byte_count + back : stage.first + stage.size;
    first_byte = stage.first;
    bytes = there;
  }
  /// Nothing, but known only when `loaded` has come: what is computed with it waits for that.
  __device__ std::uint32_t after(std::uint32_t loaded) const { return loaded & nothing; }
  __device__ int count(int part) const { return part + 1 < records ? elements : last_elements; }
  /// Where the bytes of an address lie.
  __device__ std::int64_t place(std::uint32_t address) const {
    return static_cast<std::int64_t>(std::uint64_t{address & ~whole_flag} *
                                     static_cast<std::uint32_t>(granule));
  }
  /// Bytes that a record with an address has at most, as far as that can matter; fewer than none
  /// if it is not here.
  __device__ int room_at(std::int64_t at) const {
    constexpr std::int64_t enough = 1 << 24;
    const auto room = byte_count - at;
    return at < first_byte || room < 0 ? -1 : static_cast<int>(room < enough ? room : enough);
  }
  __device__ const std::byte* slot(std::int64_t row, int part) const {
    return bytes + row * row_bytes + std::int64_t{part} * slot_bytes;
  }
};

__device__ inline std::uint32_t word_at(const std::byte* bytes, std::uint32_t word) {
  return __ldg(reinterpret_cast<const std::uint32_t*>(bytes) + word);
}

/// `count` bits, up to 32, from bit `at` on, and what follows them; `bytes` is a multiple of 4. The
/// word behind is read only if it is wanted.
__device__ inline std::uint32_t bits_at(const std::byte* bytes, std::uint32_t at, int count) {
  const std::uint32_t shift = at % 32;
  const std::uint32_t low = word_at(bytes, at / 32);
  const std::uint32_t high =
      shift + static_cast<unsigned>(count) > 32 ? word_at(bytes, at / 32 + 1) : 0;
  return __funnelshift_r(low, high, shift);
}

/// The bits of `Each` elements from i on, of a map of `count` bits that begins with a byte: a
/// lane's. Elements that are not there have none.
template <int Each>
__device__ inline std::uint32_t map_bits(const std::byte* map, int i, int count) {
  static_assert(Each == 2 || Each == 4 || Each == 8 || Each == 16);
  if (i >= count) return 0;
  std::uint32_t bits = static_cast<std::uint32_t>(map[i / 8]) >> (i % 8);
  if (Each == 16 && i + 8 < count) bits |= static_cast<std::uint32_t>(map[i / 8 + 1]) << 8;
  return bits & ((1u << (count - i < Each ? count - i : Each)) - 1);
}

/// The sum over the lanes before this one, and over all of them.
template <int Lanes>
__device__ inline int sum_before(int n, int lane, int& all) {
  int sum = n;
#pragma unroll
  for (int offset = 1; offset < Lanes; offset *= 2) {
    const int other = __shfl_up_sync(group_mask<Lanes>(), sum, offset, Lanes);
    if (lane >= offset) sum += other;
  }
  all = tell_group<Lanes>(sum, Lanes - 1);
  return sum - n;
}

/// Counts of a batch: `Batch` vectors a lane, of which lane l has vectors l, Lanes + l and so on.
/// They go through one sum: those of 32 lanes fit 32 / Batch bits.
template <int Lanes, int Batch>
class batch_counts {
 public:
  __device__ batch_counts(int lane, const int (&counts)[Batch]) {
    unsigned packed = 0;
#pragma unroll
    for (int b = 0; b < Batch; ++b) packed |= static_cast<unsigned>(counts[b]) << (bits * b);
    before_ = sum_before<Lanes>(static_cast<int>(packed), lane, sums_);
  }
  __device__ bool none() const { return sums_ == 0; }
  /// Of all vectors.
  __device__ int all() const { return of_vectors_before(Batch); }
  /// Of those before the lane's vector b.
  __device__ int before(int b) const { return of_vectors_before(b) + count_of(before_, b); }

 private:
  static constexpr int bits = 32 / Batch;
  __device__ static int count_of(int packed, int b) {
    if constexpr (Batch == 1) return packed;
    return static_cast<int>(static_cast<unsigned>(packed) >> (bits * b) & ((1u << bits % 32) - 1));
  }
  __device__ int of_vectors_before(int vectors) const {
    int sum = 0;
#pragma unroll
    for (int b = 0; b < Batch; ++b) sum += b < vectors ? count_of(sums_, b) : 0;
    return sum;
  }
  int before_, sums_;
};

/// Asks for the bytes of a record in whole lines, a sector a lane, before its parts are read one by
/// one: over a link it is fetches that count. What it returns is to be waited for. Nothing behind
/// `end` is read.
template <int Lanes>
__device__ inline std::uint32_t touch(int lane, const std::byte* from, int bytes,
                                      const std::byte* end) {
  constexpr std::uintptr_t line = link_tuning::line, sector = link_tuning::sector, word = 4;
  const auto first = reinterpret_cast<std::uintptr_t>(from);
  const auto last = reinterpret_cast<std::uintptr_t>(end);
  std::uint32_t seen = 0;
  for (auto at = first / line * line + sector * static_cast<unsigned>(lane);
       at < first + static_cast<unsigned>(bytes); at += sector * Lanes) {
    if (at + sector <= first) continue;
    const auto here = at < first ? first / word * word : at;
    if (here + word <= last) seen ^= __ldg(reinterpret_cast<const std::uint32_t*>(here));
  }
  return seen;
}

/// The same for a record with an address, of rows over a link: it is as long as there is room
/// before the next one, or anything where they are out of order.
template <int Lanes>
__device__ inline std::uint32_t touch_addressed(const device_records& rows, int lane,
                                                std::int64_t record, std::uint32_t address) {
  const auto at = rows.place(address);
  if (!rows.over_link || rows.room_at(at) <= 0) return 0;
  constexpr std::int64_t least = link_tuning::asked_least, enough = link_tuning::asked_most;
  const std::int64_t most = rows.record_bytes < enough ? rows.record_bytes : enough;
  const auto next = record + 1 < rows.all ? __ldg(rows.addresses + record + 1) : address;
  const auto length = rows.place(next) - at;
  const auto bytes = length < least ? least : length < most ? length : most;
  return touch<Lanes>(lane, rows.bytes + at, static_cast<int>(bytes), rows.bytes + rows.byte_count);
}

/// An element at any address.
template <class Word>
__device__ inline Word load_anywhere(const std::byte* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) == 0) {
    return __ldg(reinterpret_cast<const Word*>(from));
  }
  std::uint64_t w = 0;
#pragma unroll
  for (int b = 0; b < static_cast<int>(sizeof(Word)); ++b) {
    w |= static_cast<std::uint64_t>(from[b]) << (8 * b);
  }
  return static_cast<Word>(w);
}

/// The elements of a record that lies as it is.
template <class Word, int Lanes, class Sink>
__device__ inline void read_whole(int lane, const std::byte* from, int count, const Sink& sink) {
  constexpr int each = elements_of_lane<Word>;
  const bool whole_vectors = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  for (int i = lane * each; i < count; i += Lanes * each) {
    const int here = count - i < each ? count - i : each;
    const auto* at = from + i * static_cast<std::int64_t>(sizeof(Word));
    Word elements[each] = {};
    if (whole_vectors && here == each) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(at));
      memcpy(elements, &v, sizeof v);
    } else {
#pragma unroll
      for (int k = 0; k < each; ++k) {
        if (k < here) elements[k] = load_anywhere<Word>(at + k * static_cast<int>(sizeof(Word)));
      }
    }
    sink.put(i, here, elements);
  }
}

}  // namespace detail

/// codec::raw.
template <class Word, int Lanes>
struct raw_reader {
  using residence = detail::reader_residence<codec::raw, elements_of_lane<Word>, Lanes>;
  detail::device_records rows;
  explicit raw_reader(const packed_view& v, const detail::stage_window& stage = {})
      : rows(v, stage) {}

  template <class Sink>
  __device__ bool read(int lane, std::int64_t row, int part, const Sink& sink) const {
    detail::read_whole<Word, Lanes>(lane, rows.slot(row, part), rows.count(part), sink);
    return true;
  }
};

}  // namespace quipu
