// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

/// The bits of an element that are neither exponent nor constant: a record keeps them as they are.
inline std::uint32_t kept_mask(const packing& p) noexcept {
  const auto field = exponent_field_of(p.format);
  return low_bits<std::uint32_t>(8 * p.element_bytes) &
         ~(low_bits<std::uint32_t>(field.bits) << field.shift | p.exponent.constant_mask);
}

/// The most runs that kept bits can have: every second of the 23 below fp32's exponent, and its
/// sign.
inline constexpr int most_kept_runs = 13;

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
///
/// A record goes through in blocks: what each stage makes of a block is a plain array, so that most
/// stages are loops without branches. Eight codes fill whole bytes and are taken together; where
/// none of them is an escape, a table gives two symbols at a time. Loops that store bytes read
/// members from copies: for all that the compiler knows, a byte may be part of them.
template <class Word>
class exponent_coder {
 public:
  explicit exponent_coder(const packing& p)
      : base_(p.exponent.base.empty() ? nullptr : p.exponent.base.data()),
        slot_bytes_(p.slot_bytes),
        code_bits_(p.exponent.code_bits),
        escape_((1 << code_bits_) - 1) {
    const auto field = exponent_field_of(p.format);
    shift_ = field.shift;
    exponents_ = static_cast<std::uint8_t>(low_bits<std::uint32_t>(field.bits));
    constant_mask_ = static_cast<Word>(p.exponent.constant_mask);
    constant_value_ = static_cast<Word>(p.exponent.constant_value);
    const auto exponent = static_cast<Word>(static_cast<Word>(exponents_) << shift_);
    const auto kept = static_cast<Word>(~(exponent | constant_mask_));
    kept_bits_ = std::popcount(kept);
    runs_ = kept_runs<Word>(kept);
    fill_tables(p.exponent);
  }

  int kept_bits() const noexcept { return kept_bits_; }

  /// Bytes of a record, tag included; -1 if an element breaks a constant bit.
  std::int64_t size(const std::byte* elements, std::int64_t column,
                    std::int64_t count) const noexcept {
    std::int64_t nexts = 0, exponents = 0;
    std::uint8_t symbols[block];
    for (std::int64_t from = 0; from < count; from += block) {
      const auto n = std::min(block, count - from);
      if (!take_symbols(elements + from * word_bytes, n, column + from, symbols)) return -1;
      std::uint64_t escapes = 0;
      for (std::int64_t i = 0; i < n; ++i) escapes += escapes_of_[symbols[i]];
      nexts += static_cast<std::int64_t>(escapes % one_exponent);
      exponents += static_cast<std::int64_t>(escapes / one_exponent);
    }
    const exponent_parts parts(count, kept_bits_, code_bits_, 0);
    return parts.nexts + bytes_of_bits(nexts * exponent_parts::next_bits) + exponents + 1;
  }

  /// Fills a slot. False, and the slot undefined, if the record does not fit it.
  bool encode(const std::byte* elements, std::int64_t column, std::int64_t count,
              std::byte* slot) const noexcept {
    const exponent_parts parts(count, kept_bits_, code_bits_, slot_bytes_);
    if (!parts.fits(0, 0)) return false;
    std::memset(slot, 0, static_cast<std::size_t>(slot_bytes_));
    bit_writer kept(slot, slot + parts.codes), codes(slot + parts.codes, slot + parts.nexts);
    written_escapes escapes(slot + parts.nexts, slot + parts.exponents_end);
    std::uint8_t symbols[block];
    for (std::int64_t from = 0; from < count; from += block) {
      const auto n = std::min(block, count - from);
      const auto* x = elements + from * word_bytes;
      if (!take_symbols(x, n, column + from, symbols)) return false;
      write_kept(x, n, slot + bytes_of_bits(from * kept_bits_), kept);
      if (!write_codes(symbols, n, column + from, codes, escapes)) return false;
    }
    kept.finish();
    codes.finish();
    if (!parts.fits(escapes.next_count, escapes.end - escapes.exponent)) return false;
    escapes.write_nexts();
    return true;
  }

