// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/reduce/detail/aggregate_program.hpp"

namespace quipu::detail {

/// One lane's vector of winners' bytes.
template <int Width>
QUIPU_HD inline raw_vector<std::uint8_t, Width> load_bytes(const std::uint8_t* from) {
  raw_vector<std::uint8_t, Width> bytes;
#ifdef __CUDA_ARCH__
  using word = std::conditional_t<Width == 2, std::uint16_t,
                                  std::conditional_t<Width == 4, std::uint32_t, uint2>>;
  if constexpr (Width == 2 || Width == 4 || Width == 8) {
    if (reinterpret_cast<std::uintptr_t>(from) % Width == 0) {
      const word bits = __ldg(reinterpret_cast<const word*>(from));
      memcpy(&bytes, &bits, Width);
      return bytes;
    }
  }
#endif
  for (int e = 0; e < Width; ++e) bytes.data[e] = from[e];
  return bytes;
}

/// A program that runs only while a flag on the device is 0; an earlier kernel of the call sets it.
template <class Program>
struct gated_program : Program {
  const std::uint32_t* closed;
  QUIPU_HD bool enabled() const { return *closed == 0; }
};

template <class T>
struct gradient_rows {
  const T* data = nullptr;
  std::int64_t row_stride = 0;

  template <class Tile>
  QUIPU_HD fragment<T, Tile> row(const lane_position<Tile>& at, std::int64_t r) const {
    fragment<T, Tile> f;
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      load_fragment_vector(f, v, data + r * row_stride + at.read_offset(v));
    }
    return f;
  }
};

/// Edges of the reverse graph, and where they lie in their forward rows.
template <node_index I, node_index O>
struct reverse_edges {
  const O* edge_map;         // forward edge position of each reverse edge
  const O* forward_offsets;  // of the receivers
  const O* offsets;          // of the senders
  const I* receivers;

  explicit reverse_edges(const graph_view<I, O>& g)
      : edge_map(g.edge_map),
        forward_offsets(g.forward.csr.offsets),
        offsets(g.reverse.csr.offsets),
        receivers(g.reverse.csr.indices) {}

  /// Of parallel edges, which lie side by side, true for the first.
  QUIPU_HD bool is_first_of_parallel(I sender, std::int64_t edge) const {
    return edge == offsets[sender] || receivers[edge - 1] != receivers[edge];
  }
};

/// Adds to `sum` the gradients of the receivers' elements whose winner is the edge at hand.
/// Everything that the whole batch needs is asked for before anything is looked at; then only those
/// gradient vectors are fetched in which the byte of some winner fits; and only for wide rows,
/// whose bytes do not tell all, the words.
template <class T, class Tile, class I, class O, class Batch>
QUIPU_HD inline void take_winners(const lane_position<Tile>& at, I sender,
                                  accumulator<T> (&sum)[Tile::elements], const Batch& batch,
                                  const gradient_rows<T>& gradient, const argument_view& argument,
                                  const reverse_edges<I, O>& edges) {
  raw_vector<std::uint8_t, Tile::width> winner[Batch::size][Tile::vectors];
  O edge[Batch::size], first[Batch::size], last[Batch::size];
  QUIPU_UNROLL
  for (int u = 0; u < Batch::size; ++u) {
    if (!batch.valid(u)) continue;
    const std::int64_t row = batch.columns[u];
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      winner[u][v] =
          load_bytes<Tile::width>(argument.low + row * argument.features + at.read_offset(v));
    }
    edge[u] = edges.edge_map[batch.edge(u)];
    first[u] = edges.forward_offsets[row];
    last[u] = edges.forward_offsets[row + 1];
  }
  QUIPU_UNROLL
  for (int u = 0; u < Batch::size; ++u) {
    if (!batch.valid(u)) continue;
    const std::int64_t row = batch.columns[u];
    const bool wide = wide_rows_view::is_wide(last[u] - first[u]);
    const auto name = static_cast<std::uint32_t>(wide ? sender : edge[u] - first[u]);
    const auto low = static_cast<std::uint8_t>(name);
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      bool any = false;
      QUIPU_UNROLL
      for (int e = 0; e < Tile::width; ++e) any |= winner[u][v].data[e] == low;
      if (!any || (wide && !edges.is_first_of_parallel(sender, batch.edge(u)))) continue;
      const auto g = load_vector<T, Tile::width>(gradient.data + row * gradient.row_stride +
                                                 at.read_offset(v));
      const std::uint32_t* words =
          wide ? argument.wide + argument.rank[row] * argument.features + at.read_offset(v)
               : nullptr;
      QUIPU_UNROLL
      for (int e = 0; e < Tile::width; ++e) {
        if (winner[u][v].data[e] != low || (wide && words[e] != name)) continue;
        sum[v * Tile::width + e] += widen(g.data[e]);
      }
    }
  }
}

