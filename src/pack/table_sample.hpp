// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "quipu/core/config.hpp"
#include "quipu/pack/profile.hpp"

namespace quipu::detail {

/// Rows of a table, spread evenly over it.
struct spread_rows {
  std::int64_t of = 0, rows = 0;
  QUIPU_HD std::int64_t operator[](std::int64_t k) const {
    return k * (of / rows) + k * (of % rows) / rows;
  }
};

/// As many rows as a profile is to look at.
spread_rows choose_rows(const table_view&, const profile_options&);

/// Rows of a table side by side.
struct sampled_table {
  std::int64_t rows = 0, width = 0;
  std::int32_t element_bytes = 4;
  number_format format = number_format::bits;
  std::vector<std::byte> bytes;

  /// Room for so many rows of a table.
  sampled_table(const table_view& t, std::int64_t count)
      : rows(count),
        width(t.width),
        element_bytes(t.element_bytes),
        format(t.format),
        bytes(static_cast<std::size_t>(count * t.row_bytes())) {}
  std::int64_t row_bytes() const noexcept { return width * element_bytes; }
  const std::byte* row(std::int64_t i) const noexcept { return bytes.data() + i * row_bytes(); }
};

/// Whether a table is one, and options are in range.
status check_profile(const table_view&, const profile_options&);

/// What a sample says of a table of `rows` rows, by as many threads as help. Throws std::bad_alloc.
result<table_profile> profile_sample(const host_context&, const sampled_table&, std::int64_t rows,
                                     const profile_options&);

}  // namespace quipu::detail
