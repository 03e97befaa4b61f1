// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/sparse_record.hpp"

namespace quipu {

/// codec::sparse. Records begin at a multiple of an element's size up to 4, and so do their values.
/// `Batch` vectors a lane are read at a time.
template <class Word, int Lanes, int Batch>
class sparse_reader {
  static constexpr int each = elements_of_lane<Word>;
  static constexpr int bytes = static_cast<int>(sizeof(Word));
  static constexpr int step = Batch * Lanes * each;

 public:
  using residence =
      std::conditional_t<(each > 8), detail::residence<1024, 1>, detail::residence<768, 2>>;
  explicit sparse_reader(const packed_view& v, const detail::stage_window& stage = {})
      : rows_(v, stage),
        fill_(static_cast<Word>(v.how->sparse.fill)),
        unit_(static_cast<Word>(v.how->sparse.unit)) {}

  template <class Sink>
  __device__ bool read(int lane, std::int64_t row, int part, const Sink& sink) const {
    const auto index = row * rows_.records + part;
    const auto address = __ldg(rows_.addresses + index);
    const auto at = rows_.place(address);
    const int count = rows_.count(part);
    const int room = rows_.room_at(at);
    const auto* record = rows_.bytes + at;
    if ((address & detail::whole_flag) != 0) {
      if (room < count * bytes) return false;
      detail::read_whole<Word, Lanes>(lane, record, count, sink);
      return true;
    }
    if (room < detail::sparse_parts::head_bytes) return false;
    // Over a link all of it is asked for before the head is waited for.
    const auto touched = rows_.after(detail::touch_addressed<Lanes>(rows_, lane, index, address));
    // Most heads are followed by a map. Its bits are read while it is not yet known whether it is
    // one; what they are then does not matter.
    const auto* map = record + detail::sparse_parts::head_bytes;
    const bool has_map = room >= detail::sparse_parts::head_bytes + (count + 7) / 8;
    const auto bits = load_map(lane, map, 0, has_map ? count : 0);
    const auto parts =
        detail::sparse_parts::of_head(load<std::uint16_t>(record) | touched, count, bytes);
    if (!parts.fit(room)) return false;
    return parts.form == detail::sparse_form::mapped
               ? read_mapped(lane, record + parts.values, map, bits, parts.stored, count, sink)
               : read_places(lane, record, parts, count, sink);
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

  /// Places ascend.
  template <class Sink>
  __device__ bool read_places(int lane, const std::byte* record, const detail::sparse_parts& parts,
                              int count, const Sink& sink) const {
    sink.fill(lane, Lanes, count, fill_);
    __syncwarp(group_mask<Lanes>());
    bool sound = true;
    Word x = parts.form == detail::sparse_form::same && parts.stored > 0
                 ? load<Word>(record + parts.values)
                 : unit_;
    const auto place = [&](int k) {
      const auto* from = record + parts.places + k * detail::sparse_parts::place_bytes(count);
      return count <= 256 ? static_cast<int>(*from) : static_cast<int>(load<std::uint16_t>(from));
    };
#pragma unroll 1
    for (int k = lane; k < parts.stored; k += Lanes) {
      const int i = place(k);
      if (parts.form == detail::sparse_form::listed) {
        x = load<Word>(record + parts.values + k * bytes);
      }
      if (i < count && (k == 0 || place(k - 1) < i)) {
        sink.set(i, x);
      } else {
        sound = false;
      }
    }
    return sound;
  }

  /// Bits of a batch's elements.
  struct batch_bits {
    std::uint32_t of[Batch];
  };
  __device__ static batch_bits load_map(int lane, const std::byte* map, int from, int count) {
    batch_bits bits;
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      bits.of[b] = detail::map_bits<each>(map, from + (b * Lanes + lane) * each, count);
    }
    return bits;
  }

  /// `bits` are those of the first batch.
  template <class Sink>
  __device__ bool read_mapped(int lane, const std::byte* values, const std::byte* map,
                              batch_bits bits, int stored, int count, const Sink& sink) const {
    int seen = 0;
    for (int from = 0; from < count; from += step) {
      if (from > 0) bits = load_map(lane, map, from, count);
      int counts[Batch];
#pragma unroll
      for (int b = 0; b < Batch; ++b) counts[b] = __popc(bits.of[b]);
      const detail::batch_counts<Lanes, Batch> at(lane, counts);
      if (seen + at.all() > stored) return false;
      Word elements[Batch][each];
#pragma unroll
      for (int b = 0; b < Batch; ++b) {
        const auto* value = values + (seen + at.before(b)) * bytes;
#pragma unroll
        for (int k = 0; k < each; ++k) {
          elements[b][k] = fill_;
          if ((bits.of[b] >> k & 1u) == 0) continue;
          elements[b][k] = load<Word>(value);
          value += bytes;
        }
      }
#pragma unroll
      for (int b = 0; b < Batch; ++b) {
        const int i = from + (b * Lanes + lane) * each;
        if (i < count) sink.put(i, count - i < each ? count - i : each, elements[b]);
      }
      seen += at.all();
      if (Lanes < 32) break;
    }
    // Nor has the map bits behind the last element.
    return seen == stored &&
           (count % 8 == 0 || static_cast<unsigned>(map[count / 8]) >> (count % 8) == 0);
  }

  detail::device_records rows_;
  Word fill_, unit_;
};

}  // namespace quipu
