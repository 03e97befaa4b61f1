// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/config.hpp"
#include "quipu/math/random.hpp"

namespace quipu::io_detail {

/// Maps 64 random bits to [0, limit) without a division.
QUIPU_HD inline std::uint64_t below(std::uint64_t bits, std::uint64_t limit) {
#ifdef __CUDA_ARCH__
  return __umul64hi(bits, limit);
#else
  __extension__ using wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<wide>(bits) * limit) >> 64);
#endif
}

/// Draws edge number `counter` as the key `receiver << id_bits | sender`, in integers alone, so
/// that host and device agree bit for bit. The first `planted` counters are the edges of the
/// planted row.
struct edge_draw {
  const std::uint64_t* weight_end = nullptr;  // [nodes] inclusive sums of the weights
  const std::uint32_t* guide = nullptr;       // [buckets + 1] first candidate for a range of sums
  int guide_shift = 0;
  int id_bits = 0;
  std::uint64_t nodes = 0;
  std::uint64_t community = 1;
  std::uint64_t total = 0;     // sum of all weights
  std::uint64_t locality = 0;  // share of local edges in units of 2^-32
  std::uint64_t first_stream = 0;
  std::uint64_t second_stream = 0;
  std::uint64_t local_stream = 0;
  std::uint64_t rank_stream = 0;
  std::uint64_t hub = 0;
  std::uint64_t hub_stride = 1;  // coprime with nodes: the walk meets every node once
  std::uint64_t planted = 0;     // edges of the hub; 0: no hub
  bool symmetric = false;

  /// What stands for "no edge": a self loop of the largest id, so it sorts behind all edges.
  QUIPU_HD std::uint64_t nothing() const { return (std::uint64_t{1} << (2 * id_bits)) - 1; }
  QUIPU_HD std::uint64_t row(std::uint64_t key) const { return key >> id_bits; }
  QUIPU_HD std::uint64_t column(std::uint64_t key) const {
    return key & ((std::uint64_t{1} << id_bits) - 1);
  }
  QUIPU_HD std::uint64_t mirrored(std::uint64_t key) const {
    return column(key) << id_bits | row(key);
  }

  /// The node that owns position `t` of [0, total).
  QUIPU_HD std::uint64_t node_at(std::uint64_t t) const {
    std::uint64_t low = guide[t >> guide_shift];
    std::uint64_t high = guide[(t >> guide_shift) + 1];
    while (low < high) {
      const std::uint64_t middle = (low + high) / 2;
      if (weight_end[middle] > t) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  QUIPU_HD std::uint64_t other_end(std::uint64_t first, std::uint64_t counter) const {
    const std::uint64_t h = random_bits(second_stream, counter);
    if ((random_bits(local_stream, counter) >> 32) >= locality) {
      return symmetric ? node_at(below(h, total)) : below(h, nodes);
    }
    const std::uint64_t begin = first / community * community;
    const std::uint64_t end = begin + community < nodes ? begin + community : nodes;
    if (!symmetric) return begin + below(h, end - begin);
    const std::uint64_t before = begin > 0 ? weight_end[begin - 1] : 0;
    return node_at(before + below(h, weight_end[end - 1] - before));
  }

  QUIPU_HD std::uint64_t operator()(std::uint64_t counter) const {
    std::uint64_t to = hub;
    std::uint64_t from = 0;
    if (counter < planted) {
      from = (hub + (counter + 1) * hub_stride) % nodes;
    } else {
      to = node_at(below(random_bits(first_stream, counter), total));
      from = other_end(to, counter);
    }
    if (to == from) return nothing();
    if (symmetric && to > from) return from << id_bits | to;
    return to << id_bits | from;
  }

  /// Surplus edges are dropped by rank, the highest first; edges of the planted row come before
  /// all. Distinct keys have distinct ranks, so no selection has ties.
  QUIPU_HD std::uint64_t rank(std::uint64_t key) const {
    const bool of_hub = planted > 0 && (row(key) == hub || (symmetric && column(key) == hub));
    return of_hub ? 0 : mix_bits(key ^ rank_stream);
  }

  /// True when edge `position` of the sorted keys is one too many for its row.
  QUIPU_HD bool exceeds(const std::uint64_t* keys, std::uint64_t position,
                        std::uint64_t longest) const {
    return position >= longest && row(keys[position - longest]) == row(keys[position]);
  }
};

}  // namespace quipu::io_detail
