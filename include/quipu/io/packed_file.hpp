// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "quipu/core/status.hpp"
#include "quipu/pack/packed_table.hpp"

namespace quipu {

namespace detail {
struct packed_file_state;
}

/// Writes packed rows that lie on the host, and whatever the caller has to say about them, up to
/// 2^20 bytes. Spare room is left out. The file, `.qpk`, appears complete or not at all;
/// docs/packed_format.md has every bit of it.
/// Errors: invalid_argument naming what is wrong with the view or the note; io_error.
status write_packed(const std::filesystem::path& path, const packed_view& packed,
                    std::string_view note = {});

/// A .qpk file open for reading, in whole or in part. Reading changes nothing in it, so threads may
/// share one. Every byte that is looked at is checked against its checksum first.
class packed_file {
 public:
  packed_file(packed_file&&) noexcept;
  packed_file& operator=(packed_file&&) noexcept;
  ~packed_file();

  /// Reads everything but the rows: the packing, the note, checksums and addresses.
  /// Errors: parse_error for a file that no `write_packed` has made, whatever became of it, and
  /// then nothing larger than the file has been allocated; unsupported for a later version, and for
  /// what is no regular file; io_error with errno in `native`; out_of_memory.
  static result<packed_file> open(const std::filesystem::path& path);

  const packing& how() const noexcept;
  std::int64_t rows() const noexcept;
  const std::string& note() const noexcept;

  /// All rows. Errors: as of `open`.
  result<packed_table> read() const;
  /// A table of the rows [first_row, first_row + count). Of the rows in the file it reads the
  /// blocks of 2^20 bytes in which these lie, and no others. Errors: also out_of_range for rows
  /// that are not there.
  result<packed_table> read_rows(std::int64_t first_row, std::int64_t count) const;

 private:
  explicit packed_file(std::unique_ptr<detail::packed_file_state>) noexcept;
  std::unique_ptr<detail::packed_file_state> state_;
};

/// Opens a file and reads all rows. Errors: as of both.
result<packed_table> read_packed(const std::filesystem::path& path);

}  // namespace quipu
