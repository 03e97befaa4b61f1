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

/// A packing of the profile, or one that differs by where its records begin.
struct candidate {
  const packing_estimate* of;
  std::int64_t slot_bytes;
  std::int32_t granule;
  double row_bytes;

  explicit candidate(const packing_estimate& e)
      : of(&e), slot_bytes(e.how.slot_bytes), granule(e.how.granule), row_bytes(e.row_bytes) {}
  candidate(const packing_estimate& e, std::size_t k) : candidate(e) {
    const auto unit = detail::link_tuning::alignments[k];
    row_bytes = e.aligned_row_bytes[k];
    if (e.how.how == codec::exponent) slot_bytes = detail::round_up(slot_bytes, unit);
    if (!e.how.has_slots()) granule = std::max(granule, static_cast<std::int32_t>(unit));
  }
};

/// What a link takes for a row that a device reads anywhere, in bytes.
class link_cost : detail::link_tuning {
 public:
  explicit link_cost(std::int64_t rows) : rows_(std::max<std::int64_t>(1, rows)) {}

  /// Addresses and the packing's columns lie on the device.
  double operator()(const candidate& c) const {
    const auto& p = c.of->how;
    const auto bytes = c.row_bytes - static_cast<double>(p.column_bytes()) / rows_;
    const auto records = record_shape(p.width).records;
    if (!p.has_slots()) {
      const auto of_records = bytes - 4 * static_cast<double>(records);
      return begun(of_records, records, c.granule, sector) * sector +
             begun(of_records, records, c.granule, line) * a_line_more;
    }
    const auto slots = p.how == codec::raw ? slot_bytes_of_row(p) : records * c.slot_bytes;
    const auto overflow = bytes - static_cast<double>(slots);
    const auto cost = begun_on_average(slots, sector) * sector +
                      begun_on_average(slots, line) * a_line_more +
                      overflow * (line + a_line_more) / line;
    const bool waits =
        p.how == codec::exponent && p.exponent.code_bits == 2 && p.element_bytes == 2;
    return waits ? two_bit_codes * cost : cost;
  }

 private:
  /// Units of which records have a part that begin at any multiples of a granule.
  static double begun(double bytes, std::int64_t records, std::int64_t granule, std::int64_t unit) {
    const auto more = records * (unit - std::min(unit, granule));
    return (bytes + static_cast<double>(more)) / static_cast<double>(unit);
  }
  /// The same for rows that lie one behind the other.
  static double begun_on_average(std::int64_t row, std::int64_t unit) {
    std::int64_t units = 0;
    for (std::int64_t k = 0; k < unit; ++k) units += (k * row % unit + row + unit - 1) / unit;
    return static_cast<double>(units) / static_cast<double>(unit);
  }
  double rows_;
};

/// Calls use(candidate) with those that serve a goal at all, raw first. What is longer than the
/// table stays raw when it is made.
template <class Use>
void for_candidates(const table_profile& profile, packing_goal goal, Use&& use) {
  const auto most = static_cast<double>(profile.width * profile.element_bytes);
  for (const auto& e : profile.packings) {
    if (goal == packing_goal::memory && !decodes_quickly(e.how)) continue;
    if (e.row_bytes <= most) use(candidate(e));
    if (goal != packing_goal::link) continue;
    for (std::size_t k = 0; k < e.aligned_row_bytes.size(); ++k) {
      if (e.aligned_row_bytes[k] <= most) use(candidate(e, k));
    }
  }
}

}  // namespace

/// Of equals the first, and that is raw.
packing_estimate choose_packing(const table_profile& profile, packing_goal goal) {
  const link_cost link(profile.rows);
  candidate best(profile.packings.front());
  double least = std::numeric_limits<double>::infinity();
  for_candidates(profile, goal, [&](const candidate& c) {
    const double cost = goal == packing_goal::link ? link(c) : c.row_bytes;
    if (cost >= least) return;
    least = cost;
    best = c;
  });
  auto picked = *best.of;
  picked.how.slot_bytes = best.slot_bytes;
  picked.how.granule = best.granule;
  picked.row_bytes = best.row_bytes;
  return picked;
}

}  // namespace quipu
