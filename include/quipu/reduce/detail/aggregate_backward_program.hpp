// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/reduce/detail/aggregate_program.hpp"

namespace quipu::detail {

template <class Raw, class Tile>
QUIPU_HD inline void load_positions(const lane_position<Tile>& at, const Raw* row,
                                    std::uint32_t (&positions)[Tile::elements]) {
  QUIPU_UNROLL
  for (int v = 0; v < Tile::vectors; ++v) {
    const Raw* from = row + at.read_offset(v);
    raw_vector<Raw, Tile::width> in;
#ifdef __CUDA_ARCH__
    using word = std::conditional_t<
        sizeof in == 2, std::uint16_t,
        std::conditional_t<sizeof in == 4, std::uint32_t,
                           std::conditional_t<sizeof in == 8, uint2, uint4>>>;
    if (sizeof in >= sizeof(word) && reinterpret_cast<std::uintptr_t>(from) % sizeof(word) == 0) {
      for (int q = 0; q < static_cast<int>(sizeof in / sizeof(word)); ++q) {
        const word bits = __ldg(reinterpret_cast<const word*>(from) + q);
        memcpy(reinterpret_cast<char*>(&in) + q * sizeof(word), &bits, sizeof bits);
      }
    } else {
      for (int e = 0; e < Tile::width; ++e) in.data[e] = __ldg(from + e);
    }
#else
    memcpy(&in, from, sizeof in);
#endif
    QUIPU_UNROLL
    for (int e = 0; e < Tile::width; ++e) positions[v * Tile::width + e] = in.data[e];
  }
}

/// Reads the winners of one row. "None" of a narrow width is no position of any row.
template <class Tile>
QUIPU_HD inline void load_argument(const lane_position<Tile>& at, const argument_view& argument,
                                   std::int64_t row, std::uint32_t (&positions)[Tile::elements]) {
  const auto begin = row * argument.row_stride;
  switch (argument.width) {
    case argument_width::u8:
      return load_positions(at, static_cast<const std::uint8_t*>(argument.data) + begin, positions);
    case argument_width::u16:
      return load_positions(at, static_cast<const std::uint16_t*>(argument.data) + begin, positions);
    case argument_width::u32:
      return load_positions(at, static_cast<const std::uint32_t*>(argument.data) + begin, positions);
  }
}

/// A flag that an earlier kernel of the same call sets on the device; null: always on.
struct gate {
  const std::uint32_t* closed = nullptr;
  QUIPU_HD bool open() const { return closed == nullptr || *closed == 0; }
};

/// Gradient of the winners, and of several reductions at once, gathered over the reverse graph: row j
/// looks at each receiver i of its edges, and takes dY[i][f] where i's saved winner is that edge.
/// dX[j] = sum over k of: dsum_i + dmean_i / degree_i + 2 x_j dsquares_i + [winner] (dmin_i, dmax_i).
template <element T, node_index I, node_index O>
struct gather_backward_program {
  using A = accumulator<T>;
  template <class Tile>
  struct state {
    A sum[Tile::elements];
    A squares[Tile::elements];
  };

  struct source {
    const T* data = nullptr;
    std::int64_t row_stride = 0;
  };
  T* output;
  std::int64_t row_stride;
  source sum, mean, min, max, squares, input;
  argument_view min_argument, max_argument;
  const float* weights;  // by forward edge position; null: 1
  const O* edge_map;
  const O* offsets;
  gate enabled_by;

  QUIPU_HD bool enabled() const { return enabled_by.open(); }

  template <class Tile>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = s.squares[i] = A{0};
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
    std::uint32_t position[Batch::size];
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      position[u] = static_cast<std::uint32_t>(edge_map[batch.edge(u)] - offsets[batch.columns[u]]);
    }
    if (max.data != nullptr) take_winners(at, s, batch, position, max, max_argument);
    if (min.data != nullptr) take_winners(at, s, batch, position, min, min_argument);
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
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row, state<Tile> s) const {
    if (squares.data != nullptr) {
      const auto x = row_of(at, input, row.row);
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) s.sum[i] += A{2} * x.value(i) * s.squares[i];
    }
    store_fragment(at, output + static_cast<std::int64_t>(row.row) * row_stride, s.sum);
  }

 private:
  template <class Tile>
  static QUIPU_HD fragment<T, Tile> row_of(const lane_position<Tile>& at, const source& m,
                                           std::int64_t row) {
    fragment<T, Tile> f;
    const T* from = m.data + row * m.row_stride;
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      f.vectors[v] = load_vector<T, Tile::width>(from + at.read_offset(v));
    }
    return f;
  }

  /// All winners of the batch are fetched first, then only those gradient vectors that are needed.
  template <class Tile, class Batch>
  QUIPU_HD void take_winners(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch,
                             const std::uint32_t (&position)[Batch::size], const source& gradient,
                             const argument_view& argument) const {
    std::uint32_t winner[Batch::size][Tile::elements];
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (batch.valid(u)) load_argument(at, argument, batch.columns[u], winner[u]);
    }
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      const T* from = gradient.data + static_cast<std::int64_t>(batch.columns[u]) * gradient.row_stride;
      QUIPU_UNROLL
      for (int v = 0; v < Tile::vectors; ++v) {
        bool any = false;
        QUIPU_UNROLL
        for (int e = 0; e < Tile::width; ++e) any |= winner[u][v * Tile::width + e] == position[u];
        if (!any) continue;
        const auto g = load_vector<T, Tile::width>(from + at.read_offset(v));
        QUIPU_UNROLL
        for (int e = 0; e < Tile::width; ++e) {
          const int i = v * Tile::width + e;
          if (winner[u][i] == position[u]) s.sum[i] += widen(g.data[e]);
        }
      }
    }
  }

  template <class Tile, class Batch>
  QUIPU_HD void take_sums(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      const auto row = batch.columns[u];
      const A w = weights != nullptr ? static_cast<A>(weights[edge_map[batch.edge(u)]]) : A{1};
      if (sum.data != nullptr) add(s, w, row_of(at, sum, row));
      if (mean.data != nullptr) {
        add(s, w / static_cast<A>(offsets[row + 1] - offsets[row]), row_of(at, mean, row));
      }
    }
  }

  template <class Tile>
  static QUIPU_HD void add(state<Tile>& s, A factor, const fragment<T, Tile>& g) {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] += factor * g.value(i);
  }

  template <class Tile, class Batch>
  QUIPU_HD void take_squares(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      const auto g = row_of(at, squares, batch.columns[u]);
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) s.squares[i] += g.value(i);
    }
  }
};

}  // namespace quipu::detail