  /// Reads a slot that is not in overflow. False if its escapes overrun it.
  bool decode(const std::byte* slot, std::int64_t column, std::int64_t count,
              std::byte* elements) const noexcept {
    const exponent_parts parts(count, kept_bits_, code_bits_, slot_bytes_);
    if (!parts.fits(0, 0)) return false;
    read_escapes escapes(slot, parts);
    std::uint8_t symbols[block];
    Word dense[block];
    for (std::int64_t from = 0; from < count; from += block) {
      const auto n = std::min(block, count - from);
      const bool read = code_bits_ == 3 ? read_codes<3>(from, n, column, escapes, symbols)
                                        : read_codes<2>(from, n, column, escapes, symbols);
      if (!read) return false;
      read_kept(slot, escapes.bits, from, n, dense);
      compose(symbols, dense, n, column + from, elements + from * word_bytes);
    }
    return parts.fits(escapes.next_count, escapes.exponent_count);
  }

 private:
  static constexpr auto word_bytes = static_cast<std::int64_t>(sizeof(Word));
  static constexpr std::int64_t block = 256;  // elements; a multiple of 8
  /// An entry of `how_to_say_`: a code in 3 bits, in 3 more the one that follows if it is an
  /// escape, and whether one follows, and whether an exponent follows that.
  static constexpr unsigned next_unit = 8, says_next = 64, says_exponent = 128;
  /// An entry of `escapes_of_`: 1 if a code follows, and this more if an exponent does.
  static constexpr std::uint64_t one_exponent = std::uint64_t{1} << 32;

  /// Escapes of a record on their way into the slot.
  struct written_escapes {
    written_escapes(std::byte* first_next, std::byte* exponents_end) noexcept
        : nexts_begin(first_next), end(exponents_end), exponent(exponents_end) {}

    void write_nexts() noexcept {
      constexpr int bits = exponent_parts::next_bits;
      bit_writer to(nexts_begin, exponent);
      std::memset(nexts + next_count, 0, 8);
      for (std::int64_t k = 0; k < next_count; k += 8) {
        unsigned word = 0;
        for (int j = 0; j < 8; ++j) word |= static_cast<unsigned>(nexts[k + j]) << (bits * j);
        to.put(word, bits * static_cast<int>(std::min<std::int64_t>(8, next_count - k)));
      }
      to.finish();
    }
    std::byte *nexts_begin, *end;
    std::byte* exponent;  // the lowest that is written
    std::int64_t next_count = 0;
    std::uint8_t nexts[record_shape::most + 8];
  };
  /// A slot, and how far its escapes are read.
  struct read_escapes {
    read_escapes(const std::byte* s, const exponent_parts& p) noexcept
        : slot(s), parts(p), bits(s, p.exponents_end) {}
    const std::byte* slot;
    const exponent_parts& parts;
    bit_reader bits;
    std::int64_t next_count = 0, exponent_count = 0;
  };

  void fill_tables(const exponent_packing& e) noexcept {
    const auto escape = static_cast<unsigned>(escape_);
    how_to_say_.fill(static_cast<std::uint8_t>(escape + 7 * next_unit + says_next + says_exponent));
    for (int k = 6; k >= 0; --k) {
      const auto symbol = e.next[static_cast<std::size_t>(k)];
      how_to_say_[symbol] =
          static_cast<std::uint8_t>(escape + static_cast<unsigned>(k) * next_unit + says_next);
      symbol_of_[static_cast<std::size_t>(escape_ + k)] = symbol & exponents_;
    }
    for (int k = escape_ - 1; k >= 0; --k) {
      const auto symbol = e.usual[static_cast<std::size_t>(k)];
      how_to_say_[symbol] = static_cast<std::uint8_t>(k);
      symbol_of_[static_cast<std::size_t>(k)] = symbol & exponents_;
    }
    for (std::size_t s = 0; s < how_to_say_.size(); ++s) {
      escapes_of_[s] = (how_to_say_[s] >= says_next ? 1 : 0) +
                       (how_to_say_[s] >= says_exponent ? one_exponent : 0);
    }
    for (int pair = 0; pair < 1 << 2 * code_bits_; ++pair) {
      pairs_[static_cast<std::size_t>(pair)] = {
          symbol_of_[static_cast<std::size_t>(pair & escape_)],
          symbol_of_[static_cast<std::size_t>(pair >> code_bits_)]};
    }
  }

