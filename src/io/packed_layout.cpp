// SPDX-License-Identifier: Apache-2.0
#include "packed_layout.hpp"

#include <algorithm>
#include <utility>

#include "pack/coders.hpp"

namespace quipu::io_detail {

const char* wrong_size(const packing& p, std::int64_t rows, std::int64_t used,
                       std::int64_t address_bytes) noexcept {
  const record_shape shape(p.width);
  if (rows < 0) return "packed: rows are negative";
  if (used < 0) return "packed: used is negative";
  const bool has_records = rows > 0 && shape.records > 0;
  if (!has_records || p.has_slots()) {
    if (address_bytes != 0) return "packed: addresses of records that have none";
  }
  if (!has_records) return used == 0 ? nullptr : "packed: bytes of rows that are not there";
  if (p.has_slots()) {
    if (rows > used / slot_bytes_of_row(p)) return "packed: used ends before the last slot";
    const auto overflow = used - rows * slot_bytes_of_row(p);
    const bool whole_records = overflow % (shape.elements * p.element_bytes) == 0;
    const bool fits = p.how == codec::raw ? overflow == 0 : whole_records;
    return fits ? nullptr : "packed: used does not end with a record";
  }
  if (rows > address_bytes / 4 / shape.records || address_bytes != 4 * rows * shape.records) {
    return "packed: addresses are not as many as records";
  }
  return used % p.granule == 0 ? nullptr : "packed: used does not end with a record";
}

address_order order_addresses(std::span<const std::uint32_t> addresses, std::int64_t used,
                              std::int64_t granule) {
  bool rise = true;
  std::int64_t before = -1;
  for (const auto address : addresses) {
    const std::int64_t at = address & ~detail::whole_flag;
    if (at >= used / granule) return {"packed: an address lies behind the records", {}};
    rise = rise && at > before;
    before = at;
  }
  if (rise) return {};
  std::vector<std::uint32_t> sorted(addresses.begin(), addresses.end());
  for (auto& address : sorted) address &= ~detail::whole_flag;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return {"packed: two records have one address", {}};
  }
  return {nullptr, std::move(sorted)};
}

}  // namespace quipu::io_detail
