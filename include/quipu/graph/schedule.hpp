// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/config.hpp"
#include "quipu/core/element.hpp"

namespace quipu {

/// What one group of lanes visits: edges [begin, begin + count) of one row.
template <node_index I>
struct slice {
  std::int64_t begin = 0;  // edge position of the first edge
  I row = 0;
  std::int32_t count = 0;
};

/// A row cut into several slices, none longer than another by more than an edge; their states meet
/// again in slice order.
template <node_index I>
struct split_row {
  std::int64_t begin = 0;  // edge position of the row's first edge
  std::int64_t degree = 0;
  std::int64_t first = 0;  // its first slice in the work list
  I row = 0;
};

/// Split rows have 2, 4, 8 or a multiple of 8 slices. In the work list rows of more than 8 come
/// first, then those of 8, of 4 and of 2. So no row lies across a border of its own length, and
/// whoever takes 2, 4 or 8 slices from such a border on has whole rows, but of those with more.
inline constexpr int split_classes = 4;

/// How many slices a row is cut into.
QUIPU_HD constexpr std::int64_t count_slices(std::int64_t degree, std::int64_t slice_edges) {
  const auto needed = (degree + slice_edges - 1) / slice_edges;
  return needed <= 2 ? needed : needed <= 4 ? 4 : (needed + 7) / 8 * 8;
}
/// The class of a row of so many slices: 0 for more than 8, then 8, 4 and 2.
QUIPU_HD constexpr int split_class_of(std::int64_t slices) {
  return slices > 8 ? 0 : slices == 8 ? 1 : slices == 4 ? 2 : 3;
}

/// How many split rows, and slices of them.
struct split_count {
  std::int64_t rows = 0, slices = 0;
};

/// One work list for all rows of a graph. The slices of split rows come first (they take longest);
/// then every other row, empty ones too, as one slice each, in visit order.
template <node_index I>
struct schedule_view {
  const slice<I>* slices = nullptr;          // [slice_count]
  const split_row<I>* split_rows = nullptr;  // [split_row_count()]
  const std::int32_t* split_of = nullptr;    // [split_slice_count()] the split row of a slice
  std::int64_t slice_count = 0;
  split_count split[split_classes];  // of the classes up to each; slices of split rows come first
  std::int32_t slice_edges = 0;      // the longest slice; rows above it are split

  QUIPU_HD std::int64_t split_row_count() const { return split[split_classes - 1].rows; }
  QUIPU_HD std::int64_t split_slice_count() const { return split[split_classes - 1].slices; }
  QUIPU_HD std::int64_t slices_of(const split_row<I>& r) const {
    return count_slices(r.degree, slice_edges);
  }
  /// The split rows of more slices than `span`, which is 1, 2, 4 or 8. They come first. Without an
  /// index, for which a kernel would copy the whole view to its own memory.
  QUIPU_HD split_count longer_than(int span) const {
    return span == 8 ? split[0] : span == 4 ? split[1] : span == 2 ? split[2] : split[3];
  }
};

/// In which order the rows that are not split are visited.
enum class visit_order : std::uint8_t {
  natural,  ///< by row id
  grouped,  ///< by row id in windows, by degree inside a window: neighbours in a warp end together
};

struct schedule_options {
  std::int32_t slice_edges = 0;  ///< 0: chosen from edges, rows and multiprocessors
  visit_order order = visit_order::grouped;
};

/// How long a slice may be. Cutting costs a state per slice, edges / slice in all; not cutting
/// costs the wait for the last slice, slice * multiprocessors. The sum is least near the square
/// root of edges / multiprocessors; the factor, the square root of 2, was measured (H200, 2026-11,
/// quipu_tune_sum --lengths): best are 128 for 1-3 M edges, 256 for 13-15 M, 512 for 23 M, 1024 for
/// 124 M; 8 to 16 for 10 thousand. Where that cuts rows of the mean degree, nearly every row has a
/// state to keep: slices are longer then, as long as every multiprocessor still gets 64 of them.
constexpr std::int32_t choose_slice_edges(std::int64_t edges, std::int64_t rows,
                                          std::int32_t multiprocessors) {
  constexpr std::int32_t longest = 1024;
  const std::int64_t places = multiprocessors > 0 ? multiprocessors : 1;
  const std::int64_t share = edges / places, mean_degree = rows > 0 ? edges / rows : 0;
  std::int32_t length = 8;
  while (length < longest && 4 * static_cast<std::int64_t>(length) * length <= 2 * share) {
    length *= 2;
  }
  while (length < longest && length < 2 * mean_degree && 2 * 64 * length <= share) length *= 2;
  return length;
}

}  // namespace quipu
