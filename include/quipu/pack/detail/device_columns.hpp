// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "quipu/core/config.hpp"
#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/packing.hpp"

namespace quipu::detail {

/// Where the columns of an invariant packing lie in device memory: behind the number of runs, 32
/// bits, arrays over [clusters, units] one behind the other, each from a multiple of 16 bytes on.
/// The bits outside a mask are taken run by run; a unit with fewer runs than the most has empty
/// ones. Units of a row are padded to whole lanes.
struct invariant_columns {
  std::int64_t units = 0, count = 0, unit_bytes = 0;

  /// Bytes of units that a lane takes at once.
  static constexpr std::int64_t lane_bytes = 16;

  constexpr invariant_columns() = default;
  QUIPU_HD constexpr invariant_columns(std::int64_t clusters, std::int64_t row_bytes,
                                       std::int64_t unit) noexcept
      : units(round_up(row_bytes, lane_bytes) / unit), count(clusters * units), unit_bytes(unit) {}

  QUIPU_HD constexpr std::int64_t value() const noexcept { return 16; }
  QUIPU_HD constexpr std::int64_t kept() const noexcept {
    return value() + round_up(count * unit_bytes, 16);
  }
  QUIPU_HD constexpr std::int64_t mask(int run) const noexcept {
    return kept() + round_up(count, 16) +
           run * (round_up(count * unit_bytes, 16) + round_up(count, 16));
  }
  QUIPU_HD constexpr std::int64_t gap(int run) const noexcept {
    return mask(run) + round_up(count * unit_bytes, 16);
  }
  QUIPU_HD constexpr std::int64_t bytes(int runs) const noexcept { return mask(runs); }
};

/// What is outside the masks, [clusters, units]; of the last unit of a row the bits that it lacks
/// are inside.
std::vector<std::uint64_t> bits_outside(const packing&);

/// What the device wants of a packing; empty if that is nothing.
std::vector<std::byte> device_columns(const packing&);

}  // namespace quipu::detail
