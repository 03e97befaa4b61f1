// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quipu/math/bits.hpp"

namespace quipu::detail {

template <class Word>
Word load_word(const std::byte* from) noexcept {
  Word w;
  std::memcpy(&w, from, sizeof w);
  return w;
}
template <class Word>
void store_word(std::byte* to, Word w) noexcept {
  std::memcpy(to, &w, sizeof w);
}

/// Bits of a byte string, from the low end of its first byte on. Bits behind its end are zeros:
/// nothing is read there.
class bit_reader {
 public:
  bit_reader(const std::byte* data, std::int64_t bytes) noexcept : data_(data), bytes_(bytes) {}

  /// `count` bits from bit `at` on; up to 64.
  std::uint64_t bits(std::int64_t at, int count) const noexcept {
    const auto first = byte_of(at);
    const int shift = static_cast<int>(at & 7);
    std::uint64_t low = load(first) >> shift;
    if (shift + count > 64) low |= load(first + 8) << (64 - shift);
    return low & low_bits<std::uint64_t>(count);
  }

  /// Whether `count` calls of `word`, from bit `at` on and a Word at most apart, find their bytes.
  template <class Word>
  bool has_words(std::int64_t at, int count) const noexcept {
    return byte_of(at) + count * static_cast<std::int64_t>(sizeof(Word)) + 8 <= bytes_;
  }
  /// A Word's bits from bit `at` on, which `has_words` said are there.
  template <class Word>
  Word word(std::int64_t at) const noexcept {
    const std::byte* from = data_ + byte_of(at);
    const int shift = static_cast<int>(at & 7);
    auto low = load_word<std::uint64_t>(from) >> shift;
    if constexpr (sizeof(Word) == 8) {
      // In two steps: a shift by 64 is none.
      low |= static_cast<std::uint64_t>(from[8]) << 1 << (63 - shift);
    }
    return static_cast<Word>(low);
  }

 private:
  // A shift, where signed division would take care of numbers below 0.
  static std::int64_t byte_of(std::int64_t at) noexcept { return at >> 3; }
  std::uint64_t load(std::int64_t first) const noexcept {
    if (first + 8 <= bytes_) return load_word<std::uint64_t>(data_ + first);
    std::uint64_t w = 0;
    if (first >= bytes_) return w;
    if (bytes_ >= 8)
      return load_word<std::uint64_t>(data_ + bytes_ - 8) >> 8 * (first + 8 - bytes_);
    std::memcpy(&w, data_ + first, static_cast<std::size_t>(bytes_ - first));
    return w;
  }
  const std::byte* data_;
  std::int64_t bytes_;
};

/// Appends bits; `finish` pads with zeros to a whole byte. Between the last bit and `end` it may
/// leave zeros; behind `end` it writes nothing.
class bit_writer {
 public:
  bit_writer(std::byte* to, std::byte* end) noexcept : to_(to), end_(end) {}

  /// The low `count` bits of `bits`, whose others are 0, up to a Word's. All that is held is stored
  /// and what does not fill a byte is kept: no branch depends on `count`.
  template <class Word>
  void put(Word bits, int count) noexcept {
    if constexpr (sizeof(Word) == 8) {
      if (count > 32) {
        put(static_cast<std::uint32_t>(bits), 32);
        bits >>= 32;
        count -= 32;
      }
    }
    held_ |= static_cast<std::uint64_t>(bits) << filled_;
    filled_ += static_cast<unsigned>(count);
    if (end_ - to_ >= 8) {
      store_word(to_, held_);
      to_ += filled_ / 8;
      held_ >>= filled_ / 8 * 8;
      filled_ %= 8;
    } else {
      for (; filled_ >= 8; filled_ -= 8, held_ >>= 8) *to_++ = static_cast<std::byte>(held_);
    }
  }
  void finish() noexcept {
    if (filled_ > 0) *to_++ = static_cast<std::byte>(held_);
    held_ = 0;
    filled_ = 0;
  }

 private:
  std::byte* to_;
  std::byte* end_;
  std::uint64_t held_ = 0;
  unsigned filled_ = 0;  // less than 8 between calls
};

/// `value << count`. Of two bytes it is a product: for many of these there are instructions, where
/// for shifts compilers would widen them.
template <class Word>
Word shifted_left(Word value, int count) noexcept {
  if constexpr (sizeof(Word) == 2) {
    const auto factor = static_cast<Word>(1u << count);
    return static_cast<Word>(value * factor);
  } else {
    return static_cast<Word>(value << count);
  }
}

/// The bits that a mask keeps, as runs that are found once.
template <class Word>
class kept_runs {
 public:
  kept_runs() = default;
  explicit kept_runs(Word kept) noexcept {
    if (kept != 0) low_ = take_run(kept, taken_);
    if (kept != 0) high_ = take_run(kept, taken_);
    others_ = kept;
  }

  /// The kept bits of `value`, side by side at the low end. Where many are to be had, the usual
  /// runs of all first and then the others of all: the first is a loop without branches.
  Word extract(Word value) const noexcept {
    return static_cast<Word>(extract_usual(value) | extract_others(value));
  }
  Word extract_usual(Word value) const noexcept {
    return static_cast<Word>(((value & low_.mask) >> low_.gap) |
                             ((value & high_.mask) >> high_.gap));
  }
  Word extract_others(Word value) const noexcept {
    Word dense = 0, left = others_;
    for (int taken = taken_; left != 0;) {
      const auto run = take_run(left, taken);
      dense = static_cast<Word>(dense | ((value & run.mask) >> run.gap));
    }
    return dense;
  }

  /// The low bits of `dense`, spread over the kept bits; its other bits do not matter.
  Word deposit(Word dense) const noexcept {
    return static_cast<Word>(deposit_usual(dense) | deposit_others(dense));
  }
  Word deposit_usual(Word dense) const noexcept {
    return static_cast<Word>((shifted_left(dense, low_.gap) & low_.mask) |
                             (shifted_left(dense, high_.gap) & high_.mask));
  }
  Word deposit_others(Word dense) const noexcept {
    Word value = 0, left = others_;
    for (int taken = taken_; left != 0;) {
      const auto run = take_run(left, taken);
      value = static_cast<Word>(value | (static_cast<Word>(dense << run.gap) & run.mask));
    }
    return value;
  }
  bool has_others() const noexcept { return others_ != 0; }

 private:
  bit_run<Word> low_, high_;  // most masks of numbers have no more: a sign and digits
  Word others_ = 0;
  int taken_ = 0;
};

/// In an address: the record lies there as it is.
inline constexpr std::uint32_t whole_flag = 0x80000000;

QUIPU_HD constexpr std::int64_t bytes_of_bits(std::int64_t bits) noexcept { return (bits + 7) / 8; }
QUIPU_HD constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) noexcept {
  return (n + unit - 1) / unit * unit;
}

}  // namespace quipu::detail
