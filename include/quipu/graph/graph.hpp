// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "quipu/core/buffer.hpp"
#include "quipu/core/context.hpp"
#include "quipu/graph/csr.hpp"
#include "quipu/graph/schedule.hpp"

namespace quipu {

/// Numbers that choose kernels and storage; known on the host, so that no verb reads them back.
struct degree_statistics {
  std::int64_t max_degree = 0;
  std::int64_t empty_rows = 0;
};

/// Wide rows, numbered from 0: those with more than 255 edges. What is kept per row
/// element in a byte for all others gets a word for these.
struct wide_rows_view {
  QUIPU_HD static constexpr bool is_wide(std::int64_t degree) { return degree > 255; }

  const std::int32_t* rank = nullptr;  // [rows] number of a wide row; null: there are none
  std::int64_t count = 0;
};

/// One direction of a graph: who receives from whom, and the plan to visit it.
template <node_index I, node_index O = I>
struct direction_view {
  csr_view<I, O> csr;
  schedule_view<I> schedule;
  degree_statistics degrees;
  wide_rows_view wide_rows;
};

/// What verbs take: the graph as its receivers see it, and as its senders see it. Not owned.
template <node_index I, node_index O = I>
struct graph_view {
  direction_view<I, O> forward;  // rows receive
  direction_view<I, O> reverse;  // senders as rows; reverse.csr.offsets is null when not built
  /// [edges] forward edge position of each reverse edge; rises inside each reverse row.
  const O* edge_map = nullptr;
  /// Tells graphs apart that follow each other in the same memory; 0: put together by hand.
  std::uint64_t identity = 0;

  std::int64_t rows() const { return forward.csr.rows; }
  std::int64_t columns() const { return forward.csr.columns; }
  std::int64_t edges() const { return forward.csr.edges; }
  bool has_reverse() const { return reverse.csr.offsets != nullptr; }
};

/// Memory of one direction.
template <node_index I, node_index O = I>
struct direction_storage {
  buffer<O> offsets;
  buffer<I> indices;
  buffer<float> weights;
  buffer<slice<I>> slices;
  buffer<split_row<I>> split_rows;
  buffer<std::int32_t> split_of;
  buffer<std::int32_t> wide_rank;
  direction_view<I, O> view;  // points into the buffers above
};

namespace detail {
inline std::uint64_t next_identity() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}
}  // namespace detail

/// Owns a graph, on a device or on the host, with its reverse and both schedules. Move-only. Views
/// stay valid while it lives; destroying a device graph waits for the device's work, as cudaFree
/// does.
template <node_index I, node_index O = I>
class graph {
 public:
  graph() = default;
  graph(direction_storage<I, O> forward, direction_storage<I, O> reverse, buffer<O> edge_map,
        buffer<O> edge_ids)
      : forward_(std::move(forward)),
        reverse_(std::move(reverse)),
        edge_map_(std::move(edge_map)),
        edge_ids_(std::move(edge_ids)),
        identity_(detail::next_identity()) {}

  graph_view<I, O> view() const {
    return {forward_.view, reverse_.view, edge_map_.data(), identity_};
  }

  /// [edges] for each edge position the input edge that it came from; null when the order is the
  /// input's. Added self loops hold -1; a mirrored or coalesced edge names the first input edge.
  const O* edge_ids() const { return edge_ids_.data(); }

 private:
  direction_storage<I, O> forward_;
  direction_storage<I, O> reverse_;
  buffer<O> edge_map_;
  buffer<O> edge_ids_;
  std::uint64_t identity_ = 0;
};

enum class edge_option : std::uint8_t { keep, apply };

/// Nothing is added, merged or removed unless asked. Applied in this order: symmetrise, remove self
/// loops, coalesce, add self loops.
struct graph_options {
  edge_option symmetrise = edge_option::keep;  ///< also (j, i) for each (i, j); square only
  edge_option remove_self_loops = edge_option::keep;
  edge_option coalesce = edge_option::keep;  ///< one edge for parallel ones, weights summed
  edge_option add_self_loops =
      edge_option::keep;                     ///< (i, i) for i < min(rows, columns), where none is
  edge_option reverse = edge_option::apply;  ///< build the reverse graph, for backward
  schedule_options schedule{};
};

}  // namespace quipu
