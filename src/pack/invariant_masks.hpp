// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "quipu/pack/profile.hpp"

namespace quipu::detail {

/// Rows of a table side by side.
struct sampled_table {
  std::int64_t rows = 0, width = 0;
  std::int32_t element_bytes = 4;
  number_format format = number_format::bits;
  std::vector<std::byte> bytes;
  std::int64_t row_bytes() const noexcept { return width * element_bytes; }
};

/// Bytes of each record of a sample under a packing; -1 where a record cannot be coded.
std::vector<std::int64_t> record_sizes(const sampled_table&, const packing&);

/// [row bytes * 8] rows in which each bit is set, bits of a byte low first.
std::vector<std::uint32_t> count_ones(const sampled_table&);

/// The invariant packing of fewest bytes: over thresholds for each unit by itself, unless one is
/// given; over units of an element's size and of all larger ones; for clusters of rows that k-means
/// finds.
packing find_invariant(const sampled_table&, const std::vector<std::uint32_t>& ones,
                       const profile_options&);

}  // namespace quipu::detail
