// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/detail/device_columns.hpp"

#include <bit>
#include <cstring>

namespace quipu::detail {

std::vector<std::uint64_t> bits_outside(const packing& p) {
  const auto row_bytes = p.width * p.element_bytes;
  const std::int64_t unit = p.invariant.unit_bytes;
  const auto units = round_up(row_bytes, unit) / unit;
  std::vector<std::uint64_t> outside;
  outside.reserve(static_cast<std::size_t>(p.invariant.clusters * units));
  for (std::int64_t c = 0; c < p.invariant.clusters; ++c) {
    for (std::int64_t u = 0; u < units; ++u) {
      std::uint64_t mask = 0;
      const auto there = std::min(unit, row_bytes - u * unit);
      std::memcpy(&mask, p.invariant.mask.data() + c * row_bytes + u * unit,
                  static_cast<std::size_t>(there));
      outside.push_back(~mask & low_bits<std::uint64_t>(static_cast<int>(8 * there)));
    }
  }
  return outside;
}

std::vector<std::byte> device_columns(const packing& p) {
  std::vector<std::byte> bytes;
  if (p.how == codec::exponent) {
    bytes.resize(
        static_cast<std::size_t>(round_up(static_cast<std::int64_t>(p.exponent.base.size()), 16)));
    std::copy_n(reinterpret_cast<const std::byte*>(p.exponent.base.data()), p.exponent.base.size(),
                bytes.begin());
  }
  if (p.how != codec::invariant) return bytes;
  const auto outside = bits_outside(p);
  const auto row_bytes = p.width * p.element_bytes;
  const std::int64_t unit = p.invariant.unit_bytes;
  std::int32_t runs = 0;
  for (const auto bits : outside) runs = std::max(runs, count_runs(bits));
  const invariant_columns at(p.invariant.clusters, row_bytes, unit);
  bytes.resize(static_cast<std::size_t>(at.bytes(runs)));
  std::memcpy(bytes.data(), &runs, sizeof runs);
  const auto units = round_up(row_bytes, unit) / unit;
  for (std::int64_t n = 0; n < p.invariant.clusters * units; ++n) {
    const auto c = n / units, u = n % units, i = c * at.units + u;
    std::memcpy(bytes.data() + at.value() + i * unit,
                p.invariant.value.data() + c * row_bytes + u * unit,
                static_cast<std::size_t>(std::min(unit, row_bytes - u * unit)));
    auto left = outside[static_cast<std::size_t>(n)];
    bytes[static_cast<std::size_t>(at.kept() + i)] = static_cast<std::byte>(std::popcount(left));
    for (int run = 0, taken = 0; left != 0; ++run) {
      const auto r = take_run(left, taken);
      std::memcpy(bytes.data() + at.mask(run) + i * unit, &r.mask, static_cast<std::size_t>(unit));
      bytes[static_cast<std::size_t>(at.gap(run) + i)] = static_cast<std::byte>(r.gap);
    }
  }
  return bytes;
}

}  // namespace quipu::detail
