// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "quipu/graph/graph.hpp"

namespace quipu::detail {

/// Bits that ids below `count` take.
constexpr int id_bits(std::int64_t count) {
  return count <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(count - 1));
}

/// (row, column) as one number that sorts like the pair. A bit above both marks dropped edges.
struct key_layout {
  int column_bits;
  int bits;
  QUIPU_HD constexpr std::uint64_t dropped() const { return std::uint64_t{1} << bits; }
  QUIPU_HD constexpr std::uint64_t key(std::uint64_t row, std::uint64_t column) const {
    return row << column_bits | column;
  }
  QUIPU_HD constexpr std::uint64_t row(std::uint64_t key) const { return key >> column_bits; }
  QUIPU_HD constexpr std::uint64_t column(std::uint64_t key) const {
    return key & ((std::uint64_t{1} << column_bits) - 1);
  }
};

/// Slice k of the `count` that a split row has.
template <class I>
QUIPU_HD slice<I> cut_slice(const split_row<I>& row, std::int64_t k, std::int64_t count) {
  const auto length = row.degree / count, longer = row.degree % count;  // by an edge
  return {row.begin + k * length + (k < longer ? k : longer), row.row,
          static_cast<std::int32_t>(length + (k < longer ? 1 : 0))};
}

/// Sizes that the types can hold, before any pointer is read.
template <class I, class O>
status check_sizes(std::int64_t rows, std::int64_t columns, std::int64_t edges) {
  constexpr std::int64_t ids = std::numeric_limits<I>::max();
  constexpr std::int64_t offsets = std::numeric_limits<O>::max();
  const auto bad = [](const char* what, std::int64_t limit, std::int64_t given) {
    return failure(status_code::invalid_argument, what, -1, limit, given);
  };
  if (rows < 0) return bad("rows: negative", 0, rows);
  if (columns < 0) return bad("columns: negative", 0, columns);
  if (edges < 0) return bad("edges: negative", 0, edges);
  if (rows > ids) return bad("rows: more than the index type holds", ids, rows);
  if (columns > ids) return bad("columns: more than the index type holds", ids, columns);
  if (edges > offsets) return bad("edges: more than the offset type holds", offsets, edges);
  if (id_bits(rows) + id_bits(columns) > 62) {
    return bad("rows, columns: too many to sort edges by both", 62,
               id_bits(rows) + id_bits(columns));
  }
  return success();
}

inline status check_options(const graph_options& o, std::int64_t rows, std::int64_t columns) {
  if (o.symmetrise == edge_option::apply && rows != columns) {
    return failure(status_code::invalid_argument, "symmetrise: rows and columns differ", -1, rows,
                   columns);
  }
  if (o.schedule.slice_edges < 0) {
    return failure(status_code::invalid_argument, "slice_edges: negative");
  }
  return success();
}

/// How many edges a build may reach before any are dropped.
inline std::int64_t candidate_edges(const graph_options& o, std::int64_t rows, std::int64_t columns,
                                    std::int64_t edges) {
  return edges * (o.symmetrise == edge_option::apply ? 2 : 1) +
         (o.add_self_loops == edge_option::apply ? (rows < columns ? rows : columns) : 0);
}

/// Everything about a build that can be told before an array is read.
template <class I, class O>
status check_build(const graph_options& o, std::int64_t rows, std::int64_t columns,
                   std::int64_t edges) {
  if (auto s = check_sizes<I, O>(rows, columns, edges); !s.ok()) return s;
  if (auto s = check_options(o, rows, columns); !s.ok()) return s;
  return check_sizes<I, O>(rows, columns, candidate_edges(o, rows, columns, edges));
}

inline bool drops_edges(const graph_options& o) {
  return o.symmetrise == edge_option::apply || o.remove_self_loops == edge_option::apply ||
         o.coalesce == edge_option::apply || o.add_self_loops == edge_option::apply;
}

/// Window and capped degree as one sort key: rows of one window stay together, and inside it
/// rows of one length, longest first.
constexpr std::int64_t visit_window = 512;
QUIPU_HD constexpr std::uint64_t visit_key(std::int64_t row, std::int64_t degree) {
  const std::uint64_t capped = degree > 1023 ? 1023 : static_cast<std::uint64_t>(degree);
  return static_cast<std::uint64_t>(row / visit_window) << 10 | (1023 - capped);
}

}  // namespace quipu::detail
