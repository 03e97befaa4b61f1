// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/packing.hpp"

namespace quipu::detail {

/// How a sparse record says which elements are not the usual one and what they are.
enum class sparse_form : std::uint8_t {
  units,   ///< places; all are the packing's `unit`
  same,    ///< one value, places
  listed,  ///< values, places
  mapped,  ///< values, and a bit for every element
};

/// Where the parts of a sparse record lie: two bytes with the form in the upper 3 bits and how many
/// elements are stored in the lower 13; values, at a multiple of their size up to 4; then places,
/// a byte each in records of up to 256 elements and two in longer ones, or the map.
struct sparse_parts {
  sparse_form form;
  std::int64_t values, places, bytes;

  QUIPU_HD constexpr sparse_parts(sparse_form f, std::int64_t stored, std::int64_t count,
                                  std::int64_t element_bytes) noexcept
      : form(f),
        values(element_bytes < 2   ? 2
               : element_bytes < 4 ? element_bytes
                                   : 4) {
    const std::int64_t kept = f == sparse_form::units ? 0 : f == sparse_form::same ? 1 : stored;
    places = kept == 0 ? 2 : values + kept * element_bytes;
    bytes =
        places + (f == sparse_form::mapped ? bytes_of_bits(count) : stored * place_bytes(count));
  }
  QUIPU_HD static constexpr std::int64_t place_bytes(std::int64_t count) noexcept {
    return count <= 256 ? 1 : 2;
  }
};

template <class Word>
class sparse_coder {
 public:
  static constexpr auto word_bytes = static_cast<std::int64_t>(sizeof(Word));
  explicit sparse_coder(const packing& p) noexcept
      : fill_(static_cast<Word>(p.sparse.fill)), unit_(static_cast<Word>(p.sparse.unit)) {}

  /// Bytes of a record; -1 if that is no less than its elements.
  std::int64_t size(const std::byte* elements, std::int64_t, std::int64_t count) const noexcept {
    const auto bytes = choose(elements, count).parts.bytes;
    return bytes < count * word_bytes ? bytes : -1;
  }

  /// Writes a record, as many bytes as `size` says.
  void encode(const std::byte* elements, std::int64_t, std::int64_t count,
              std::byte* record) const noexcept {
    const auto [parts, stored] = choose(elements, count);
    std::memset(record, 0, static_cast<std::size_t>(parts.bytes));
    store_word(record, static_cast<std::uint16_t>(static_cast<unsigned>(parts.form) << 13 |
                                                  static_cast<unsigned>(stored)));
    std::byte* value = record + parts.values;
    std::byte* place = record + parts.places;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = load_word<Word>(elements + i * word_bytes);
      if (x == fill_) continue;
      if (parts.form != sparse_form::units) store_word(value, x);
      if (parts.form != sparse_form::same) value += word_bytes;
      if (parts.form == sparse_form::mapped) {
        place[i / 8] |= std::byte{1} << (i % 8);
      } else if (count <= 256) {
        *place++ = static_cast<std::byte>(i);
      } else {
        store_word(place, static_cast<std::uint16_t>(i));
        place += 2;
      }
    }
  }

  /// Reads a record of at most `room` bytes. False if it is longer or speaks of elements that the
  /// row has not.
  bool decode(const std::byte* record, std::int64_t room, std::int64_t, std::int64_t count,
              std::byte* elements) const noexcept {
    if (room < 2) return false;
    const auto head = load_word<std::uint16_t>(record);
    const std::int64_t stored = head & 0x1fff;
    if ((head >> 13) > static_cast<int>(sparse_form::mapped) || stored > count) return false;
    const sparse_parts parts(static_cast<sparse_form>(head >> 13), stored, count, word_bytes);
    if (parts.bytes > room) return false;
    const std::byte* value = record + parts.values;
    const std::byte* place = record + parts.places;
    for (std::int64_t i = 0; i < count; ++i) store_word(elements + i * word_bytes, fill_);
    if (parts.form == sparse_form::mapped)
      return fill_mapped(value, place, stored, count, elements);
    Word x = parts.form == sparse_form::units ? unit_ : stored > 0 ? load_word<Word>(value) : fill_;
    for (std::int64_t k = 0; k < stored; ++k) {
      const std::int64_t i = count <= 256 ? static_cast<std::int64_t>(place[k])
                                          : load_word<std::uint16_t>(place + 2 * k);
      if (i >= count) return false;
      if (parts.form == sparse_form::listed) x = load_word<Word>(value + k * word_bytes);
      store_word(elements + i * word_bytes, x);
    }
    return true;
  }

 private:
  struct chosen {
    sparse_parts parts;
    std::int64_t stored;
  };
  /// The shortest form; of equals the first.
  chosen choose(const std::byte* elements, std::int64_t count) const noexcept {
    std::int64_t stored = 0;
    bool are_units = true, are_same = true;
    Word first{};
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = load_word<Word>(elements + i * word_bytes);
      if (x == fill_) continue;
      if (stored++ == 0) first = x;
      are_units = are_units && x == unit_;
      are_same = are_same && x == first;
    }
    chosen best{sparse_parts(sparse_form::mapped, stored, count, word_bytes), stored};
    const auto consider = [&](sparse_form form) {
      const sparse_parts parts(form, stored, count, word_bytes);
      if (parts.bytes < best.parts.bytes) best = {parts, stored};
    };
    consider(sparse_form::listed);
    if (are_same) consider(sparse_form::same);
    if (are_units) consider(sparse_form::units);
    return best;
  }

  static bool fill_mapped(const std::byte* value, const std::byte* map, std::int64_t stored,
                          std::int64_t count, std::byte* elements) noexcept {
    std::int64_t k = 0;
    for (std::int64_t from = 0; from < count; from += 8) {
      for (auto bits = static_cast<unsigned>(map[from / 8]); bits != 0; bits &= bits - 1) {
        const std::int64_t i = from + std::countr_zero(bits);
        if (i >= count || k == stored) return false;
        std::memcpy(elements + i * word_bytes, value + k++ * word_bytes, sizeof(Word));
      }
    }
    return k == stored;
  }

  Word fill_, unit_;
};

}  // namespace quipu::detail
