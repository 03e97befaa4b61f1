// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "pack/check_pack.hpp"
#include "pack/coders.hpp"
#include "pack/invariant_masks.hpp"
#include "quipu/engine/host_engine.hpp"
#include "quipu/pack/detail/pack_tuning.hpp"

namespace quipu {

namespace {

using detail::exponent_field_of;
using detail::sampled_table;

/// The two most frequent of some 16384 elements, spread evenly, and the share of the first.
struct usual_elements {
  std::uint64_t first = 0, second = 1;
  double share = 0;
};
template <class Word>
usual_elements find_usual(const sampled_table& s) {
  usual_elements found;
  const std::int64_t elements = s.rows * s.width;
  const std::int64_t step = std::max<std::int64_t>(1, elements / 16384) | 1;
  std::vector<Word> some;
  for (std::int64_t i = 0; i < elements; i += step) {
    some.push_back(
        detail::load_word<Word>(s.bytes.data() + i * static_cast<std::int64_t>(sizeof(Word))));
  }
  std::sort(some.begin(), some.end());
  std::ptrdiff_t first_count = 0, second_count = 0;
  for (auto at = some.begin(); at != some.end();) {
    const auto end = std::upper_bound(at, some.end(), *at);
    if (end - at > first_count) {
      found.second = found.first;
      second_count = first_count;
      found.first = *at;
      first_count = end - at;
    } else if (end - at > second_count) {
      found.second = *at;
      second_count = end - at;
    }
    at = end;
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
  const auto row_bytes = [&](std::int64_t granule) {
    std::int64_t bytes = 0;
    for (std::size_t r = 0; r < sizes.size(); ++r) {
      const auto part = static_cast<std::int64_t>(r) % shape.records;
      const auto whole = shape.count(part) * p.element_bytes;
      bytes += detail::round_up(sizes[r] < 0 ? whole : sizes[r], granule) + 4;
    }
    return static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, s.rows));
  };
  packing_estimate e{{}, row_bytes(p.granule), {}};
  std::transform(detail::link_tuning::alignments.begin(), detail::link_tuning::alignments.end(),
                 e.aligned_row_bytes.begin(), row_bytes);
  e.how = std::move(p);
  return e;
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
  const auto records = static_cast<double>(shape.records);
  packing_estimate e{std::move(p), least * records, {}};
  for (std::size_t k = 0; k < e.aligned_row_bytes.size(); ++k) {
    const auto longer = detail::round_up(best, detail::link_tuning::alignments[k]) - best;
    e.aligned_row_bytes[k] = e.row_bytes + records * static_cast<double>(longer);
  }
  return e;
}

/// Bits outside the exponent that all elements share, and what they are.
template <class Word>
void find_constants(const sampled_table& s, packing& p) {
  const auto field = exponent_field_of(p.format);
  const auto exponent = low_bits<std::uint32_t>(field.bits) << field.shift;
  const auto first = detail::load_word<Word>(s.bytes.data());
  Word differing = 0;
  for (std::int64_t i = 0; i < s.rows * s.width; ++i) {
    const auto x =
        detail::load_word<Word>(s.bytes.data() + i * static_cast<std::int64_t>(sizeof(Word)));
    differing = static_cast<Word>(differing | (first ^ x));
  }
  p.exponent.constant_mask = ~(differing | exponent) & low_bits<std::uint32_t>(8 * s.element_bytes);
  p.exponent.constant_value = first & p.exponent.constant_mask;
}

/// How often each exponent comes up, and each symbol if every column's base is its most frequent
/// exponent.
struct exponent_counts {
  std::vector<std::uint64_t> plain, moved;  // [exponents]
  std::vector<std::uint8_t> modes;          // [width]
};

/// Columns are counted a few at a time, so that their counts stay in the cache.
template <class Word>
exponent_counts count_exponents(const sampled_table& s) {
  const auto field = exponent_field_of(s.format);
  const auto exponents = std::size_t{1} << field.bits;
  constexpr std::int64_t block = 64;
  exponent_counts counts{std::vector<std::uint64_t>(exponents),
                         std::vector<std::uint64_t>(exponents),
                         std::vector<std::uint8_t>(static_cast<std::size_t>(s.width))};
  std::vector<std::uint32_t> here(block * exponents);
  for (std::int64_t from = 0; from < s.width; from += block) {
    const auto columns = std::min(block, s.width - from);
    std::fill(here.begin(), here.end(), 0u);
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const auto* x = s.row(i) + from * static_cast<std::int64_t>(sizeof(Word));
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto e = detail::load_word<Word>(x + c * static_cast<std::int64_t>(sizeof(Word))) >>
                           field.shift &
                       (exponents - 1);
        ++here[static_cast<std::size_t>(c) * exponents + e];
      }
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto of_column =
          std::span(here).subspan(static_cast<std::size_t>(c) * exponents, exponents);
      const auto mode = static_cast<std::size_t>(
          std::max_element(of_column.begin(), of_column.end()) - of_column.begin());
      counts.modes[static_cast<std::size_t>(from + c)] = static_cast<std::uint8_t>(mode);
      for (std::size_t e = 0; e < exponents; ++e) {
        counts.plain[e] += of_column[e];
        counts.moved[e] += of_column[(e + mode) & (exponents - 1)];
      }
    }
  }
  return counts;
}

