// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "pack/with_word.hpp"
#include "quipu/pack/detail/exponent_record.hpp"
#include "quipu/pack/detail/invariant_record.hpp"
#include "quipu/pack/detail/sparse_record.hpp"
#include "quipu/pack/packed_table.hpp"

namespace quipu::detail {

/// The elements as they are.
class raw_coder {
 public:
  explicit raw_coder(const packing& p) noexcept : element_bytes_(p.element_bytes) {}
  std::int64_t size(const std::byte*, std::int64_t, std::int64_t count) const noexcept {
    return count * element_bytes_;
  }
  bool encode(const std::byte* elements, std::int64_t, std::int64_t count,
              std::byte* slot) const noexcept {
    std::memcpy(slot, elements, static_cast<std::size_t>(count * element_bytes_));
    return true;
  }
  bool decode(const std::byte* slot, std::int64_t, std::int64_t count,
              std::byte* elements) const noexcept {
    std::memcpy(elements, slot, static_cast<std::size_t>(count * element_bytes_));
    return true;
  }

 private:
  std::int64_t element_bytes_;
};

/// Calls use(coder) with what packs and unpacks records of this packing, which is sound.
template <class Use>
auto with_coder(const packing& p, Use&& use) {
  switch (p.how) {
    case codec::exponent:
      if (p.element_bytes == 2) return use(exponent_coder<std::uint16_t>(p));
      return use(exponent_coder<std::uint32_t>(p));
    case codec::invariant:
      return with_word(p.invariant.unit_bytes,
                       [&]<class Unit>() { return use(invariant_coder<Unit>(p)); });
    case codec::sparse:
      return with_word(p.element_bytes, [&]<class Word>() { return use(sparse_coder<Word>(p)); });
    default:
      return use(raw_coder(p));
  }
}

/// Where records lie.
class record_places {
 public:
  explicit record_places(const packed_view& v) noexcept
      : view_(v),
        shape_(v.how->width),
        record_bytes_(shape_.elements * v.how->element_bytes),
        row_bytes_(v.how->has_slots() ? slot_bytes_of_row(*v.how) : 0),
        overflow_(v.how->has_slots() ? v.rows * row_bytes_ : 0) {}

  const record_shape& shape() const noexcept { return shape_; }
  std::int64_t record_bytes() const noexcept { return record_bytes_; }
  /// Bytes of a record's elements: fewer in the last one of a row.
  std::int64_t bytes_of(std::int64_t part) const noexcept {
    return shape_.count(part) * view_.how->element_bytes;
  }
  /// Where the overflow area begins.
  std::int64_t overflow() const noexcept { return overflow_; }

  std::byte* slot(std::int64_t record) const noexcept {
    const auto row = shape_.records == 1 ? record : record / shape_.records;
    const auto part = shape_.records == 1 ? 0 : record % shape_.records;
    return view_.bytes + row * row_bytes_ + part * view_.how->slot_bytes;
  }
  bool overflows(std::int64_t record) const noexcept {
    return view_.how->how == codec::exponent &&
           slot(record)[view_.how->slot_bytes - 1] == overflow_tag;
  }
  /// The record of the overflow area that a slot speaks of, `bytes` long; null if there is none.
  std::byte* overflowed(std::int64_t record, std::int64_t bytes) const noexcept {
    const auto at = overflow_ + load_word<std::uint32_t>(slot(record)) * record_bytes_;
    return at + bytes <= view_.byte_count ? view_.bytes + at : nullptr;
  }
  void point_to_overflow(std::int64_t record, std::int64_t number) const noexcept {
    auto* to = slot(record);
    std::memset(to, 0, static_cast<std::size_t>(view_.how->slot_bytes));
    store_word(to, static_cast<std::uint32_t>(number));
    to[view_.how->slot_bytes - 1] = overflow_tag;
  }
  std::int64_t address(std::int64_t record) const noexcept {
    return static_cast<std::int64_t>(view_.addresses[record] & ~whole_flag) * view_.how->granule;
  }
  /// Whether a record with an address lies there as it is.
  bool is_whole(std::int64_t record) const noexcept {
    return (view_.addresses[record] & whole_flag) != 0;
  }

  /// Reads a record; false if it is malformed.
  template <class Coder>
  bool read(const Coder& coder, std::int64_t row, std::int64_t part, std::byte* elements) const {
    const auto record = row * shape_.records + part;
    const auto column = shape_.begin(part), count = shape_.count(part);
    if constexpr (requires { coder.decode(elements, column, count, elements); }) {
      if (!overflows(record)) return coder.decode(slot(record), column, count, elements);
      const auto bytes = count * view_.how->element_bytes;
      const auto* from = overflowed(record, bytes);
      if (from == nullptr) return false;
      std::memcpy(elements, from, static_cast<std::size_t>(bytes));
      return true;
    } else {
      const auto at = address(record);
      const auto room = view_.byte_count - at;
      if (!is_whole(record)) {
        return room > 0 && coder.decode(view_.bytes + at, room, column, count, elements);
      }
      const auto bytes = count * view_.how->element_bytes;
      if (room < bytes) return false;
      std::memcpy(elements, view_.bytes + at, static_cast<std::size_t>(bytes));
      return true;
    }
  }

 private:
  packed_view view_;
  record_shape shape_;
  std::int64_t record_bytes_, row_bytes_, overflow_;
};

template <class Coder>
inline constexpr bool uses_slots = requires(const Coder c, std::byte* b) {
  c.decode(b, 0, 0, b);
};

}  // namespace quipu::detail
