// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/pack/detail/device_columns.hpp"
#include "quipu/pack/detail/device_records.cuh"

namespace quipu {

/// codec::invariant. `Word` is the unit, which is one element or several; a lane takes a few side
/// by side, so that their columns come in vectors and their places in the row by one sum over
/// lanes.
template <class Word, int Lanes>
class invariant_reader {
  static constexpr int unit_bytes = static_cast<int>(sizeof(Word));
  static constexpr int unit_bits = 8 * unit_bytes;
  static constexpr int each = detail::invariant_columns::units_of_lane(unit_bytes);

 public:
  static constexpr int most_threads = unit_bytes == 1 ? 256 : 768;
  static constexpr int lane_bytes = each * unit_bytes;
  explicit invariant_reader(const packed_view& v, const detail::stage_window& stage = {})
      : rows_(v, stage),
        columns_(v.columns),
        at_(v.how->invariant.clusters, v.how->width * v.how->element_bytes, unit_bytes,
            detail::most_runs(*v.how)),
        clusters_(v.how->invariant.clusters) {}

  template <class Sink>
  __device__ bool read(int lane, std::int64_t row, std::int64_t part, const Sink& sink) const {
    const auto index = row * rows_.records + part;
    const auto address = __ldg(rows_.addresses + index);
    const auto at = static_cast<std::int64_t>(address & ~detail::whole_flag) * rows_.granule;
    const int bytes = rows_.count(part) * rows_.element_bytes;
    const auto room = rows_.room_at(at);
    if ((address & detail::whole_flag) != 0) {
      if (room < bytes) return false;
      return read_bytes(lane, rows_.bytes + at, bytes, sink);
    }
    const int units = static_cast<int>(static_cast<unsigned>(bytes + unit_bytes - 1) / unit_bytes);
    const int head = clusters_ > 1 ? 1 : 0;
    const int map_bytes = (units + 7) >> 3;
    if (room < head + map_bytes) return false;
    // Over a link all of it is asked for before the first part is waited for.
    const auto touched = detail::touch_addressed<Lanes>(rows_, lane, index, address) & nothing_;
    const int cluster = head > 0 ? static_cast<int>(rows_.bytes[at]) : 0;
    if (cluster >= clusters_) return false;
    const auto column = cluster * at_.units + part * (rows_.record_bytes / unit_bytes);
    // Bits are counted from the word in which the record begins; a record has fewer than 2^31.
    const auto* words = rows_.bytes + at / 4 * 4;
    const auto to_end = rows_.byte_count - at / 4 * 4;
    const auto end = static_cast<std::uint32_t>(8 * (to_end < (1 << 24) ? to_end : 1 << 24));
    const auto map = static_cast<std::uint32_t>(8 * (at % 4 + head));
    std::uint32_t bit = map + static_cast<std::uint32_t>(8 * map_bytes) + touched;
    bool sound = true;
    for (int from = 0; from < units; from += Lanes * each) {
      const int u = from + lane * each;
      const int here = units - u < 0 ? 0 : units - u < each ? units - u : each;
      bit += read_units(lane, words, map, column + u, u, here, bit, end, bytes, sound, sink);
    }
    return sound;
  }

 private:
  /// Reads the units of all lanes; returns how many bits they take.
  template <class Sink>
  __device__ std::uint32_t read_units(int lane, const std::byte* words, std::uint32_t map,
                                      std::int64_t column, int u, int here, std::uint32_t bit,
                                      std::uint32_t end, int bytes, bool& sound,
                                      const Sink& sink) const {
    std::uint32_t takes_part = 0;
    std::uint8_t kept[each] = {};
    int mine = 0;
    if (here > 0) {
      takes_part = detail::bits_at(words, map + static_cast<std::uint32_t>(u), here);
      load_columns(kept, at_.kept(), column);
#pragma unroll
      for (int k = 0; k < each; ++k) {
        kept[k] = k >= here ? 0 : (takes_part >> k & 1u) != 0 ? kept[k] : unit_bits;
        mine += kept[k];
      }
    }
    int all;
    std::uint32_t from =
        bit + static_cast<std::uint32_t>(detail::sum_before<Lanes>(mine, lane, all));
    if (from + static_cast<std::uint32_t>(mine) > end) {
      sound = false;
    } else if (here > 0) {
      Word x[each];
#pragma unroll
      for (int k = 0; k < each; ++k) {
        x[k] = load_bits(words, from, kept[k]);
        from += kept[k];
      }
      deposit(column, takes_part, x);
      sink.put_units(u, here, bytes, x);
    }
    return static_cast<std::uint32_t>(all);
  }

