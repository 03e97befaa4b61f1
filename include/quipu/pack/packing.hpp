// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quipu/core/status.hpp"
#include "quipu/pack/table.hpp"

namespace quipu {

/// raw        the elements as they are
/// invariant  bits that agree in most rows are left out: a mask and a value a column and cluster of
///            rows, one participation bit a unit (invariant bit packing, EuroSys 2026)
/// exponent   constant bits are left out; a 2- or 3-bit code stands for the 3 or 7 usual exponents,
///            a 3-bit code for the 7 next ones, a byte for any other
/// sparse     places and values of elements that are not the usual one
enum class codec : std::uint8_t { raw, invariant, exponent, sparse };
const char* name_of(codec) noexcept;

/// Masks and values, [clusters, row bytes]; a row's bytes are taken `unit_bytes` at a time, of the
/// last unit as many as there are. A unit that agrees with the value under the mask keeps only the
/// bits outside it.
struct invariant_packing {
  std::int32_t unit_bytes = 4;
  std::int32_t clusters = 1;  ///< 1 to 255
  std::vector<std::byte> mask, value;
};

/// An exponent less its column's base, modulo the number of exponents, is a symbol; `usual` holds
/// the symbols of codes 0 and on, `next` those of the codes that follow an escape.
struct exponent_packing {
  std::int32_t code_bits = 3;       ///< 2 or 3
  std::uint32_t constant_mask = 0;  ///< bits outside the exponent that every element shares
  std::uint32_t constant_value = 0;
  std::array<std::uint8_t, 7> usual{};
  std::array<std::uint8_t, 7> next{};
  std::vector<std::uint8_t> base;  ///< [width], or empty: all 0
};

struct sparse_packing {
  std::uint64_t fill = 0;  ///< the usual element
  std::uint64_t unit = 1;  ///< what the others are where they are all the same
};

/// What packed rows mean: small, versioned, self-describing; one for a table.
///
/// A row is cut into records of at most 4096 elements. Records of `raw` and `exponent` have slots
/// of `slot_bytes`, so that a row is found by a multiplication; what does not fit its slot lies in
/// an overflow area, and the slot says where. Those of `invariant` and `sparse` are as long as they
/// need, with four bytes of address each. docs/packed_format.md has every bit.
struct packing {
  codec how = codec::raw;
  number_format format = number_format::bits;
  std::int32_t element_bytes = 4;
  std::int64_t width = 0;
  std::int64_t slot_bytes = 0;  ///< raw, exponent: of a record
  std::int32_t granule = 4;     ///< invariant, sparse: bytes that an address counts
  invariant_packing invariant;  ///< empty in other codecs, and so the two below
  exponent_packing exponent;
  sparse_packing sparse;

  /// Masks, values and bases: what it takes itself, but for a hundred bytes.
  std::int64_t column_bytes() const noexcept {
    return static_cast<std::int64_t>(invariant.mask.size() + invariant.value.size() +
                                     exponent.base.size());
  }
  constexpr bool has_slots() const noexcept { return how == codec::raw || how == codec::exponent; }
};

/// How rows are cut: all records have `elements`, but for the last one of a row.
struct record_shape {
  static constexpr std::int64_t most = 4096;
  std::int64_t width = 0, elements = 0, records = 0;

  constexpr record_shape() = default;
  constexpr explicit record_shape(std::int64_t row_width) : width(row_width) {
    records = row_width / most + (row_width % most != 0 ? 1 : 0);
    if (records <= 1) {
      elements = row_width;
    } else {
      elements = ((row_width + records - 1) / records + 255) / 256 * 256;
      records = (row_width + elements - 1) / elements;
    }
  }
  constexpr std::int64_t begin(std::int64_t record) const noexcept { return record * elements; }
  constexpr std::int64_t count(std::int64_t record) const noexcept {
    return record + 1 < records ? elements : width - begin(record);
  }
};

/// Bytes of a row's slots. Slots of raw records lie as a row's elements do: the last one is shorter
/// where its record is.
constexpr std::int64_t slot_bytes_of_row(const packing& p) noexcept {
  if (p.how == codec::raw) return p.width * p.element_bytes;
  return record_shape(p.width).records * p.slot_bytes;
}

/// The smallest granule that a packing with addresses can have.
std::int32_t least_granule(const packing&) noexcept;

/// A packing that keeps elements as they are.
packing raw_packing(const table_view& like);

/// Whether a packing is sound. Errors: invalid_argument naming the field.
status validate(const packing&);

/// Little-endian bytes of a packing, with a version and a checksum; `parse_packing` reads them.
/// Errors of parsing: parse_error (what is wrong), unsupported (a version of the future).
std::vector<std::byte> serialise(const packing&);
result<packing> parse_packing(std::span<const std::byte>);

}  // namespace quipu
