// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/packing.hpp"

namespace quipu::detail {

/// Where the exponent of a float lies.
struct exponent_field {
  int bits = 8, shift = 23;
};
QUIPU_HD constexpr exponent_field exponent_field_of(number_format f) noexcept {
  return f == number_format::float16    ? exponent_field{5, 10}
         : f == number_format::bfloat16 ? exponent_field{8, 7}
                                        : exponent_field{8, 23};
}

/// Where the parts of an exponent record lie in its slot:
///
///   kept      `kept_bits` an element: the bits that are neither exponent nor constant
///   codes     `code_bits` an element, from a multiple of 4 bytes on
///   nexts     3 bits for each element with an escape for a code, from a multiple of 4 bytes on
///   exponents a byte for each element with another escape there, backwards from the end
///   tag       the last byte: 0, or `overflow_tag` if the slot holds nothing but, in its first four
///             bytes, a number: which record of the overflow area is meant
struct exponent_parts {
  static constexpr int next_bits = 3;
  std::int64_t codes = 0, nexts = 0, exponents_end = 0;

  QUIPU_HD constexpr exponent_parts(std::int64_t count, int kept_bits, int code_bits,
                                    std::int64_t slot_bytes) noexcept
      : codes(round_up(bytes_of_bits(count * kept_bits), 4)),
        nexts(codes + round_up(bytes_of_bits(count * code_bits), 4)),
        exponents_end(slot_bytes - 1) {}

  /// Whether escapes fit between the codes and the tag.
  QUIPU_HD constexpr bool fits(std::int64_t nexts_count,
                               std::int64_t exponents_count) const noexcept {
    return nexts + bytes_of_bits(nexts_count * next_bits) + exponents_count <= exponents_end;
  }
};

inline constexpr std::byte overflow_tag{255};

/// Packs and unpacks records of one packing; Word has an element's size.
template <class Word>
class exponent_coder {
 public:
  explicit exponent_coder(const packing& p)
      : base_(p.exponent.base.empty() ? nullptr : p.exponent.base.data()),
        slot_bytes_(p.slot_bytes),
        code_bits_(p.exponent.code_bits) {
    const auto field = exponent_field_of(p.format);
    shift_ = field.shift;
    exponents_ = static_cast<std::uint8_t>(low_bits<std::uint32_t>(field.bits));
    constant_mask_ = static_cast<Word>(p.exponent.constant_mask);
    constant_value_ = static_cast<Word>(p.exponent.constant_value);
    const auto exponent = static_cast<Word>(static_cast<Word>(exponents_) << shift_);
    kept_ = static_cast<Word>(~(exponent | constant_mask_));
    kept_bits_ = std::popcount(kept_);
    escape_ = (1 << code_bits_) - 1;
    usual_ = p.exponent.usual;
    next_ = p.exponent.next;
    code_of_.fill(static_cast<std::uint8_t>(escape_));
    next_of_.fill(7);
    for (int k = 6; k >= 0; --k)
      next_of_[next_[static_cast<std::size_t>(k)]] = static_cast<std::uint8_t>(k);
    for (int k = escape_ - 1; k >= 0; --k)
      code_of_[usual_[static_cast<std::size_t>(k)]] = static_cast<std::uint8_t>(k);
  }

  int kept_bits() const noexcept { return kept_bits_; }

  /// Bytes of a record, tag included; -1 if an element breaks a constant bit.
  std::int64_t size(const std::byte* elements, std::int64_t column,
                    std::int64_t count) const noexcept {
    std::int64_t nexts = 0, exponents = 0;
    Word broken = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = load_word<Word>(elements + i * static_cast<std::int64_t>(sizeof(Word)));
      broken = static_cast<Word>(broken | ((x & constant_mask_) ^ constant_value_));
      const auto s = symbol(x, column + i);
      const bool escapes = code_of_[s] == escape_;
      nexts += escapes;
      exponents += escapes && next_of_[s] == 7;
    }
    if (broken != 0) return -1;
    const exponent_parts parts(count, kept_bits_, code_bits_, 0);
    return parts.nexts + bytes_of_bits(nexts * exponent_parts::next_bits) + exponents + 1;
  }