  template <class Sink>
  __device__ bool read_bytes(int lane, const std::byte* from, int bytes, const Sink& sink) const {
    for (int u = lane; u * unit_bytes < bytes; u += Lanes) {
      std::uint64_t x = 0;
      for (int b = 0; b < unit_bytes && u * unit_bytes + b < bytes; ++b) {
        x |= static_cast<std::uint64_t>(from[u * unit_bytes + b]) << (8 * b);
      }
      sink.put_unit(u, bytes, static_cast<Word>(x));
    }
    return true;
  }

  __device__ static Word load_bits(const std::byte* words, std::uint32_t at, int count) {
    if (count == 0) return 0;
    const std::uint32_t shift = at % 32, need = shift + static_cast<unsigned>(count);
    const std::uint32_t a = detail::word_at(words, at / 32);
    const std::uint32_t b = need > 32 ? detail::word_at(words, at / 32 + 1) : 0;
    std::uint32_t low = __funnelshift_r(a, b, shift);
    if constexpr (unit_bits <= 32) {
      return static_cast<Word>(count < 32 ? low & ((1u << count) - 1) : low);
    } else {
      const std::uint32_t c = need > 64 ? detail::word_at(words, at / 32 + 2) : 0;
      const auto x = static_cast<std::uint64_t>(__funnelshift_r(b, c, shift)) << 32 | low;
      return count < 64 ? x & ((std::uint64_t{1} << count) - 1) : x;
    }
  }

  /// A lane's entries of one of the arrays of columns.
  template <class T>
  __device__ void load_columns(T (&to)[each], std::int64_t array, std::int64_t column) const {
    constexpr int bytes = each * static_cast<int>(sizeof(T));
    const auto* from = columns_ + array + column * static_cast<std::int64_t>(sizeof(T));
    if constexpr (bytes % 16 == 0) {
#pragma unroll
      for (int k = 0; k < bytes / 16; ++k) {
        const uint4 v = __ldg(reinterpret_cast<const uint4*>(from) + k);
        memcpy(reinterpret_cast<char*>(to) + 16 * k, &v, 16);
      }
    } else if constexpr (bytes == 8) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(from));
      memcpy(to, &v, 8);
    } else {
      static_assert(bytes == 4);
      const auto v = __ldg(reinterpret_cast<const unsigned*>(from));
      memcpy(to, &v, 4);
    }
  }

  /// Spreads the bits of the units that take part over what lies outside the mask.
  __device__ void deposit(std::int64_t column, std::uint32_t takes_part, Word (&x)[each]) const {
    Word made[each];
    load_columns(made, at_.value(), column);
    for (int run = 0; run < at_.runs; ++run) {
      Word mask[each];
      std::uint8_t gap[each];
      load_columns(mask, at_.mask(run), column);
      load_columns(gap, at_.gap(run), column);
#pragma unroll
      for (int k = 0; k < each; ++k) {
        made[k] = static_cast<Word>(made[k] | (static_cast<Word>(x[k] << gap[k]) & mask[k]));
      }
    }
#pragma unroll
    for (int k = 0; k < each; ++k) x[k] = (takes_part >> k & 1u) != 0 ? made[k] : x[k];
  }

  detail::device_records rows_;
  const std::byte* columns_;
  detail::invariant_columns at_;
  int clusters_;
  std::uint32_t nothing_ = 0;  // which the compiler does not know
};

}  // namespace quipu