/// Gradient of min or max, gathered over the reverse graph: row j looks at each receiver i of its
/// edges, and takes dY[i][f] where i's saved winner is that edge or, in wide rows, j itself.
template <element T, node_index I, node_index O>
struct winner_backward_program {
  using A = accumulator<T>;
  template <class Tile>
  struct state {
    A sum[Tile::elements];
    I sender;
  };

  T* output;
  std::int64_t row_stride;
  gradient_rows<T> gradient;
  argument_view argument;
  reverse_edges<I, O> edges;

  template <class Tile>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>& row) const {
    state<Tile> s;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = A{0};
    s.sender = row.row;
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
    take_winners<T>(at, s.sender, s.sum, batch, gradient, argument, edges);
  }

  template <class Tile>
  QUIPU_HD void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] += next.sum[i];
  }

  template <class Tile>
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                       const state<Tile>& s) const {
    store_fragment(at, output + static_cast<std::int64_t>(row.row) * row_stride, s.sum);
  }
};

/// Gradient of several reductions at once, gathered over the reverse graph:
/// dX[j] = sum over k of: dsum_i + dmean_i / degree_i + 2 x_j dsquares_i + [winner] (dmin_i,
/// dmax_i).
template <element T, node_index I, node_index O>
struct several_backward_program {
  using A = accumulator<T>;
  template <class Tile>
  struct state {
    A sum[Tile::elements];
    A squares[Tile::elements];
    I sender;
  };

  T* output;
  std::int64_t row_stride;
  gradient_rows<T> sum, mean, min, max, squares, input;
  argument_view min_argument, max_argument;
  const float* weights;  // by forward edge position; null: 1
  reverse_edges<I, O> edges;

  template <class Tile>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>& row) const {
    state<Tile> s;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = s.squares[i] = A{0};
    s.sender = row.row;
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
    if (max.data != nullptr) take_winners<T>(at, s.sender, s.sum, batch, max, max_argument, edges);
    if (min.data != nullptr) take_winners<T>(at, s.sender, s.sum, batch, min, min_argument, edges);
    if (sum.data != nullptr || mean.data != nullptr) take_sums(at, s, batch);
    if (squares.data != nullptr) take_squares(at, s, batch);
  }

  template <class Tile>
  QUIPU_HD void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) {
      s.sum[i] += next.sum[i];
      s.squares[i] += next.squares[i];
    }
  }

  template <class Tile>
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                       state<Tile> s) const {
    if (squares.data != nullptr && row.degree > 0) {
      const auto x = input.row(at, row.row);
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) s.sum[i] += A{2} * x.value(i) * s.squares[i];
    }
    store_fragment(at, output + static_cast<std::int64_t>(row.row) * row_stride, s.sum);
  }

 private:
  template <class Tile, class Batch>
  QUIPU_HD void take_sums(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      const auto row = batch.columns[u];
      const A w =
          weights != nullptr ? static_cast<A>(weights[edges.edge_map[batch.edge(u)]]) : A{1};
      if (sum.data != nullptr) add(s, w, sum.row(at, row));
      if (mean.data != nullptr) {
        add(s, w / static_cast<A>(edges.forward_offsets[row + 1] - edges.forward_offsets[row]),
            mean.row(at, row));
      }
    }
  }

  template <class Tile>
  static QUIPU_HD void add(state<Tile>& s, A factor, const fragment<T, Tile>& g) {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] += factor * g.value(i);
  }

  template <class Tile, class Batch>
  QUIPU_HD void take_squares(const lane_position<Tile>& at, state<Tile>& s,
                             const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      const auto g = squares.row(at, batch.columns[u]);
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) s.squares[i] += g.value(i);
    }
  }
};

}  // namespace quipu::detail
