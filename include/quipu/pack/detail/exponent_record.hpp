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
  std::int32_t codes = 0, nexts = 0, exponents_end = 0;

  QUIPU_HD constexpr exponent_parts(std::int64_t count, int kept_bits, int code_bits,
                                    std::int64_t slot_bytes) noexcept
      : codes(words_of_bits(static_cast<int>(count) * kept_bits)),
        nexts(codes + words_of_bits(static_cast<int>(count) * code_bits)),
        exponents_end(static_cast<std::int32_t>(slot_bytes) - 1) {}

  /// Whether escapes fit between the codes and the tag.
  template <class Int>
  QUIPU_HD constexpr bool fits(Int nexts_count, Int exponents_count) const noexcept {
    return nexts + ((nexts_count * next_bits + 7) >> 3) + exponents_count <= exponents_end;
  }

 private:
  /// Bytes of the words that so many bits fill.
  QUIPU_HD static constexpr std::int32_t words_of_bits(int bits) noexcept {
    return (bits + 31) >> 5 << 2;
  }
};

inline constexpr std::byte overflow_tag{255};

/// Which of four codes of 2 bits are escapes: a byte each, from the low end on.
struct escapes_among_four {
  std::uint32_t places = 0;
  int count = 0;
};
inline constexpr auto escapes_among_fours = [] {
  std::array<escapes_among_four, 256> all{};
  for (unsigned four = 0; four < 256; ++four) {
    for (unsigned j = 0; j < 4; ++j) {
      if ((four >> (2 * j) & 3) == 3) all[four].places |= j << 8 * all[four].count++;
    }
  }
  return all;
}();

/// Packs and unpacks records of one packing; Word has an element's size.
///
/// A record goes through in blocks: what each stage makes of a block is a plain array, so that most
/// stages are loops without branches. Codes that fill whole bytes are taken together. What follows
/// an escape is looked at when all codes of a block are read: which of them are escapes is hard to
/// foresee. Loops that store bytes read members from copies: for all that the compiler knows, a
/// byte may be part of them.
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
    const auto kept = static_cast<Word>(kept_mask(p));
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
    std::uint8_t symbols[block], escaped[block];
    Word dense[block];
    for (std::int64_t from = 0; from < count; from += block) {
      const auto n = std::min(block, count - from);
      const int escaped_count = code_bits_ == 3 ? read_threes(escapes, from, n, symbols, escaped)
                                                : read_twos(escapes, from, n, symbols, escaped);
      if (!read_escaped(escaped, escaped_count, column + from, escapes, symbols)) return false;
      read_kept(slot, escapes.bits, from, n, dense);
      compose(symbols, dense, n, column + from, elements + from * word_bytes);
    }
    return parts.fits(escapes.next_count, escapes.exponent_count);
  }

 private:
  static constexpr auto word_bytes = static_cast<std::int64_t>(sizeof(Word));
  static constexpr std::int64_t block = 256;  // elements, told by a byte; a multiple of 16
  /// An entry of `how_to_say_`: a code in 3 bits, in 3 more the one that follows if it is an
  /// escape, and whether one follows, and whether an exponent follows that.
  static constexpr unsigned next_unit = 8, says_next = 64, says_exponent = 128;
  /// The lowest bits of codes, or nexts, of 3 bits.
  static constexpr std::uint64_t lowest_of_threes = 0x249249249249;
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
    for (unsigned codes = 0; codes < symbols_of_.size(); ++codes) {
      for (int j = 0; j < 4; ++j) {
        symbols_of_[codes][static_cast<std::size_t>(j)] =
            symbol_of_[codes >> (code_bits_ * j) & escape];
      }
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

  /// Symbols of a block's elements by codes of 2 bits. `escaped` tells those that have escapes for
  /// codes, in ascending order; returns how many they are.
  int read_twos(const read_escapes& record, std::int64_t from, std::int64_t n,
                std::uint8_t* symbols, std::uint8_t* escaped) const noexcept {
    const auto* codes = record.slot + record.parts.codes + from / 4;
    int count = 0;
    for (std::int64_t k = 0; k < n; k += 4) {
      auto four = static_cast<unsigned>(codes[k / 4]);
      if (n - k < 4) four &= low_bits<unsigned>(2 * static_cast<int>(n - k));
      std::memcpy(symbols + k, &symbols_of_[four], 4);
      // Always four places: those that are too many are written over, or not looked at.
      const auto& among = escapes_among_fours[four];
      const auto places = among.places + static_cast<std::uint32_t>(k) * 0x01010101;
      std::memcpy(escaped + count, &places, 4);
      count += among.count;
    }
    return count;
  }
  /// The same by codes of 3 bits, of which few are escapes.
  int read_threes(const read_escapes& record, std::int64_t from, std::int64_t n,
                  std::uint8_t* symbols, std::uint8_t* escaped) const noexcept {
    constexpr int together = 16;
    const auto first = 8 * record.parts.codes + 3 * from;
    int count = 0;
    for (std::int64_t k = 0; k < n; k += together) {
      const auto codes = record.bits.bits(first + 3 * k, 3 * together);
      for (int j = 0; j < together; j += 2) {
        std::memcpy(symbols + k + j, &symbols_of_[codes >> (3 * j) & 63], 2);
      }
      // The lowest bit of each code that is all ones, and that an element has.
      auto left = codes & codes >> 1 & codes >> 2 & lowest_of_threes;
      if (n - k < together) left &= low_bits<std::uint64_t>(3 * static_cast<int>(n - k));
      for (; left != 0; left &= left - 1) {
        escaped[count++] = static_cast<std::uint8_t>(k + std::countr_zero(left) / 3);
      }
    }
    return count;
  }

  /// Symbols of a block's elements that have escapes for codes; its first element is that of
  /// `column`. False if exponents overrun the slot.
  bool read_escaped(const std::uint8_t* escaped, int count, std::int64_t column,
                    read_escapes& escapes, std::uint8_t* symbols) const noexcept {
    constexpr int next_bits = exponent_parts::next_bits, together = 16;
    const auto& parts = escapes.parts;
    const auto* symbol_of_next = symbol_of_.data() + escape_;
    for (; count > 0; count -= together, escaped += together) {
      const int n = std::min(together, count);
      const auto nexts =
          escapes.bits.bits(8 * parts.nexts + escapes.next_count * next_bits, n * next_bits);
      escapes.next_count += n;
      for (int j = 0; j < n; ++j) {
        symbols[escaped[j]] = symbol_of_next[nexts >> (next_bits * j) & 7];
      }
      auto left = nexts & nexts >> 1 & nexts >> 2 & lowest_of_threes;
      for (; left != 0; left &= left - 1) {
        if (!parts.fits(escapes.next_count, ++escapes.exponent_count)) return false;
        const auto exponent =
            static_cast<std::uint8_t>(escapes.slot[parts.exponents_end - escapes.exponent_count]);
        const auto i = escaped[std::countr_zero(left) / next_bits];
        // So that the base makes it what it is.
        symbols[i] =
            base_ == nullptr ? exponent : static_cast<std::uint8_t>(exponent - base_[column + i]);
      }
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
  /// Of two codes of 3 bits, or four of 2.
  std::array<std::array<std::uint8_t, 4>, 256> symbols_of_;
  std::array<std::uint8_t, 256> how_to_say_;
  std::array<std::uint64_t, 256> escapes_of_;  // 64 bits wide so that sums of them stay scalar
};

}  // namespace quipu::detail
