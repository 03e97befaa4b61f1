// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <new>
#include <numeric>

#include "pack/check_pack.hpp"
#include "pack/coders.hpp"
#include "pack/invariant_masks.hpp"
#include "quipu/pack/profile.hpp"

namespace quipu {

namespace {

using detail::exponent_field_of;
using detail::sampled_table;

std::uint64_t element_at(const std::byte* from, std::int32_t bytes) {
  std::uint64_t x = 0;
  std::memcpy(&x, from, static_cast<std::size_t>(bytes));
  return x;
}

/// Rows of the table, spread evenly, side by side.
sampled_table sample(const table_view& t, std::int64_t most) {
  sampled_table s;
  s.rows = most == 0 ? t.rows : std::min(t.rows, most);
  s.width = t.width;
  s.element_bytes = t.element_bytes;
  s.format = t.format;
  s.bytes.resize(static_cast<std::size_t>(s.rows * s.row_bytes()));
  for (std::int64_t k = 0; k < s.rows && s.row_bytes() > 0; ++k) {
    const auto row = s.rows == t.rows ? k : k * (t.rows / s.rows) + k * (t.rows % s.rows) / s.rows;
    std::memcpy(s.bytes.data() + k * s.row_bytes(), t.row(row),
                static_cast<std::size_t>(s.row_bytes()));
  }
  return s;
}

/// The two most frequent of up to 65536 elements, and the share of the first.
struct usual_elements {
  std::uint64_t first = 0, second = 1;
  double share = 0;
};
usual_elements find_usual(const sampled_table& s) {
  usual_elements found;
  const std::int64_t elements = s.rows * s.width;
  const std::int64_t step = std::max<std::int64_t>(1, elements / 65536) | 1;
  std::vector<std::uint64_t> some;
  for (std::int64_t i = 0; i < elements; i += step) {
    some.push_back(element_at(s.bytes.data() + i * s.element_bytes, s.element_bytes));
  }
  std::sort(some.begin(), some.end());
  std::size_t first_count = 0, second_count = 0;
  for (std::size_t i = 0; i < some.size();) {
    const auto end = static_cast<std::size_t>(
        std::upper_bound(some.begin() + static_cast<std::ptrdiff_t>(i), some.end(), some[i]) -
        some.begin());
    const auto count = end - i;
    if (count > first_count) {
      found.second = found.first;
      second_count = first_count;
      found.first = some[i];
      first_count = count;
    } else if (count > second_count) {
      found.second = some[i];
      second_count = count;
    }
    i = end;
  }
  if (!some.empty()) {
    found.share = static_cast<double>(first_count) / static_cast<double>(some.size());
  }
  return found;
}

packing like(const sampled_table& s, codec how) {
  packing p;
  p.how = how;
  p.format = s.format;
  p.element_bytes = s.element_bytes;
  p.width = s.width;
  return p;
}

/// Bytes of a row where records have addresses.
packing_estimate estimate_addressed(const sampled_table& s, packing p) {
  p.granule = least_granule(p);
  const record_shape shape(p.width);
  const auto sizes = detail::record_sizes(s, p);
  std::int64_t bytes = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const auto part = static_cast<std::int64_t>(r) % shape.records;
    const auto whole = shape.count(part) * p.element_bytes;
    bytes += detail::round_up(sizes[r] < 0 ? whole : sizes[r], p.granule) + 4;
  }
  const auto rows = static_cast<double>(std::max<std::int64_t>(1, s.rows));
  return {std::move(p), static_cast<double>(bytes) / rows};
}

/// Gives a packing the slots that cost least: longer ones for all, or overflow for some.
packing_estimate estimate_slots(const sampled_table& s, packing p) {
  const record_shape shape(p.width);
  const auto record_bytes = shape.elements * p.element_bytes;
  const std::int64_t unit = record_bytes <= 512 ? 8 : record_bytes <= 2048 ? 16 : 32;
  p.slot_bytes = detail::round_up(record_bytes, unit);
  auto sizes = detail::record_sizes(s, p);
  for (auto& size : sizes) {
    if (size < 0) size = std::numeric_limits<std::int64_t>::max();
  }
  std::sort(sizes.begin(), sizes.end());
  const auto count = static_cast<double>(std::max<std::size_t>(1, sizes.size()));
  double least = std::numeric_limits<double>::infinity();
  std::int64_t best = unit;
  for (std::int64_t slot = unit; slot <= detail::round_up(record_bytes, unit); slot += unit) {
    const auto over = sizes.end() - std::upper_bound(sizes.begin(), sizes.end(), slot);
    const double bytes = static_cast<double>(slot) +
                         static_cast<double>(over) / count * static_cast<double>(record_bytes);
    if (bytes < least) {
      least = bytes;
      best = slot;
    }
  }
  p.slot_bytes = best;
  return {std::move(p), least * static_cast<double>(shape.records)};
}

/// Bits outside the exponent that all elements share, and what they are.
void find_constants(const sampled_table& s, packing& p) {
  const auto field = exponent_field_of(p.format);
  const auto exponent = low_bits<std::uint32_t>(field.bits) << field.shift;
  const auto first = static_cast<std::uint32_t>(element_at(s.bytes.data(), s.element_bytes));
  std::uint32_t differing = 0;
  for (std::int64_t i = 0; i < s.rows * s.width; ++i) {
    differing |= first ^ static_cast<std::uint32_t>(
                             element_at(s.bytes.data() + i * s.element_bytes, s.element_bytes));
  }
  p.exponent.constant_mask = ~(differing | exponent) & low_bits<std::uint32_t>(8 * s.element_bytes);
  p.exponent.constant_value = first & p.exponent.constant_mask;
}

/// How often each exponent comes up in each column, [width, exponents].
std::vector<std::uint32_t> count_exponents(const sampled_table& s) {
  const auto field = exponent_field_of(s.format);
  const auto exponents = low_bits<std::uint32_t>(field.bits);
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(s.width) * (exponents + 1));
  for (std::int64_t i = 0; i < s.rows * s.width; ++i) {
    const auto x = static_cast<std::uint32_t>(
        element_at(s.bytes.data() + i * s.element_bytes, s.element_bytes));
    ++counts[static_cast<std::size_t>(i % s.width) * (exponents + 1) +
             (x >> field.shift & exponents)];
  }
  return counts;
}

