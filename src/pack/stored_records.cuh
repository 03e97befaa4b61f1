// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/record_writers.cuh"

/// Records that are there, and what spare room others in their stead take. A warp asks for a
/// record; all lanes get the answer. Nothing outside the packed bytes is read.
namespace quipu::detail {

/// Records in slots. `stored` is the size of the new one, with whole_flag if it does not fit.
class stored_slots {
 public:
  explicit stored_slots(const packed_view& v) : rows_(v, {}) {}

  __device__ std::uint32_t room_for(int, std::int64_t row, int part, std::uint32_t stored) const {
    if ((stored & whole_flag) == 0 || has_overflow(row, part)) return 0;
    return static_cast<std::uint32_t>(rows_.record_bytes);
  }

 private:
  /// Whether a record has a place in the overflow area.
  __device__ bool has_overflow(std::int64_t row, int part) const {
    const auto* slot = rows_.slot(row, part);
    if (slot[rows_.slot_bytes - 1] != overflow_tag) return false;
    const auto at = rows_.overflow + std::int64_t{word_at(slot, 0)} * rows_.record_bytes;
    return at + rows_.record_bytes <= rows_.byte_count;
  }

  device_records rows_;
};

/// Bytes of a sparse record of at most `room`; 0 if it is malformed.
template <class Word>
struct sparse_size {
  explicit sparse_size(const packed_view&) {}

  __device__ int operator()(int lane, const std::byte* record, std::int64_t room, std::int64_t,
                            int count) const {
    if (room < 2) return 0;
    const auto head = static_cast<unsigned>(record[0]) | static_cast<unsigned>(record[1]) << 8;
    const auto parts = sparse_parts::of_head(head, count, static_cast<std::int64_t>(sizeof(Word)));
    if (!parts.fit(room)) return 0;
    const bool sound = parts.form == sparse_form::mapped
                           ? maps(lane, record + parts.places, parts.stored, count)
                           : places_ascend(lane, record + parts.places, parts.stored, count);
    return sound ? static_cast<int>(parts.bytes) : 0;
  }

 private:
  /// Whether a map has as many elements as are stored, and none that the record has not.
  __device__ static bool maps(int lane, const std::byte* map, int stored, int count) {
    int seen = 0;
    bool beyond = false;
    for (int from = 8 * lane; from < count; from += 8 * warp_lanes) {
      const auto bits = static_cast<unsigned>(map[from / 8]);
      seen += __popc(bits);
      beyond = beyond || (count - from < 8 && bits >> (count - from) != 0);
    }
    return !any_of_group<warp_lanes>(beyond) && sum_group<warp_lanes>(seen) == stored;
  }
  __device__ static bool places_ascend(int lane, const std::byte* places, int stored, int count) {
    const auto place = [&](int k) {
      return count <= 256 ? static_cast<int>(places[k])
                          : static_cast<int>(load_anywhere<std::uint16_t>(places + 2 * k));
    };
    bool wrong = false;
    for (int k = lane; k < stored; k += warp_lanes) {
      const int i = place(k);
      wrong = wrong || i >= count || (k > 0 && place(k - 1) >= i);
    }
    return !any_of_group<warp_lanes>(wrong);
  }
};

/// Bytes of an invariant record by its map, of which there is to be `room`; 0 if it is malformed.
template <class Unit>
struct invariant_size {
  explicit invariant_size(const packed_view& v)
      : columns_(v.columns),
        at_(v.how->invariant.clusters, v.how->width * v.how->element_bytes, unit_bytes),
        clusters_(v.how->invariant.clusters),
        element_bytes_(v.how->element_bytes) {}

  __device__ int operator()(int lane, const std::byte* record, std::int64_t room,
                            std::int64_t column, int count) const {
    const int units = (count * element_bytes_ + unit_bytes - 1) / unit_bytes;
    const int head = clusters_ > 1 ? 1 : 0, map_bytes = (units + 7) / 8;
    if (room < head + map_bytes) return 0;
    const int cluster = head > 0 ? static_cast<int>(*record) : 0;
    if (cluster >= clusters_) return 0;
    const auto* kept =
        columns_ + at_.kept() + cluster * at_.units + column * element_bytes_ / unit_bytes;
    int bits = 0;
    for (int u = lane; u < units; u += warp_lanes) {
      const bool takes_part = (static_cast<unsigned>(record[head + u / 8]) >> (u % 8) & 1u) != 0;
      bits += takes_part ? static_cast<int>(kept[u]) : 8 * unit_bytes;
    }
    return head + map_bytes + (sum_group<warp_lanes>(bits) + 7) / 8;
  }

 private:
  static constexpr int unit_bytes = static_cast<int>(sizeof(Unit));
  const std::byte* columns_;
  invariant_columns at_;
  int clusters_, element_bytes_;
};

/// Records with addresses.
template <class Size>
class stored_with_addresses {
 public:
  explicit stored_with_addresses(const packed_view& v) : rows_(v, {}), size_(v) {}

  __device__ std::uint32_t room_for(int lane, std::int64_t row, int part,
                                    std::uint32_t stored) const {
    const auto wanted = round_up(static_cast<std::int64_t>(stored & ~whole_flag), rows_.granule);
    return wanted <= place_bytes(lane, row, part) ? 0u : static_cast<std::uint32_t>(wanted);
  }

 private:
  /// What the granules of a record hold; 0 if it is malformed.
  __device__ std::int64_t place_bytes(int lane, std::int64_t row, int part) const {
    const auto address = __ldg(rows_.addresses + row * rows_.records + part);
    const auto at = rows_.place(address);
    const int room = rows_.room_at(at);
    const int count = rows_.count(part);
    const int bytes =
        (address & whole_flag) != 0
            ? count * rows_.element_bytes
            : size_(lane, rows_.bytes + at, room, std::int64_t{part} * rows_.elements, count);
    const auto whole = round_up(bytes, rows_.granule);
    return room >= 0 && at + whole <= rows_.byte_count ? whole : 0;
  }

  device_records rows_;
  Size size_;
};

/// By what writes them.
template <class Writer>
struct stored_by {
  static_assert(Writer::in_slots);
  using type = stored_slots;
};
template <class Word>
struct stored_by<sparse_writer<Word>> {
  using type = stored_with_addresses<sparse_size<Word>>;
};
template <class Unit>
struct stored_by<invariant_writer<Unit>> {
  using type = stored_with_addresses<invariant_size<Unit>>;
};
template <class Writer>
using stored_records = typename stored_by<Writer>::type;

}  // namespace quipu::detail
