// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/packing.hpp"

namespace quipu::detail {

/// How a sparse record says which elements are not the usual one and what they are.
enum class sparse_form : std::uint8_t {
  units,   ///< places; all are the packing's `unit`
  same,    ///< one value, places
  listed,  ///< values, places
  mapped,  ///< a bit for every element, values
};

/// Where the parts of a sparse record lie: two bytes with the form in the upper 3 bits and how many
/// elements are stored in the lower 13; values, at a multiple of their size up to 4; then places,
/// a byte each in records of up to 256 elements and two in longer ones. A map lies before the
/// values, right behind the head: whoever reads the one can read the other meanwhile.
struct sparse_parts {
  sparse_form form;
  std::int32_t stored, values, places, bytes;
  bool is_sound = true;  // whether records begin so

  QUIPU_HD constexpr sparse_parts(sparse_form f, std::int64_t n, std::int64_t count,
                                  std::int64_t element_bytes) noexcept
      : form(f), stored(static_cast<std::int32_t>(n)) {
    const auto size = static_cast<std::int32_t>(element_bytes), align = size < 4 ? size : 4;
    const auto all = static_cast<std::int32_t>(count);
    if (f == sparse_form::mapped) {
      places = head_bytes;
      values = (places + (all + 7) / 8 + align - 1) & -align;
      bytes = values + stored * size;
    } else {
      values = align < head_bytes ? head_bytes : align;
      const auto kept = f == sparse_form::units ? 0 : f == sparse_form::same ? 1 : stored;
      places = kept == 0 ? head_bytes : values + kept * size;
      bytes = places + stored * static_cast<std::int32_t>(place_bytes(count));
    }
  }
  static constexpr std::int32_t head_bytes = 2;

  /// Of a record that begins with `head`.
  QUIPU_HD static constexpr sparse_parts of_head(unsigned head, std::int64_t count,
                                                 std::int64_t element_bytes) noexcept {
    const unsigned form = head >> 13;
    const auto n = static_cast<std::int64_t>(head & 0x1fff);
    sparse_parts parts(static_cast<sparse_form>(form), n, count, element_bytes);
    parts.is_sound = form <= static_cast<unsigned>(sparse_form::mapped) && n <= count;
    return parts;
  }
  QUIPU_HD constexpr unsigned head() const noexcept {
    return static_cast<unsigned>(form) << 13 | static_cast<unsigned>(stored);
  }
  QUIPU_HD constexpr bool fit(std::int64_t room) const noexcept {
    return is_sound && bytes <= room;
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
    const auto [parts, first] = choose(elements, count);
    std::memset(record, 0, static_cast<std::size_t>(parts.bytes));
    store_word(record, static_cast<std::uint16_t>(parts.head()));
    std::byte* value = record + parts.values;
    std::byte* place = record + parts.places;
    Word values[block + 1];
    for (std::int64_t from = 0; from < count; from += block) {
      const auto n = std::min(block, count - from);
      const auto* x = elements + from * word_bytes;
      const auto map = map_of(x, n);
      if (parts.form == sparse_form::mapped) {
        std::memcpy(place, &map, static_cast<std::size_t>(bytes_of_bits(n)));
        place += bytes_of_bits(n);
      } else {
        place = put_places(map, from, count, place);
      }
      if (parts.form != sparse_form::mapped && parts.form != sparse_form::listed) continue;
      const auto bytes = static_cast<std::size_t>(gather(x, map, n, values) * word_bytes);
      std::memcpy(value, values, bytes);
      value += bytes;
    }
    if (parts.form == sparse_form::same) store_word(value, first);
  }

  /// Reads a record of at most `room` bytes. False if it is longer, speaks of elements that the row
  /// has not, or lists places that do not ascend.
  bool decode(const std::byte* record, std::int64_t room, std::int64_t, std::int64_t count,
              std::byte* elements) const noexcept {
    if (room < 2) return false;
    const auto parts = sparse_parts::of_head(load_word<std::uint16_t>(record), count, word_bytes);
    if (!parts.fit(room)) return false;
    const std::int64_t stored = parts.stored;
    const std::byte* value = record + parts.values;
    const std::byte* place = record + parts.places;
    if (parts.form == sparse_form::mapped)
      return read_mapped(value, place, stored, count, elements);
    const auto fill = fill_;  // a byte that is stored may be a member's, for all compilers know
    for (std::int64_t i = 0; i < count; ++i) store_word(elements + i * word_bytes, fill);
    Word x = parts.form == sparse_form::units ? unit_ : stored > 0 ? load_word<Word>(value) : fill_;
    std::int64_t before = -1;
    bool ascends = true;
    for (std::int64_t k = 0; k < stored; ++k) {
      const auto i = place_at(place, k, count);
      if (i >= count) return false;
      ascends &= i > before;
      before = i;
      if (parts.form == sparse_form::listed) x = load_word<Word>(value + k * word_bytes);
      store_word(elements + i * word_bytes, x);
    }
    return ascends;
  }

