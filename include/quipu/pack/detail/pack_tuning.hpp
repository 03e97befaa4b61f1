// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "quipu/pack/packing.hpp"

/// Numbers of packing, measured on an H200, 2026-11 (docs/performance.md).
namespace quipu::detail {

/// Threads of a block at most, and blocks that share a multiprocessor: the fewer registers a reader
/// has, the more of its loads are under way.
template <int Threads, int Blocks>
struct residence {
  static constexpr int threads = Threads, blocks = Blocks;
};

/// Of readers whose lanes take `each` elements, or units, at once.
template <codec Codec, int Each, int Lanes>
using reader_residence = std::conditional_t < Codec == codec::sparse &&Each <= 8,
      residence<768, 2>,
      std::conditional_t<Codec == codec::invariant && Each <= 8 &&
                         Lanes<32, residence<640, 2>, residence<1024, 1>>>;

/// A link to memory of the host, by which a device reads rows.
struct link_tuning {
  /// It fetches sectors, and takes for every line that has some of them as long as for so many
  /// bytes more.
  static constexpr std::int64_t sector = 32, line = 128;
  static constexpr double a_line_more = 80;
  /// Records may begin at multiples of these.
  static constexpr std::array<std::int64_t, 3> alignments = {32, 64, 128};
  /// So many times as long take codes of 2 bits of elements of two bytes: long records wait for
  /// more fetches, one after the other.
  static constexpr double two_bit_codes = 1.03;

  /// Bytes of a record that are asked for before its parts are: of a slot so many, since longer
  /// ones are read in long pieces anyway; of a record with an address what there is before the next
  /// one, between these.
  static constexpr int asked_of_slot = 512, asked_least = 32, asked_most = 1024;

  /// Beyond so many bytes an address costs a translation of its own. An order pays for so many ids,
  /// and for rows of fewer bytes than these; by one, this part of the multiprocessors reads.
  static constexpr std::int64_t reach = std::int64_t{1} << 30;
  static constexpr std::int64_t fewest_ordered = 4096, longest_ordered = 1024;
  static constexpr int multiprocessors_by_order = 4;  // one in so many
};

}  // namespace quipu::detail
