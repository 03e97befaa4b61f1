// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quipu/pack/packing.hpp"

namespace quipu::io_detail {

/// The first bytes of a .qpk file, as they lie. The magic has a byte that is no ASCII, both kinds
/// of line end and an end-of-file character, so that a transfer as text is noticed.
struct packed_header {
  static constexpr std::array<unsigned char, 8> right_magic{0x93, 'q',  'p',  'k',
                                                            '\r', '\n', 0x1a, '\n'};
  static constexpr std::uint32_t this_version = 1;

  std::array<unsigned char, 8> magic = right_magic;
  std::uint32_t version = this_version;
  std::uint32_t note_sum = 0;
  std::int64_t packing_bytes = 0;
  std::int64_t note_bytes = 0;
  std::int64_t rows = 0;
  std::int64_t address_bytes = 0;
  std::int64_t record_bytes = 0;  ///< of all rows
  std::uint32_t sums_sum = 0;     ///< of the section of checksums
  std::uint32_t header_sum = 0;   ///< of the 60 bytes before it
};
static_assert(sizeof(packed_header) == 64);
inline constexpr std::size_t summed_header_bytes = sizeof(packed_header) - 4;

/// Bytes that one checksum covers, the last ones of a section excepted.
inline constexpr std::int64_t packed_block_bytes = std::int64_t{1} << 20;
/// Sections begin at multiples of it; between them lie zeros.
inline constexpr std::int64_t packed_alignment = 64;

constexpr std::int64_t packed_blocks(std::int64_t bytes) noexcept {
  return (bytes + packed_block_bytes - 1) / packed_block_bytes;
}

/// Where sections begin, in this order; `end` is the size of the file.
struct packed_layout {
  std::int64_t packing = 0, note = 0, sums = 0, addresses = 0, records = 0, end = 0;

  packed_layout() = default;
  /// Of a header whose sizes are neither negative nor beyond `most_bytes`.
  explicit constexpr packed_layout(const packed_header& h) noexcept
      : packing(sizeof(packed_header)),
        note(behind(packing + h.packing_bytes)),
        sums(behind(note + h.note_bytes)),
        addresses(behind(sums + 4 * sums_of(h))),
        records(behind(addresses + h.address_bytes)),
        end(records + h.record_bytes) {}

  /// Above the size of any file; sums of four of it are no overflow.
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 60;
  /// Checksums of a file: one a block of addresses, then one a block of records.
  static constexpr std::int64_t sums_of(const packed_header& h) noexcept {
    return packed_blocks(h.address_bytes) + packed_blocks(h.record_bytes);
  }

 private:
  static constexpr std::int64_t behind(std::int64_t at) noexcept {
    return (at + packed_alignment - 1) / packed_alignment * packed_alignment;
  }
};

inline std::span<const std::byte> bytes_of(const void* data, std::int64_t bytes) noexcept {
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)};
}

/// What is wrong with the sizes, or null. Divides where a product of what a file says could
/// overflow.
const char* wrong_size(const packing& p, std::int64_t rows, std::int64_t used,
                       std::int64_t address_bytes) noexcept;

struct address_order {
  const char* wrong = nullptr;
  std::vector<std::uint32_t> sorted;  // empty where they rise as they are
};

/// Whether addresses lie below `used` and all apart: two records at one place would make a table
/// that is larger than what it was read from.
address_order order_addresses(std::span<const std::uint32_t> addresses, std::int64_t used,
                              std::int64_t granule);

}  // namespace quipu::io_detail
