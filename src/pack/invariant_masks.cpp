// SPDX-License-Identifier: Apache-2.0
#include "pack/invariant_masks.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "pack/coders.hpp"
#include "pack/with_word.hpp"

namespace quipu::detail {

namespace {

/// splitmix64, by Sebastiano Vigna.
std::uint64_t draw(std::uint64_t& state) {
  std::uint64_t x = state += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// Bits in which two rows differ.
std::int64_t distance(const std::byte* a, const std::byte* b, std::int64_t bytes) {
  std::int64_t bits = 0, i = 0;
  for (; i + 8 <= bytes; i += 8) {
    bits += std::popcount(load_word<std::uint64_t>(a + i) ^ load_word<std::uint64_t>(b + i));
  }
  for (; i < bytes; ++i) bits += std::popcount(static_cast<std::uint8_t>(a[i] ^ b[i]));
  return bits;
}

/// Bits set in some rows: a sum of ones for each bit of 32 bytes, from `from` on. Rows are counted
/// 255 at a time in eight planes, a bit of the counts each, by adders of one bit.
template <class RowAt>
void count_block(std::int64_t rows, RowAt row_at, std::int64_t from, std::int64_t bytes,
                 std::uint32_t* ones) {
  constexpr int planes = 8, words = 4;
  for (std::int64_t first = 0; first < rows; first += 255) {
    std::uint64_t plane[planes][words] = {};
    for (auto i = first; i < std::min(rows, first + 255); ++i) {
      std::uint64_t carry[words] = {};
      std::memcpy(carry, row_at(i) + from, static_cast<std::size_t>(bytes));
      for (auto& p : plane) {
        for (int w = 0; w < words; ++w) {
          const auto next = p[w] & carry[w];
          p[w] ^= carry[w];
          carry[w] = next;
        }
      }
    }
    for (std::int64_t bit = 0; bit < 8 * bytes; ++bit) {
      for (int k = 0; k < planes; ++k) {
        ones[bit] += static_cast<std::uint32_t>(plane[k][bit / 64] >> (bit % 64) & 1) << k;
      }
    }
  }
}

template <class RowAt>
std::vector<std::uint32_t> count_rows(std::int64_t rows, RowAt row_at, std::int64_t row_bytes) {
  constexpr std::int64_t block = 32;
  std::vector<std::uint32_t> ones(static_cast<std::size_t>(8 * row_bytes));
  for (std::int64_t from = 0; from < row_bytes; from += block) {
    // A whole block's size is known to the compiler.
    if (row_bytes - from >= block) {
      count_block(rows, row_at, from, block, ones.data() + 8 * from);
    } else {
      count_block(rows, row_at, from, row_bytes - from, ones.data() + 8 * from);
    }
  }
  return ones;
}

/// Bits set in rows of a cluster, and how many rows it has.
struct cluster_counts {
  std::vector<std::uint32_t> ones;
  std::int64_t rows = 0;
};

std::vector<cluster_counts> count_clusters(const sampled_table& s,
                                           const std::vector<std::int32_t>& cluster_of,
                                           std::int32_t clusters) {
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(clusters));
  for (std::size_t i = 0; i < cluster_of.size(); ++i) {
    rows[static_cast<std::size_t>(cluster_of[i])].push_back(static_cast<std::int64_t>(i));
  }
  std::vector<cluster_counts> counts;
  for (const auto& of_cluster : rows) {
    const auto size = static_cast<std::int64_t>(of_cluster.size());
    const auto row_at = [&](std::int64_t k) {
      return s.row(of_cluster[static_cast<std::size_t>(k)]);
    };
    counts.push_back({count_rows(size, row_at, s.row_bytes()), size});
  }
  return counts;
}

/// Lloyd's k-means with Hamming distances: a centre has each bit as most of its rows have it. Ties
/// go to the lower cluster; a cluster that loses all its rows keeps its centre.
std::vector<std::int32_t> cluster_rows(const sampled_table& s, std::int32_t clusters,
                                       std::uint64_t seed) {
  constexpr int rounds = 10;
  std::vector<std::int32_t> cluster_of(static_cast<std::size_t>(s.rows), 0);
  if (clusters == 1) return cluster_of;
  const auto bytes = s.row_bytes();
  std::vector<std::byte> centres(static_cast<std::size_t>(clusters * bytes));
  for (std::int32_t c = 0; c < clusters; ++c) {
    const auto row = static_cast<std::int64_t>(draw(seed) % static_cast<std::uint64_t>(s.rows));
    std::copy_n(s.row(row), bytes, centres.begin() + c * bytes);
  }
  for (int round = 0; round < rounds; ++round) {
    bool moved = false;
    for (std::int64_t i = 0; i < s.rows; ++i) {
      std::int64_t least = -1;
      std::int32_t nearest = 0;
      for (std::int32_t c = 0; c < clusters; ++c) {
        const auto d = distance(s.row(i), centres.data() + c * bytes, bytes);
        if (least < 0 || d < least) {
          least = d;
          nearest = c;
        }
      }
      auto& now = cluster_of[static_cast<std::size_t>(i)];
      moved = moved || now != nearest;
      now = nearest;
    }
    if (!moved && round > 0) break;
    const auto counts = count_clusters(s, cluster_of, clusters);
    for (std::int32_t c = 0; c < clusters; ++c) {
      const auto& here = counts[static_cast<std::size_t>(c)];
      if (here.rows == 0) continue;
      for (std::int64_t i = 0; i < bytes; ++i) {
        unsigned byte = 0;
        for (int bit = 0; bit < 8; ++bit) {
          byte |= (2 * here.ones[static_cast<std::size_t>(8 * i + bit)] > here.rows ? 1u : 0u)
                  << bit;
        }
        centres[static_cast<std::size_t>(c * bytes + i)] = static_cast<std::byte>(byte);
      }
    }
  }
  return cluster_of;
}

/// A mask and a value for each cluster, [clusters, row bytes].
struct masks {
  std::vector<std::byte> mask, value;
};

/// Bits that agree in at least `threshold` of a cluster's rows.
masks make_masks(const std::vector<cluster_counts>& counts, double threshold,
                 std::int64_t row_bytes) {
  masks m;
  m.mask.assign(counts.size() * static_cast<std::size_t>(row_bytes), std::byte{0});
  m.value = m.mask;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const auto rows = counts[c].rows;
    for (std::size_t bit = 0; bit < counts[c].ones.size(); ++bit) {
      const std::int64_t ones = counts[c].ones[bit];
      const auto agree = std::max(ones, rows - ones);
      if (static_cast<double>(agree) < threshold * static_cast<double>(rows)) continue;
      const auto at = c * static_cast<std::size_t>(row_bytes) + bit / 8;
      m.mask[at] |= std::byte{1} << (bit % 8);
      if (2 * ones > rows) m.value[at] |= std::byte{1} << (bit % 8);
    }
  }
  return m;
}

/// A row of bytes as units; the last one may be short, and has zeros for what it lacks.
template <class Unit>
void to_units(const std::byte* from, std::int64_t bytes, std::vector<Unit>& to) {
  to.back() = 0;
  std::memcpy(to.data(), from, static_cast<std::size_t>(bytes));
}

/// For each unit and cluster the one of `choices` that leaves most bits out of a few of the rows;
/// with the bits that these rows then take, participation bits counted. Of equals the first.
template <class Unit>
std::pair<masks, std::int64_t> best_by_unit(const sampled_table& s,
                                            const std::vector<std::int32_t>& cluster_of,
                                            std::int32_t clusters,
                                            const std::vector<masks>& choices) {
  constexpr std::int64_t enough = 1 << 18;  // bytes of rows to look at
  constexpr auto unit_bytes = static_cast<std::int64_t>(sizeof(Unit));
  const auto bytes = s.row_bytes();
  const auto units = static_cast<std::size_t>(round_up(bytes, unit_bytes) / unit_bytes);
  const auto few = std::clamp<std::int64_t>(enough / bytes, 1, s.rows);
  const auto step = s.rows / few;
  std::vector<std::int64_t> most(static_cast<std::size_t>(clusters) * units, -1);
  masks best = choices.front();
  std::vector<Unit> row(units), mask(units), value(units);
  std::vector<std::int64_t> matches(units);
  for (std::int32_t c = 0; c < clusters; ++c) {
    for (const auto& choice : choices) {
      to_units(choice.mask.data() + c * bytes, bytes, mask);
      to_units(choice.value.data() + c * bytes, bytes, value);
      std::fill(matches.begin(), matches.end(), 0);
      for (std::int64_t i = 0; i < few; ++i) {
        if (cluster_of[static_cast<std::size_t>(i * step)] != c) continue;
        to_units(s.row(i * step), bytes, row);
        for (std::size_t u = 0; u < units; ++u) matches[u] += (row[u] & mask[u]) == value[u];
      }
      for (std::size_t u = 0; u < units; ++u) {
        const auto saved = matches[u] * std::popcount(mask[u]);
        auto& so_far = most[static_cast<std::size_t>(c) * units + u];
        if (saved <= so_far) continue;
        so_far = saved;
        const auto at = static_cast<std::int64_t>(u) * unit_bytes;
        const auto there = std::min(unit_bytes, bytes - at);
        std::copy_n(choice.mask.data() + c * bytes + at, there, best.mask.data() + c * bytes + at);
        std::copy_n(choice.value.data() + c * bytes + at, there,
                    best.value.data() + c * bytes + at);
      }
    }
  }
  const auto saved = std::accumulate(most.begin(), most.end(), std::int64_t{0});
  return {std::move(best), few * (8 * bytes + static_cast<std::int64_t>(units)) - saved};
}

}  // namespace

