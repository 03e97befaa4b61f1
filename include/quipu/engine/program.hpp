// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "quipu/core/element.hpp"
#include "quipu/lane/tile.hpp"

namespace quipu {

/// The receiving row that a program is asked about.
template <node_index I>
struct row_edges {
  I row = 0;
  std::int64_t begin = 0;  // edge position of its first edge
  std::int64_t degree = 0;
};

/// The value of an edge, for programs that have none.
struct no_value {};

namespace detail {
template <class P>
struct edge_value_of {
  using type = no_value;
};
template <class P>
requires requires { typename P::edge_value; }
struct edge_value_of<P> {
  using type = typename P::edge_value;
};
}  // namespace detail
template <class P>
using edge_value = typename detail::edge_value_of<P>::type;
template <class P>
concept values_edges = !std::same_as<edge_value<P>, no_value>;

/// A few edges of one row, with the sender rows that were fetched for them and the values that the
/// program gives them. In a full batch every edge is there; only the last batch of a slice may be
/// partial.
template <class Fragment, class I, class Value, int Size, bool Full>
struct edge_batch {
  static constexpr int size = Size;
  static constexpr bool full = Full;

  Fragment rows[Size];
  I columns[Size];
  Value values[Size];
  std::int64_t first_edge = 0;       // edge position of edge 0
  std::uint32_t first_position = 0;  // the same, counted from the row's first edge
  std::int32_t count = Size;

  QUIPU_HD bool valid(int u) const { return Full || u < count; }
  QUIPU_HD std::int64_t edge(int u) const { return first_edge + u; }
  QUIPU_HD std::uint32_t position(int u) const {
    return first_position + static_cast<std::uint32_t>(u);
  }
};

/// The edges of one slice, as `settle` sees them.
struct slice_edges {
  std::int64_t first_edge = 0;
  std::uint32_t first_position = 0;  // counted from the row's first edge
  std::int32_t count = 0;
};

/// A row program folds the edges of a receiving row into a state and writes the state. With `at` a
/// lane_position<Tile>:
///
///   state<Tile>                                  trivially copyable; what one lane keeps
///   state<Tile> init(at, row) const              the identity; made anew for every slice of a row
///   void visit(at, state&, batch) const          folds a batch, edges in order
///   void merge(at, state&, const state&) const   appends the state of the edges that follow
///   void finish(at, row, const state&) const     writes the receiver's output
///
/// and, if it likes,
///
///   using edge_value = ...                       a number that belongs to an edge: a weight, say
///   edge_value value_of(edge position, column) const
///                                                finds it. On the device whole warps share the
///                                                work: a lane finds one and tells the others
///   bool start_again(at, state&)                 after a slice was visited: whether a quick way
///                                                went wrong, the same for the whole group. Then it
///                                                empties the state, and the slice is visited anew,
///                                                edge by edge, by
///   void visit_with_care(at, state&, batch)
///   void settle(at, state&, slice_edges)         looks once more at a slice that has been visited
///   auto for_row(at, row) const                  device only: what visits the edges of a row
///                                                instead, with what it must know of the row and
///                                                may note of a slice; with a total, see
///                                                device_totals.cuh
///   static constexpr bool takes_absent_rows      rows of edges that a partial batch has not are
///                                                zeros, so that `visit` need not ask
///   static constexpr bool by_heads               device only: a tile is a head (head_tile), and
///                                                slices of a row meet in the block that has them
///   static constexpr bool bounds_blocks          device only: false ignores a policy's bound on
///                                                registers, which was measured without the program
///   bool enabled() const                         device only: false lets the whole launch pass
///   static constexpr bool writes_edges           device only: true if all results are written by
///                                                `visit`; then states are neither kept nor merged
///
/// `row` is a row_edges<I>; in `init` of a split row it still speaks of the whole row. The same
/// program runs on the device (a group of lanes) and on the host (a group of one).
template <class P, class Tile, class I>
concept row_program = requires(const P p, lane_position<Tile> at, row_edges<I> row,
                               typename P::template state<Tile> s) {
  requires std::is_trivially_copyable_v<P>;
  requires std::is_trivially_copyable_v<typename P::template state<Tile>>;
  { p.init(at, row) } -> std::same_as<typename P::template state<Tile>>;
  p.merge(at, s, s);
  p.finish(at, row, s);
};

}  // namespace quipu
