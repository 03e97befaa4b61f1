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
    const std::int64_t first = at / 8;
    const int shift = static_cast<int>(at % 8);
    std::uint64_t low = load(first) >> shift;
    if (shift + count > 64) low |= load(first + 8) << (64 - shift);
    return low & low_bits<std::uint64_t>(count);
  }

 private:
  std::uint64_t load(std::int64_t first) const noexcept {
    if (first + 8 <= bytes_) return load_word<std::uint64_t>(data_ + first);
    std::uint64_t w = 0;
    if (first < bytes_) std::memcpy(&w, data_ + first, static_cast<std::size_t>(bytes_ - first));
    return w;
  }
  const std::byte* data_;
  std::int64_t bytes_;
};

/// Appends bits; `finish` pads with zeros to a whole byte.
class bit_writer {
 public:
  explicit bit_writer(std::byte* to) noexcept : to_(to) {}

  /// The low `count` bits of `bits`, whose others are 0; up to 64.
  void put(std::uint64_t bits, int count) noexcept {
    held_ |= bits << filled_;
    if (filled_ + count < 64) {
      filled_ += count;
      return;
    }
    store_word(to_, held_);
    to_ += 8;
    const int taken = 64 - filled_;
    held_ = taken < 64 ? bits >> taken : 0;
    filled_ += count - 64;
  }
  /// Where the next byte goes.
  std::byte* finish() noexcept {
    const auto bytes = static_cast<std::size_t>(filled_ + 7) / 8;
    std::memcpy(to_, &held_, bytes);
    to_ += bytes;
    held_ = 0;
    filled_ = 0;
    return to_;
  }

 private:
  std::byte* to_;
  std::uint64_t held_ = 0;
  int filled_ = 0;
};

/// In an address: the record lies there as it is.
inline constexpr std::uint32_t whole_flag = 0x80000000;

QUIPU_HD constexpr std::int64_t bytes_of_bits(std::int64_t bits) noexcept { return (bits + 7) / 8; }
QUIPU_HD constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) noexcept {
  return (n + unit - 1) / unit * unit;
}

}  // namespace quipu::detail