  /// Fills a slot. False, and the slot undefined, if the record does not fit it.
  bool encode(const std::byte* elements, std::int64_t column, std::int64_t count,
              std::byte* slot) const noexcept {
    const exponent_parts parts(count, kept_bits_, code_bits_, slot_bytes_);
    if (!parts.fits(0, 0)) return false;
    std::memset(slot, 0, static_cast<std::size_t>(slot_bytes_));
    std::uint8_t nexts[record_shape::most];
    std::int64_t next_count = 0;
    std::byte* exponent = slot + parts.exponents_end;
    const std::byte* lowest = slot + parts.nexts;
    bit_writer kept(slot), codes(slot + parts.codes);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = load_word<Word>(elements + i * static_cast<std::int64_t>(sizeof(Word)));
      if ((x & constant_mask_) != constant_value_) return false;
      kept.put(extract_kept(x), kept_bits_);
      const auto s = symbol(x, column + i);
      codes.put(code_of_[s], code_bits_);
      if (code_of_[s] != escape_) continue;
      nexts[next_count++] = next_of_[s];
      if (next_of_[s] == 7) {
        if (exponent == lowest) return false;
        *--exponent = static_cast<std::byte>((x >> shift_) & exponents_);
      }
    }
    kept.finish();
    codes.finish();
    if (!parts.fits(next_count, slot + parts.exponents_end - exponent)) return false;
    bit_writer escapes(slot + parts.nexts);
    for (std::int64_t k = 0; k < next_count; ++k) escapes.put(nexts[k], exponent_parts::next_bits);
    escapes.finish();
    return true;
  }

  /// Reads a slot that is not in overflow. False if its escapes overrun it.
  bool decode(const std::byte* slot, std::int64_t column, std::int64_t count,
              std::byte* elements) const noexcept {
    const exponent_parts parts(count, kept_bits_, code_bits_, slot_bytes_);
    if (!parts.fits(0, 0)) return false;
    const bit_reader kept(slot, parts.codes), codes(slot + parts.codes, parts.nexts - parts.codes),
        nexts(slot + parts.nexts, parts.exponents_end - parts.nexts);
    std::int64_t next_count = 0, exponent_count = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto code = static_cast<int>(codes.bits(i * code_bits_, code_bits_));
      std::uint8_t exponent;
      if (code != escape_) {
        exponent = unshifted(usual_[static_cast<std::size_t>(code)], column + i);
      } else {
        const auto next =
            nexts.bits(next_count++ * exponent_parts::next_bits, exponent_parts::next_bits);
        if (next < 7) {
          exponent = unshifted(next_[next], column + i);
        } else {
          if (!parts.fits(next_count, ++exponent_count)) return false;
          exponent =
              static_cast<std::uint8_t>(slot[parts.exponents_end - exponent_count]) & exponents_;
        }
      }
      const auto dense = static_cast<Word>(kept.bits(i * kept_bits_, kept_bits_));
      const auto x = static_cast<Word>(deposit_kept(dense) | constant_value_ |
                                       static_cast<Word>(static_cast<Word>(exponent) << shift_));
      store_word(elements + i * static_cast<std::int64_t>(sizeof(Word)), x);
    }
    return parts.fits(next_count, exponent_count);
  }

 private:
  std::uint8_t symbol(Word x, std::int64_t column) const noexcept {
    const auto e = static_cast<std::uint8_t>(x >> shift_);
    return (base_ == nullptr ? e : static_cast<std::uint8_t>(e - base_[column])) & exponents_;
  }
  std::uint8_t unshifted(std::uint8_t s, std::int64_t column) const noexcept {
    return (base_ == nullptr ? s : static_cast<std::uint8_t>(s + base_[column])) & exponents_;
  }
  Word extract_kept(Word x) const noexcept { return extract_bits<Word>(x, kept_); }
  Word deposit_kept(Word dense) const noexcept { return deposit_bits<Word>(dense, kept_); }

  const std::uint8_t* base_;
  std::int64_t slot_bytes_;
  int code_bits_, shift_, kept_bits_, escape_;
  std::uint8_t exponents_;
  Word constant_mask_, constant_value_, kept_;
  std::array<std::uint8_t, 7> usual_, next_;
  std::array<std::uint8_t, 256> code_of_, next_of_;
};

}  // namespace quipu::detail