std::vector<std::int64_t> record_sizes(const sampled_table& s, const packing& p) {
  const record_shape shape(p.width);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(s.rows * shape.records));
  with_coder(p, [&](const auto& coder) {
    for (std::int64_t i = 0; i < s.rows; ++i) {
      for (std::int64_t k = 0; k < shape.records; ++k) {
        sizes[static_cast<std::size_t>(i * shape.records + k)] =
            coder.size(s.row(i) + shape.begin(k) * p.element_bytes, shape.begin(k), shape.count(k));
      }
    }
  });
  return sizes;
}

std::vector<std::uint32_t> count_ones(const sampled_table& s) {
  return count_rows(
      s.rows, [&](std::int64_t i) { return s.row(i); }, s.row_bytes());
}

packing find_invariant(const sampled_table& s, const std::vector<std::uint32_t>& ones,
                       const profile_options& o) {
  const auto clusters = static_cast<std::int32_t>(
      std::min<std::int64_t>(o.clusters, std::max<std::int64_t>(1, s.rows)));
  const auto cluster_of = cluster_rows(s, clusters, o.seed);
  const auto counts = clusters == 1 ? std::vector<cluster_counts>{{ones, s.rows}}
                                    : count_clusters(s, cluster_of, clusters);
  packing p;
  p.how = codec::invariant;
  p.format = s.format;
  p.element_bytes = s.element_bytes;
  p.width = s.width;
  p.granule = least_granule(p);
  p.invariant.clusters = clusters;
  std::vector<masks> choices;
  if (o.threshold >= 0) {
    choices.push_back(make_masks(counts, o.threshold, s.row_bytes()));
  } else {
    for (int step = 20; step >= 14; --step) {
      choices.push_back(make_masks(counts, step / 20.0, s.row_bytes()));
    }
  }
  // Half as many units decode about twice as fast, so smaller ones must save a fiftieth.
  std::int64_t least = 0;
  for (std::int32_t unit = 8; unit >= s.element_bytes; unit /= 2) {
    auto [chosen, bits] = with_word(
        unit, [&]<class Unit>() { return best_by_unit<Unit>(s, cluster_of, clusters, choices); });
    if (unit == 8 || 50 * bits < 49 * least) {
      least = bits;
      p.invariant.unit_bytes = unit;
      p.invariant.mask = std::move(chosen.mask);
      p.invariant.value = std::move(chosen.value);
    }
  }
  return p;
}

}  // namespace quipu::detail
