// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/sparse_record.hpp"

namespace quipu {

/// codec::sparse. Records begin at a multiple of an element's size up to 4, and so do their parts.
template <class Word, int Lanes>
class sparse_reader {
  static constexpr int each = elements_of_lane<Word>;
  static constexpr int bytes = static_cast<int>(sizeof(Word));
  static constexpr int of_lane = each > 8 ? each : 8;  // elements of a map: whole bytes

 public:
  static constexpr int most_threads = 1024;
  static constexpr int lane_bytes = of_lane * bytes;
  explicit sparse_reader(const packed_view& v, const detail::stage_window& stage = {})
      : rows_(v, stage),
        fill_(static_cast<Word>(v.how->sparse.fill)),
        unit_(static_cast<Word>(v.how->sparse.unit)) {}

  template <class Sink>
  __device__ bool read(int lane, std::int64_t row, std::int64_t part, const Sink& sink) const {
    const auto index = row * rows_.records + part;
    const auto address = __ldg(rows_.addresses + index);
    const auto at = static_cast<std::int64_t>(address & ~detail::whole_flag) * rows_.granule;
    const int count = rows_.count(part);
    const auto room = rows_.room_at(at);
    const auto* record = rows_.bytes + at;
    if ((address & detail::whole_flag) != 0) {
      if (room < std::int64_t{count} * bytes) return false;
      detail::read_whole<Word, Lanes>(lane, record, count, sink);
      return true;
    }
    if (room < 2) return false;
    // Over a link all of it is asked for before the head is waited for.
    const auto touched = detail::touch_addressed<Lanes>(rows_, lane, index, address) & nothing_;
    const auto head = static_cast<int>(load<std::uint16_t>(record) | touched);
    const int stored = head & 0x1fff;
    if ((head >> 13) > static_cast<int>(detail::sparse_form::mapped) || stored > count)
      return false;
    const detail::sparse_parts parts(static_cast<detail::sparse_form>(head >> 13), stored, count,
                                     bytes);
    if (parts.bytes > room) return false;
    if (parts.form == detail::sparse_form::mapped) {
      return read_mapped(lane, record + parts.values, record + parts.places, stored, count, sink);
    }
    sink.fill(lane, Lanes, count, fill_);
    __syncwarp(group_mask<Lanes>());
    bool sound = true;
    Word x = parts.form == detail::sparse_form::same && stored > 0
                 ? load<Word>(record + parts.values)
                 : unit_;
    for (int k = lane; k < stored; k += Lanes) {
      const auto* place = record + parts.places + k * detail::sparse_parts::place_bytes(count);
      const int i =
          count <= 256 ? static_cast<int>(*place) : static_cast<int>(load<std::uint16_t>(place));
      if (parts.form == detail::sparse_form::listed) {
        x = load<Word>(record + parts.values + k * bytes);
      }
      if (i < count) {
        sink.set(i, x);
      } else {
        sound = false;
      }
    }
    return sound;
  }

 private:
  template <class T>
  __device__ static T load(const std::byte* from) {
    if constexpr (bytes == 1) {
      return detail::load_anywhere<T>(from);
    } else if constexpr (sizeof(T) == 8) {
      const auto* half = reinterpret_cast<const std::uint32_t*>(from);
      return static_cast<T>(__ldg(half + 1)) << 32 | __ldg(half);
    } else {
      return __ldg(reinterpret_cast<const T*>(from));
    }
  }

  /// Lanes take bytes of the map side by side and count the bits of the lanes before them.
  template <class Sink>
  __device__ bool read_mapped(int lane, const std::byte* values, const std::byte* map, int stored,
                              int count, const Sink& sink) const {
    int seen = 0;
    bool beyond = false;  // bits behind the last element
    for (int from = 0; from < count; from += Lanes * of_lane) {
      const int i = from + lane * of_lane;
      const int here = count - i < 0 ? 0 : count - i < of_lane ? count - i : of_lane;
      std::uint32_t bits = 0;
      if (here > 0) bits = static_cast<std::uint32_t>(map[i / 8]);
      if (here > 8) bits |= static_cast<std::uint32_t>(map[i / 8 + 1]) << 8;
      beyond = beyond || bits >> here != 0;
      bits &= (1u << here) - 1;
      int all;
      int at = seen + detail::sum_before<Lanes>(__popc(bits), lane, all);
      seen += all;
#pragma unroll
      for (int v = 0; v < of_lane / each; ++v) {
        Word elements[each];
#pragma unroll
        for (int k = 0; k < each; ++k) {
          const bool there = (bits >> (v * each + k) & 1u) != 0 && at < stored;
          elements[k] = there ? load<Word>(values + at * bytes) : fill_;
          at += there ? 1 : 0;
        }
        const int left = here - v * each;
        if (left > 0) sink.put(i + v * each, left < each ? left : each, elements);
      }
    }
    return seen == stored && !beyond;
  }

  detail::device_records rows_;
  Word fill_, unit_;
  std::uint32_t nothing_ = 0;  // which the compiler does not know
};

}  // namespace quipu