  /// Bytes of a record of at most `room`; 0 if it is malformed.
  std::int64_t stored_bytes(const std::byte* record, std::int64_t room, std::int64_t,
                            std::int64_t count) const noexcept {
    if (room < 2) return 0;
    const auto parts = sparse_parts::of_head(load_word<std::uint16_t>(record), count, word_bytes);
    if (!parts.fit(room)) return 0;
    const std::byte* place = record + parts.places;
    if (parts.form == sparse_form::mapped) {
      std::int64_t mapped = 0;
      for (std::int64_t from = 0; from < count; from += 8) {
        const auto bits = static_cast<unsigned>(place[from / 8]);
        if (count - from < 8 && bits >> (count - from) != 0) return 0;
        mapped += std::popcount(bits);
      }
      return mapped == parts.stored ? parts.bytes : 0;
    }
    std::int64_t before = -1;
    for (std::int64_t k = 0; k < parts.stored; ++k) {
      const auto i = place_at(place, k, count);
      if (i <= before || i >= count) return 0;
      before = i;
    }
    return parts.bytes;
  }

 private:
  static constexpr std::int64_t block = 64;  // elements: a bit of a map each

  static std::int64_t place_at(const std::byte* places, std::int64_t k,
                               std::int64_t count) noexcept {
    return count <= 256 ? static_cast<std::int64_t>(places[k])
                        : load_word<std::uint16_t>(places + 2 * k);
  }

  struct chosen {
    sparse_parts parts;
    Word first;  // of those stored
  };
  /// The shortest form; of equals the first.
  chosen choose(const std::byte* elements, std::int64_t count) const noexcept {
    std::int64_t stored = 0;
    Word not_unit = 0, not_first = 0, first{};
    for (std::int64_t from = 0; from < count; from += block) {
      const auto n = std::min(block, count - from);
      const auto* block_at = elements + from * word_bytes;
      const auto here = count_stored(block_at, n);
      if (here == 0) continue;
      if (stored == 0) first = first_stored(block_at);
      stored += here;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto x = load_word<Word>(block_at + i * word_bytes);
        const auto all = static_cast<Word>(-static_cast<Word>(x != fill_));
        not_unit = static_cast<Word>(not_unit | (all & (x ^ unit_)));
        not_first = static_cast<Word>(not_first | (all & (x ^ first)));
      }
    }
    chosen best{sparse_parts(sparse_form::mapped, stored, count, word_bytes), first};
    const auto consider = [&](sparse_form form) {
      const sparse_parts parts(form, stored, count, word_bytes);
      if (parts.bytes < best.parts.bytes) best.parts = parts;
    };
    consider(sparse_form::listed);
    if (not_first == 0) consider(sparse_form::same);
    if (not_unit == 0) consider(sparse_form::units);
    return best;
  }

  /// How many elements of a block are not the usual one.
  std::int64_t count_stored(const std::byte* elements, std::int64_t n) const noexcept {
    Word stored = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      stored = static_cast<Word>(stored + (load_word<Word>(elements + i * word_bytes) != fill_));
    }
    return static_cast<std::int64_t>(stored);
  }
  /// The first of them, if there is one.
  Word first_stored(const std::byte* elements) const noexcept {
    while (load_word<Word>(elements) == fill_) elements += word_bytes;
    return load_word<Word>(elements);
  }
  /// A bit for each of them.
  std::uint64_t map_of(const std::byte* elements, std::int64_t n) const noexcept {
    std::uint64_t map = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t bit = load_word<Word>(elements + i * word_bytes) != fill_;
      map |= bit << i;
    }
    return map;
  }
  /// Those that the map has, side by side; returns how many. One more may be written.
  static std::int64_t gather(const std::byte* elements, std::uint64_t map, std::int64_t n,
                             Word* values) noexcept {
    std::int64_t k = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      values[k] = load_word<Word>(elements + i * word_bytes);
      k += static_cast<std::int64_t>(map >> i & 1);
    }
    return k;
  }
  static std::byte* put_places(std::uint64_t map, std::int64_t from, std::int64_t count,
                               std::byte* place) noexcept {
    for (; map != 0; map &= map - 1) {
      const auto i = from + std::countr_zero(map);
      if (count <= 256) {
        *place++ = static_cast<std::byte>(i);
      } else {
        store_word(place, static_cast<std::uint16_t>(i));
        place += 2;
      }
    }
    return place;
  }

  /// All elements of a mapped record. Which value is next depends on the map, whether it is taken
  /// does not decide a branch: such branches would be foreseen half of the time.
  bool read_mapped(const std::byte* value, const std::byte* map, std::int64_t stored,
                   std::int64_t count, std::byte* elements) const noexcept {
    std::int64_t k = 0;
    for (std::int64_t from = 0; from < count; from += 8) {
      const auto bits = static_cast<unsigned>(map[from / 8]);
      const auto n = static_cast<int>(std::min<std::int64_t>(8, count - from));
      if (bits >> n != 0) return false;
      Word x[8];
      if (k + 8 <= stored) {
        for (int j = 0; j < 8; ++j) {
          const auto there = load_word<Word>(value + k * word_bytes);
          const auto all = static_cast<Word>(-static_cast<Word>(bits >> j & 1));
          x[j] = static_cast<Word>((there & all) | (fill_ & ~all));
          k += bits >> j & 1;
        }
      } else {
        for (int j = 0; j < 8; ++j) {
          x[j] = fill_;
          if ((bits >> j & 1) == 0) continue;
          if (k == stored) return false;
          x[j] = load_word<Word>(value + k++ * word_bytes);
        }
      }
      std::memcpy(elements + from * word_bytes, x, static_cast<std::size_t>(n * word_bytes));
    }
    return k == stored;
  }

  Word fill_, unit_;
};

}  // namespace quipu::detail