/// Codes for the symbols that are left when columns are moved by `base`, most frequent first.
void make_codes(const std::vector<std::uint32_t>& counts, std::size_t exponents, packing& p) {
  std::vector<std::uint64_t> symbols(exponents);
  for (std::size_t column = 0; column * exponents < counts.size(); ++column) {
    const std::size_t base = p.exponent.base.empty() ? 0 : p.exponent.base[column];
    const auto* of_column = counts.data() + column * exponents;
    for (std::size_t e = 0; e < exponents; ++e) {
      symbols[(e - base) & (exponents - 1)] += of_column[e];
    }
  }
  std::vector<std::uint8_t> order(exponents);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint8_t a, std::uint8_t b) { return symbols[a] > symbols[b]; });
  const auto usual = static_cast<std::size_t>((1 << p.exponent.code_bits) - 1);
  std::copy_n(order.begin(), 7, p.exponent.usual.begin());
  std::copy_n(order.begin() + static_cast<std::ptrdiff_t>(usual), 7, p.exponent.next.begin());
}

/// The exponent packings, with 3 and with 2 bits; columns are moved where that saves a hundredth.
void estimate_exponent(const sampled_table& s, table_profile& profile) {
  const auto field = exponent_field_of(s.format);
  const auto exponents = std::size_t{1} << field.bits;
  const auto counts = count_exponents(s);
  profile.exponents.assign(exponents, 0);
  std::vector<std::uint8_t> modes(static_cast<std::size_t>(s.width));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    profile.exponents[i % exponents] += counts[i];
    auto& mode = modes[i / exponents];
    if (counts[i] > counts[i - i % exponents + mode])
      mode = static_cast<std::uint8_t>(i % exponents);
  }
  auto p = like(s, codec::exponent);
  find_constants(s, p);
  for (const int bits : {3, 2}) {
    p.exponent.code_bits = bits;
    p.exponent.base.clear();
    make_codes(counts, exponents, p);
    auto plain = estimate_slots(s, p);
    p.exponent.base = modes;
    make_codes(counts, exponents, p);
    auto moved = estimate_slots(s, p);
    profile.packings.push_back(moved.row_bytes < 0.99 * plain.row_bytes ? std::move(moved)
                                                                        : std::move(plain));
  }
}

status check_options(const profile_options& o) {
  if (!(o.threshold <= 1)) return detail::wrong_argument("threshold: above 1, or NaN");
  if (o.clusters < 1 || o.clusters > 255) {
    return detail::wrong_argument("clusters: not 1 to 255", 255, o.clusters);
  }
  return success();
}

}  // namespace

result<table_profile> make_profile(const host_context&, const table_view& t,
                                   const profile_options& o) {
  const auto raw = raw_packing(t);
  if (auto s = validate(raw); !s.ok()) return s;
  if (auto s = detail::check_table(t, raw, detail::input_messages); !s.ok()) return s;
  if (auto s = check_options(o); !s.ok()) return s;
  try {
    constexpr std::int64_t enough = 1 << 20;  // elements
    const auto few = std::clamp<std::int64_t>(enough / std::max<std::int64_t>(1, t.width), 1, 4096);
    const auto s = sample(t, o.sample_rows < 0 ? few : o.sample_rows);
    table_profile profile;
    profile.rows = t.rows;
    profile.sampled_rows = s.rows;
    profile.width = s.width;
    profile.element_bytes = s.element_bytes;
    profile.format = s.format;
    profile.packings.push_back({raw, static_cast<double>(t.row_bytes())});
    if (s.rows == 0 || s.width == 0) return profile;
    profile.ones = detail::count_ones(s);
    profile.packings.push_back(estimate_addressed(s, detail::find_invariant(s, profile.ones, o)));
    if (s.format != number_format::bits) estimate_exponent(s, profile);
    const auto usual = find_usual(s);
    profile.fill = usual.first;
    profile.fill_share = usual.share;
    auto sparse = like(s, codec::sparse);
    sparse.sparse = {usual.first, usual.second};
    profile.packings.push_back(estimate_addressed(s, std::move(sparse)));
    for (auto& e : profile.packings) {
      e.row_bytes += static_cast<double>(e.how.column_bytes()) / static_cast<double>(t.rows);
    }
    return profile;
  } catch (const std::bad_alloc&) {
    return failure(status_code::out_of_memory, "not enough host memory for a profile");
  }
}

const packing_estimate& choose_packing(const table_profile& profile, packing_goal goal) {
  const auto decodes_quickly = [](const packing& p) {
    return p.how == codec::raw || p.how == codec::sparse ||
           (p.how == codec::exponent && p.exponent.code_bits == 3);
  };
  const auto* best = &profile.packings.front();
  for (const auto& e : profile.packings) {
    if (goal == packing_goal::memory && !decodes_quickly(e.how)) continue;
    if (e.row_bytes < best->row_bytes) best = &e;
  }
  return *best;
}

}  // namespace quipu
