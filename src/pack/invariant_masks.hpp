// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "pack/table_sample.hpp"

namespace quipu::detail {

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