  /// False if an element breaks a constant bit.
  bool take_symbols(const std::byte* elements, std::int64_t n, std::int64_t column,
                    std::uint8_t* symbols) const noexcept {
    const auto mask = constant_mask_, value = constant_value_;
    const auto exponents = exponents_;
    const int shift = shift_;
    Word broken = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto x = load_word<Word>(elements + i * word_bytes);
      broken = static_cast<Word>(broken | ((x & mask) ^ value));
      symbols[i] = static_cast<std::uint8_t>(x >> shift) & exponents;
    }
    if (base_ != nullptr) {
      for (std::int64_t i = 0; i < n; ++i) {
        symbols[i] = static_cast<std::uint8_t>(symbols[i] - base_[column + i]) & exponents;
      }
    }
    return broken == 0;
  }

  /// `to` is where the block's kept bits go; `bits` writes there too.
  void write_kept(const std::byte* elements, std::int64_t n, std::byte* to,
                  bit_writer& bits) const noexcept {
    Word dense[block];
    for (std::int64_t i = 0; i < n; ++i) {
      dense[i] = runs_.extract_usual(load_word<Word>(elements + i * word_bytes));
    }
    for (std::int64_t i = 0; i < n && runs_.has_others(); ++i) {
      dense[i] |= runs_.extract_others(load_word<Word>(elements + i * word_bytes));
    }
    if (kept_bits_ == 8) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::byte>(dense[i]);
    } else if (sizeof(Word) == 4 && kept_bits_ == 24) {
      // Each but the last also writes the next one's first byte, which that one then sets right.
      for (std::int64_t i = 0; i + 1 < n; ++i) store_word(to + 3 * i, dense[i]);
      std::memcpy(to + 3 * (n - 1), &dense[n - 1], 3);
    } else {
      for (std::int64_t i = 0; i < n; ++i) bits.put(dense[i], kept_bits_);
    }
  }

  /// False if exponents overrun the escapes' room.
  bool write_codes(std::uint8_t* symbols, std::int64_t n, std::int64_t column, bit_writer& codes,
                   written_escapes& escapes) const noexcept {
    for (std::int64_t i = n; i % 8 != 0; ++i) symbols[i] = symbol_of_[0];
    for (std::int64_t k = 0; k < n; k += 8) {
      unsigned word = 0, seen = 0;
      for (int j = 0; j < 8; ++j) {
        const unsigned how = how_to_say_[symbols[k + j]];
        word |= how % 8 << (code_bits_ * j);
        seen |= how;
      }
      codes.put(word, code_bits_ * static_cast<int>(std::min<std::int64_t>(8, n - k)));
      if ((seen & says_next) == 0) continue;
      if (!add_escapes(symbols + k, column + k, escapes)) return false;
    }
    return true;
  }

  bool add_escapes(const std::uint8_t* symbols, std::int64_t column,
                   written_escapes& escapes) const noexcept {
    for (int j = 0; j < 8; ++j) {
      const unsigned how = how_to_say_[symbols[j]];
      escapes.nexts[escapes.next_count] = static_cast<std::uint8_t>(how / next_unit % 8);
      escapes.next_count += how / says_next % 2;
      if (how < says_exponent) continue;
      if (escapes.exponent == escapes.nexts_begin) return false;
      *--escapes.exponent = static_cast<std::byte>(unshifted(symbols[j], column + j));
    }
    return true;
  }

  /// Symbols of the elements from `from` on, of a row whose record begins at `column`.
  template <int CodeBits>
  bool read_codes(std::int64_t from, std::int64_t n, std::int64_t column, read_escapes& escapes,
                  std::uint8_t* symbols) const noexcept {
    constexpr unsigned escape = (1u << CodeBits) - 1;
    constexpr unsigned lowest_bits = CodeBits == 3 ? 0x249249 : 0x5555;
    for (std::int64_t k = 0; k < n; k += 8) {
      const auto word = static_cast<unsigned>(
          escapes.bits.bits(8 * escapes.parts.codes + (from + k) * CodeBits, 8 * CodeBits));
      // The lowest bit of each code that is all ones, and that an element has.
      auto escaped = word & word >> 1 & (CodeBits == 3 ? word >> 2 : ~0u) & lowest_bits;
      if (n - k < 8) escaped &= low_bits<unsigned>(CodeBits * static_cast<int>(n - k));
      if (escaped != 0) {
        if (!read_escaped<CodeBits>(word, escaped, column + from + k, escapes, symbols + k)) {
          return false;
        }
        continue;
      }
      for (int j = 0; j < 8; j += 2) {
        const auto pair = word >> (CodeBits * j) & ((escape + 1) * (escape + 1) - 1);
        std::memcpy(symbols + k + j, &pairs_[pair], 2);
      }
    }
    return true;
  }

  template <int CodeBits>
  bool read_escaped(unsigned word, unsigned escaped, std::int64_t column, read_escapes& escapes,
                    std::uint8_t* symbols) const noexcept {
    constexpr unsigned escape = (1u << CodeBits) - 1;
    constexpr int next_bits = exponent_parts::next_bits;
    auto nexts = static_cast<unsigned>(
        escapes.bits.bits(8 * escapes.parts.nexts + escapes.next_count * next_bits, 8 * next_bits));
    for (int j = 0; j < 8; ++j) {
      const unsigned escapes_here = escaped >> (CodeBits * j) & 1;
      const unsigned next = nexts & (escapes_here * 7);
      symbols[j] = symbol_of_[(word >> (CodeBits * j) & escape) + next];
      nexts >>= escapes_here * next_bits;
      escapes.next_count += escapes_here;
      if (next != 7) continue;
      const auto& parts = escapes.parts;
      if (!parts.fits(escapes.next_count, ++escapes.exponent_count)) return false;
      const auto exponent =
          static_cast<std::uint8_t>(escapes.slot[parts.exponents_end - escapes.exponent_count]);
      // So that the base makes it what it is.
      symbols[j] =
          base_ == nullptr ? exponent : static_cast<std::uint8_t>(exponent - base_[column + j]);
    }
    return true;
  }

  /// Kept bits of the elements from `from` on, and above them bits that do not matter; `bits` are
  /// the slot's.
  void read_kept(const std::byte* slot, const bit_reader& bits, std::int64_t from, std::int64_t n,
                 Word* dense) const noexcept {
    const auto* at = slot + bytes_of_bits(from * kept_bits_);
    if (kept_bits_ == 8) {
      for (std::int64_t i = 0; i < n; ++i) dense[i] = static_cast<Word>(at[i]);
      return;
    }
    // Eight elements fill `kept_bits` bytes; one load has the bits of as many as it has words.
    constexpr int together = 8 / sizeof(Word);
    const auto kept_bits = static_cast<unsigned>(kept_bits_);
    const auto last_load = static_cast<int>((8 - together) * kept_bits / 8);
    std::int64_t i = 0;
    for (; i < n && bits.has_words<std::uint8_t>((from + i) * kept_bits_, last_load); i += 8) {
      for (unsigned j = 0; j < 8; j += together) {
        auto word = load_word<std::uint64_t>(at + j * kept_bits / 8) >> (j * kept_bits % 8);
        for (unsigned k = 0; k < together; ++k, word >>= kept_bits) {
          dense[i + j + k] = static_cast<Word>(word);
        }
      }
      at += kept_bits;
    }
    for (; i < n; ++i) {
      dense[i] = static_cast<Word>(bits.bits((from + i) * kept_bits_, kept_bits_));
    }
  }

  void compose(std::uint8_t* symbols, const Word* dense, std::int64_t n, std::int64_t column,
               std::byte* elements) const noexcept {
    if (base_ != nullptr) {
      for (std::int64_t i = 0; i < n; ++i) {
        symbols[i] = static_cast<std::uint8_t>(symbols[i] + base_[column + i]);
      }
    }
    const auto runs = runs_;
    const auto value = constant_value_;
    const auto exponents = exponents_;
    const int shift = shift_;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto exponent = shifted_left(static_cast<Word>(symbols[i] & exponents), shift);
      store_word(elements + i * word_bytes,
                 static_cast<Word>(runs.deposit_usual(dense[i]) | value | exponent));
    }
    for (std::int64_t i = 0; i < n && runs.has_others(); ++i) {
      const auto x = load_word<Word>(elements + i * word_bytes);
      store_word(elements + i * word_bytes, static_cast<Word>(x | runs.deposit_others(dense[i])));
    }
  }

  std::uint8_t unshifted(std::uint8_t s, std::int64_t column) const noexcept {
    return (base_ == nullptr ? s : static_cast<std::uint8_t>(s + base_[column])) & exponents_;
  }

  const std::uint8_t* base_;
  std::int64_t slot_bytes_;
  int code_bits_, escape_, shift_, kept_bits_;
  std::uint8_t exponents_;
  Word constant_mask_, constant_value_;
  kept_runs<Word> runs_;
  std::array<std::uint8_t, 15> symbol_of_{};  // of codes; from the escape on, of those behind it
  std::array<std::array<std::uint8_t, 2>, 64> pairs_;
  std::array<std::uint8_t, 256> how_to_say_;
  std::array<std::uint64_t, 256> escapes_of_;  // 64 bits wide so that sums of them stay scalar
};

}  // namespace quipu::detail
