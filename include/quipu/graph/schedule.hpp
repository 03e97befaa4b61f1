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

/// A row cut into several slices; their states meet again in slice order.
template <node_index I>
struct split_row {
  std::int64_t begin = 0;  // edge position of the row's first edge
  std::int64_t degree = 0;
  std::int64_t first = 0;  // its first slice in the work list
  I row = 0;
};

/// One work list for all rows of a graph. The slices of split rows come first (they take longest);
/// then every other row, empty ones too, as one slice each, in visit order.
template <node_index I>
struct schedule_view {
  const slice<I>* slices = nullptr;          // [slice_count]
  const split_row<I>* split_rows = nullptr;  // [split_row_count]
  const std::int32_t* split_of = nullptr;    // [split_slice_count] the split row of a slice
  std::int64_t slice_count = 0;
  std::int64_t split_slice_count = 0;  // slices [0, split_slice_count) are parts of split rows
  std::int64_t split_row_count = 0;
  std::int32_t slice_edges = 0;  // the longest slice; rows above it are split

  QUIPU_HD std::int64_t slices_of(const split_row<I>& r) const {
    return (r.degree + slice_edges - 1) / slice_edges;
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
