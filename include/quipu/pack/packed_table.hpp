// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "quipu/core/buffer.hpp"
#include "quipu/core/context.hpp"
#include "quipu/pack/packing.hpp"

namespace quipu {

/// Packed rows that it does not own. `bytes`, a multiple of 4, holds the slots of all records and
/// behind them the overflow area, records as they are; or, where records have addresses, one record
/// after the other.
struct packed_view {
  const packing* how = nullptr;  ///< on the host, always
  std::int64_t rows = 0;
  std::byte* bytes = nullptr;
  std::int64_t byte_count = 0;
  std::uint32_t* addresses = nullptr;  ///< [records], in granules; null where records have slots
  std::int64_t* used = nullptr;        ///< [1] bytes of `bytes` that are taken
  const std::byte* columns = nullptr;  ///< for the device: what it wants of `how`, in its memory

  std::int64_t records() const noexcept { return rows * record_shape(how->width).records; }
  /// Bytes that rows, their addresses and the packing's columns take, where the host can read
  /// `used`.
  std::int64_t stored_bytes() const noexcept {
    return *used + (addresses != nullptr ? 4 * records() : 0) + how->column_bytes();
  }
};

/// Owns packed rows and their packing.
class packed_table {
 public:
  packed_table() = default;
  packed_table(packing p, std::int64_t rows, buffer<std::byte> bytes,
               buffer<std::uint32_t> addresses, buffer<std::int64_t> used,
               buffer<std::byte> columns = {})
      : how_(std::move(p)),
        rows_(rows),
        bytes_(std::move(bytes)),
        addresses_(std::move(addresses)),
        used_(std::move(used)),
        columns_(std::move(columns)) {}

  const packing& how() const noexcept { return how_; }
  std::int64_t rows() const noexcept { return rows_; }
  /// Points into this table, which must stay where it is.
  packed_view view() noexcept {
    return {&how_,        rows_,          bytes_.data(), bytes_.size(), addresses_.data(),
            used_.data(), columns_.data()};
  }

 private:
  packing how_;
  std::int64_t rows_ = 0;
  buffer<std::byte> bytes_;
  buffer<std::uint32_t> addresses_;
  buffer<std::int64_t> used_;
  buffer<std::byte> columns_;
};

/// What to do where a packing makes a table larger than it is.
enum class expansion : std::uint8_t { keep_raw, allow };

/// Bytes that `rows` rows, their addresses and the packing's columns take at most, however they
/// look, without spare room: those of the table itself if it is then kept raw.
std::int64_t packed_bound(const packing&, std::int64_t rows,
                          expansion growth = expansion::keep_raw) noexcept;

struct packed_options {
  std::int64_t spare_rows = 0;  ///< room for rows that `update_rows` makes longer; raw has none
  expansion growth = expansion::keep_raw;
};

/// Moves packed rows to a device, or back; to_pinned leaves the rows in pinned memory of the host,
/// where a device can read them, and puts their addresses on the device. All wait for their copies.
/// Errors: out_of_memory, cuda_error.
result<packed_table> to_device(const context&, packed_view);
result<packed_table> to_pinned(const context&, packed_view);
result<packed_table> to_host(const context&, packed_view);

/// Packs a table into memory of its own, on the device from a table that the device can read; the
/// same bytes either way. Allocates, and waits for the stream. Errors: invalid_argument (a packing
/// that is not sound or was made for another width or element size, a table that is none, on the
/// device one whose elements are not aligned), out_of_memory, unsupported (more bytes than
/// addresses can tell), cuda_error.
result<packed_table> make_packed(const host_context&, const table_view&, const packing&,
                                 const packed_options& = {});
result<packed_table> make_packed(const context&, const table_view&, const packing&,
                                 const packed_options& = {});

}  // namespace quipu
