// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/policy.hpp"
#include "quipu/engine/program.hpp"
#include "quipu/graph/normalise.hpp"
#include "quipu/lane/group.hpp"
#include "quipu/lane/vector.hpp"

namespace quipu::detail {

/// The dot product of an edge's two rows. The engine fetches the sender's first tile; the
/// receiver's stays in registers; what is wider is fetched here, tile by tile. Device only.
template <element T, node_index I>
struct sddmm_program {
  using A = accumulator<T>;
  static constexpr bool writes_edges = true;

  template <class Tile>
  struct state {
    fragment<T, Tile> own;
    A factor;
    I row;
  };

  const T* left;
  std::int64_t left_stride;
  const T* right;
  std::int64_t right_stride;
  std::int64_t features;
  const float* column_scales;  // null: ones
  const float* row_scales;
  A alpha;
  A* output;

#ifdef __CUDACC__
  template <class Tile>
  __device__ state<Tile> init(const lane_position<Tile>& at, const row_edges<I>& row) const {
    state<Tile> s;
    s.row = row.row;
    s.own = read(at, left + static_cast<std::int64_t>(row.row) * left_stride);
    s.factor = row_scales == nullptr ? alpha : alpha * static_cast<A>(row_scales[row.row]);
    return s;
  }

  template <class Tile, class Batch>
  __device__ void visit(const lane_position<Tile>& at, state<Tile>& s, const Batch& batch) const {
    A dot[Batch::size];
#pragma unroll
    for (int u = 0; u < Batch::size; ++u) {
      dot[u] = batch.valid(u) ? product(at, s.own, batch.rows[u]) : A{0};
    }
    for (std::int64_t f = Tile::features; f < features; f += Tile::features) {
      add_tile(lane_position<Tile>{at.origin + f, features}, s, batch, dot);
    }
    using sums = group_sum<Tile::lanes, Batch::size>;
    sums::apply(dot);
    const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
    if (lane % sums::copies != 0) return;
#pragma unroll
    for (int h = 0; h < sums::held; ++h) {
      const int u = sums::first(lane) + h;
      if (u >= batch.count) continue;
      const auto edge = batch.first_edge + u;
      const A f = column_scales == nullptr
                      ? s.factor
                      : s.factor * static_cast<A>(column_scales[column_of(batch, u)]);
      output[edge] = f * dot[h];
    }
  }

  template <class Tile>
  __device__ void merge(const lane_position<Tile>&, state<Tile>&, const state<Tile>&) const {}
  template <class Tile>
  __device__ void finish(const lane_position<Tile>&, const row_edges<I>&,
                         const state<Tile>&) const {}

 private:
  template <class Tile>
  static __device__ fragment<T, Tile> read(const lane_position<Tile>& at, const T* row) {
    fragment<T, Tile> f;
#pragma unroll
    for (int v = 0; v < Tile::vectors; ++v) load_fragment_vector(f, v, row + at.read_offset(v));
    return f;
  }

  /// Lanes without a vector hold another lane's elements, which do not count.
  template <class Tile>
  static __device__ A product(const lane_position<Tile>& at, const fragment<T, Tile>& a,
                              const fragment<T, Tile>& b) {
    A sum = A{0};
#pragma unroll
    for (int v = 0; v < Tile::vectors; ++v) {
      A part = A{0};
#pragma unroll
      for (int e = 0; e < Tile::width; ++e) {
        part += a.value(v * Tile::width + e) * b.value(v * Tile::width + e);
      }
      if (at.active(v)) sum += part;
    }
    return sum;
  }

  template <class Tile, class Batch>
  __device__ void add_tile(const lane_position<Tile>& at, const state<Tile>& s, const Batch& batch,
                           A (&dot)[Batch::size]) const {
    const auto own = read(at, left + static_cast<std::int64_t>(s.row) * left_stride);
    fragment<T, Tile> rows[Batch::size];
#pragma unroll
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      rows[u] = read(at, right + static_cast<std::int64_t>(batch.columns[u]) * right_stride);
    }
#pragma unroll
    for (int u = 0; u < Batch::size; ++u) {
      if (batch.valid(u)) dot[u] += product(at, own, rows[u]);
    }
  }

  /// A choice among registers: `u` differs from lane to lane.
  template <class Batch>
  static __device__ std::int64_t column_of(const Batch& batch, int u) {
    I column = batch.columns[0];
#pragma unroll
    for (int k = 1; k < Batch::size; ++k) column = u == k ? batch.columns[k] : column;
    return column;
  }
#endif
};

}  // namespace quipu::detail