/// Codes for symbols that are so frequent, most frequent first.
void make_codes(const std::vector<std::uint64_t>& symbols, packing& p) {
  std::vector<std::uint8_t> order(symbols.size());
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint8_t a, std::uint8_t b) { return symbols[a] > symbols[b]; });
  const auto usual = static_cast<std::size_t>((1 << p.exponent.code_bits) - 1);
  std::copy_n(order.begin(), 7, p.exponent.usual.begin());
  std::copy_n(order.begin() + static_cast<std::ptrdiff_t>(usual), 7, p.exponent.next.begin());
}

/// The exponent packing with codes of so many bits; columns are moved where that saves a hundredth.
packing_estimate estimate_exponent(const sampled_table& s, const exponent_counts& counts, packing p,
                                   int code_bits) {
  p.exponent.code_bits = code_bits;
  make_codes(counts.plain, p);
  auto plain = estimate_slots(s, p);
  p.exponent.base = counts.modes;
  make_codes(counts.moved, p);
  auto moved = estimate_slots(s, p);
  return moved.row_bytes < 0.99 * plain.row_bytes ? std::move(moved) : std::move(plain);
}

// What is found out side by side, each by a thread of its own: parts of a profile.
struct profile_parts {
  std::vector<std::uint32_t> ones;
  exponent_counts exponents;
  usual_elements usual;
  std::optional<packing_estimate> invariant, three_bits, two_bits, sparse;
};

template <class Word>
void look_at_exponents(const sampled_table& s, profile_parts& parts) {
  auto p = like(s, codec::exponent);
  parts.exponents = count_exponents<Word>(s);
  find_constants<Word>(s, p);
  parts.three_bits = estimate_exponent(s, parts.exponents, p, 3);
  parts.two_bits = estimate_exponent(s, parts.exponents, std::move(p), 2);
}

void look_at(int part, const sampled_table& s, const profile_options& o, profile_parts& parts) {
  if (part == 0) {
    parts.ones = detail::count_ones(s);
    parts.invariant = estimate_addressed(s, detail::find_invariant(s, parts.ones, o));
  } else if (part == 1) {
    parts.usual =
        detail::with_word(s.element_bytes, [&]<class Word>() { return find_usual<Word>(s); });
    auto p = like(s, codec::sparse);
    p.sparse = {parts.usual.first, parts.usual.second};
    parts.sparse = estimate_addressed(s, std::move(p));
  } else if (s.format == number_format::float32) {
    look_at_exponents<std::uint32_t>(s, parts);
  } else if (s.format != number_format::bits) {
    look_at_exponents<std::uint16_t>(s, parts);
  }
}

}  // namespace

namespace detail {

spread_rows choose_rows(const table_view& t, const profile_options& o) {
  constexpr std::int64_t enough = 1 << 20;  // elements
  const auto few = std::clamp<std::int64_t>(enough / std::max<std::int64_t>(1, t.width), 1, 4096);
  const auto most = o.sample_rows < 0 ? few : o.sample_rows == 0 ? t.rows : o.sample_rows;
  return {t.rows, std::min(t.rows, most)};
}

status check_profile(const table_view& t, const profile_options& o) {
  const auto raw = raw_packing(t);
  if (auto s = validate(raw); !s.ok()) return s;
  if (auto s = check_table(t, raw, input_messages); !s.ok()) return s;
  if (!(o.threshold <= 1)) return wrong_argument("threshold: above 1, or NaN");
  if (o.clusters < 1 || o.clusters > 255) {
    return wrong_argument("clusters: not 1 to 255", 255, o.clusters);
  }
  return success();
}

result<table_profile> profile_sample(const host_context& ctx, const sampled_table& s,
                                     std::int64_t rows, const profile_options& o) {
  table_profile profile;
  profile.rows = rows;
  profile.sampled_rows = s.rows;
  profile.width = s.width;
  profile.element_bytes = s.element_bytes;
  profile.format = s.format;
  auto raw = like(s, codec::raw);
  raw.slot_bytes = record_shape(s.width).elements * s.element_bytes;
  const auto row_bytes = static_cast<double>(s.row_bytes());
  profile.packings.push_back({std::move(raw), row_bytes, {row_bytes, row_bytes, row_bytes}});
  if (s.rows == 0 || s.width == 0) return profile;
  profile_parts parts;
  if (auto done = parallel_pieces(
          ctx, 3, 1,
          [&](std::int64_t part, std::int64_t) { look_at(static_cast<int>(part), s, o, parts); });
      !done.ok()) {
    return failure(status_code::out_of_memory, "not enough host memory for a profile");
  }
  profile.ones = std::move(parts.ones);
  profile.exponents = std::move(parts.exponents.plain);
  profile.fill = parts.usual.first;
  profile.fill_share = parts.usual.share;
  for (auto* e : {&parts.invariant, &parts.three_bits, &parts.two_bits, &parts.sparse}) {
    if (!*e) continue;
    const auto columns = static_cast<double>((*e)->how.column_bytes()) / static_cast<double>(rows);
    (*e)->row_bytes += columns;
    for (auto& bytes : (*e)->aligned_row_bytes) bytes += columns;
    profile.packings.push_back(**std::move(e));
  }
  return profile;
}

}  // namespace detail

}  // namespace quipu
