// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "quipu/core/context.hpp"
#include "quipu/pack/packing.hpp"

namespace quipu {

struct profile_options {
  /// Rows to look at, spread evenly over the table; 0: all; negative: up to 4096, but of no more
  /// than 2^20 elements.
  std::int64_t sample_rows = -1;
  /// The share of rows in which a bit must agree for the invariant codec to leave it out, 0 to 1;
  /// negative: for each unit the best of 0.7, 0.75 .. 1.
  double threshold = -1;
  std::int32_t clusters = 1;  ///< of rows, each with masks of its own; 1 to 255
  std::uint64_t seed = 0;     ///< for the rows that clusters start from
};

/// A packing and what it would take.
struct packing_estimate {
  packing how;
  /// A row, its address and its share of overflow and of the packing's columns.
  double row_bytes = 0;
  /// The same with records that begin at multiples of 32, 64 and 128 bytes.
  std::array<double, 3> aligned_row_bytes{};
};

/// What a table looks like, and how it could be packed.
struct table_profile {
  std::int64_t rows = 0, sampled_rows = 0, width = 0;
  std::int32_t element_bytes = 4;
  number_format format = number_format::bits;
  std::vector<std::uint32_t> ones;       ///< [width, bits of an element] rows with the bit set;
                                         ///< empty if there are none
  std::vector<std::uint64_t> exponents;  ///< [32 or 256] elements with the exponent; floats only
  std::uint64_t fill = 0;                ///< the most frequent of some of these elements
  double fill_share = 0;                 ///< of those
  /// One for each codec that applies: raw, invariant, exponent with 3 and with 2 bits, sparse.
  std::vector<packing_estimate> packings;
};

/// Looks at a table; of one that lies in memory of the device, or in pinned memory, at the same
/// rows, which are copied to the host, by way of as much memory of the device, and looked at there
/// by as many threads as help. Allocates, and waits for the stream. Errors: invalid_argument for a
/// table that is none and for options out of range, by name; out_of_memory; cuda_error.
result<table_profile> make_profile(const host_context&, const table_view&,
                                   const profile_options& = {});
result<table_profile> make_profile(const context&, const table_view&, const profile_options& = {});

enum class packing_goal : std::uint8_t {
  smallest,  ///< fewest bytes: for files, and for whole tables that come over a link
  memory,    ///< fewest bytes of what decodes as quickly as memory delivers
  link,      ///< the least time of a link: for rows that a device gathers from pinned memory
};

/// The packing of a profile that serves a goal best; for a link its records may be aligned to more
/// bytes than in the profile, so that they take fewer fetches.
packing_estimate choose_packing(const table_profile&, packing_goal);

}  // namespace quipu
