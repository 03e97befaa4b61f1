// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/detail/pack_tuning.hpp"
#include "quipu/pack/profile.hpp"

namespace quipu {

namespace {

bool decodes_quickly(const packing& p) {
  return p.how == codec::raw || p.how == codec::sparse ||
         (p.how == codec::exponent && p.exponent.code_bits == 3);
}

/// What a link takes for a row that a device reads anywhere, in bytes.
class link_cost : detail::link_tuning {
 public:
  /// Addresses and the packing's columns lie on the device.
  double operator()(const packing_estimate& e, std::int64_t rows) const {
    const auto& p = e.how;
    const auto columns = static_cast<double>(p.column_bytes()) /
                         static_cast<double>(std::max<std::int64_t>(1, rows));
    const auto records = static_cast<double>(record_shape(p.width).records);
    if (!p.has_slots()) {
      const auto bytes = (e.row_bytes - columns) / records - 4;
      return records * (begun(bytes, p.granule, sector) * sector +
                        begun(bytes, p.granule, line) * a_line_more);
    }
    const auto slots = slot_bytes_of_row(p);
    const auto overflow = e.row_bytes - columns - static_cast<double>(slots);
    return begun_on_average(slots, sector) * sector + begun_on_average(slots, line) * a_line_more +
           overflow * (line + a_line_more) / line;
  }

 private:
  /// Units of which `bytes` have a part if they begin at any multiple of a granule.
  static double begun(double bytes, std::int64_t granule, std::int64_t unit) {
    return (bytes + static_cast<double>(unit - std::min(unit, granule))) /
           static_cast<double>(unit);
  }
  /// The same for rows that lie one behind the other.
  static double begun_on_average(std::int64_t row, std::int64_t unit) {
    std::int64_t units = 0;
    for (std::int64_t k = 0; k < unit; ++k) units += (k * row % unit + row + unit - 1) / unit;
    return static_cast<double>(units) / static_cast<double>(unit);
  }
};

/// A packing whose records begin at multiples of `unit`, at the price of some bytes.
packing_estimate aligned_to(packing_estimate e, std::int64_t unit) {
  auto& p = e.how;
  const record_shape shape(p.width);
  const auto records = static_cast<double>(shape.records);
  if (p.how == codec::exponent) {
    const auto longest = detail::round_up(shape.elements * p.element_bytes, 32);
    const auto slot = detail::round_up(p.slot_bytes, unit);
    if (slot > longest) return e;
    e.row_bytes += records * static_cast<double>(slot - p.slot_bytes);
    p.slot_bytes = slot;
  } else if (!p.has_slots() && p.granule < unit) {
    e.row_bytes += records * static_cast<double>(unit - p.granule) / 2;
    p.granule = static_cast<std::int32_t>(unit);
  }
  return e;
}

double cost_of(const packing_estimate& e, packing_goal goal, std::int64_t rows) {
  if (goal == packing_goal::memory && !decodes_quickly(e.how)) {
    return std::numeric_limits<double>::infinity();
  }
  if (goal != packing_goal::link) return e.row_bytes;
  const bool waits = e.how.how == codec::exponent && e.how.exponent.code_bits == 2;
  return link_cost()(e, rows) * (waits ? detail::link_tuning::two_bit_codes : 1);
}

}  // namespace

/// Of equals the first, and that is raw.
packing_estimate choose_packing(const table_profile& profile, packing_goal goal) {
  auto all = profile.packings;
  if (goal == packing_goal::link) {
    for (const auto& e : profile.packings) {
      for (const std::int64_t unit : {32, 64, 128}) all.push_back(aligned_to(e, unit));
    }
  }
  return *std::min_element(all.begin(), all.end(),
                           [&](const packing_estimate& a, const packing_estimate& b) {
                             return cost_of(a, goal, profile.rows) < cost_of(b, goal, profile.rows);
                           });
}

}  // namespace quipu
