// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/program.hpp"
#include "quipu/engine/sum_program.hpp"
#include "quipu/lane/vector.hpp"
#include "quipu/math/reduction.hpp"
#include "quipu/reduce/aggregate.hpp"

namespace quipu::detail {

/// Seen from the reverse graph: edges carry their forward position, senders their own degree.
template <class O>
struct mapped_factor {
  const float* weights;  // by forward edge position; null: 1
  const O* edge_map;
  const O* offsets;  // of the forward rows, to divide by their degree; null: no division
  template <class A, class I>
  QUIPU_HD A at(std::int64_t edge, I row) const {
    const A weight = weights != nullptr ? static_cast<A>(weights[edge_map[edge]]) : A{1};
    return offsets != nullptr ? weight / static_cast<A>(offsets[row + 1] - offsets[row]) : weight;
  }
};

/// The ending of sum and mean.
struct reduce_ending {
  reduce op;
  template <class Tile, class I, class T, class A>
  QUIPU_HD void apply(const lane_position<Tile>&, const row_edges<I>& row, const T*,
                      A (&sum)[Tile::elements]) const {
    if (op != reduce::mean || row.degree == 0) return;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) sum[i] /= static_cast<A>(row.degree);
  }
};
template <class T, class Factor>
using reduce_sum_program = sum_program<T, Factor, reduce_ending>;

/// One lane's vector of winners' bytes, written in one access where it lies on a border of its
/// size.
template <int Width>
QUIPU_HD inline void store_bytes(std::uint8_t* to, const raw_vector<std::uint8_t, Width>& bytes) {
#ifdef __CUDA_ARCH__
  using word = std::conditional_t<Width == 2, std::uint16_t,
                                  std::conditional_t<Width == 4, std::uint32_t, uint2>>;
  if constexpr (Width == 2 || Width == 4 || Width == 8) {
    if (reinterpret_cast<std::uintptr_t>(to) % Width == 0) {
      word bits;
      memcpy(&bits, &bytes, Width);
      __stcs(reinterpret_cast<word*>(to), bits);
      return;
    }
  }
#endif
  for (int e = 0; e < Width; ++e) to[e] = bytes.data[e];
}

/// Writes one lane's winners of a row as `argument_view` describes; nothing if none are wanted.
template <class Tile, class I>
QUIPU_HD inline void store_argument(const lane_position<Tile>& at, const argument_view& argument,
                                    const row_edges<I>& row, const I* indices,
                                    const std::uint32_t (&positions)[Tile::elements]) {
  if (argument.empty()) return;
  const bool wide = wide_rows_view::is_wide(row.degree);
  std::uint8_t* low = argument.low + static_cast<std::int64_t>(row.row) * argument.features;
  std::uint32_t* words =
      wide ? argument.wide + static_cast<std::int64_t>(argument.rank[row.row]) * argument.features
           : nullptr;
  QUIPU_UNROLL
  for (int v = 0; v < Tile::vectors; ++v) {
    if (!at.active(v)) continue;
    std::uint32_t names[Tile::width];
    raw_vector<std::uint8_t, Tile::width> bytes;
    QUIPU_UNROLL
    for (int e = 0; e < Tile::width; ++e) {
      const auto p = positions[v * Tile::width + e];
      names[e] = wide ? static_cast<std::uint32_t>(indices[row.begin + p]) : p;
      bytes.data[e] = static_cast<std::uint8_t>(names[e]);
    }
    store_bytes(low + at.feature(v), bytes);
    if (!wide) continue;
    QUIPU_UNROLL
    for (int e = 0; e < Tile::width; ++e) words[at.feature(v) + e] = names[e];
  }
}

/// Whether winners' positions are tracked along with their values.
enum class positions { kept, dropped };

/// Best values of one lane's elements, and where they were found.
template <extremum E, class A, int Elements, positions P>
struct extremum_state {
  static constexpr bool keeps_positions = P == positions::kept;
  A best[Elements];
  std::uint32_t position[keeps_positions ? Elements : 1];

  QUIPU_HD void clear() {
    QUIPU_UNROLL
    for (int i = 0; i < Elements; ++i) {
      best[i] = worst<E, A>();
      if constexpr (keeps_positions) position[i] = no_edge;
    }
    if constexpr (!keeps_positions) position[0] = no_edge;
  }

  /// The inner loop: numbers only. A NaN leaves no trace here and is searched for afterwards.
  QUIPU_HD void fold_number(int i, A candidate, std::uint32_t candidate_position) {
    const bool take = better<E>(candidate, best[i]);
    best[i] = take ? candidate : best[i];
    if constexpr (keeps_positions) position[i] = take ? candidate_position : position[i];
  }

  QUIPU_HD void append(const extremum_state& next) {
    QUIPU_UNROLL
    for (int i = 0; i < Elements; ++i) {
      const int p = keeps_positions ? i : 0;
      fold_extremum<E>(best[i], position[p], next.best[i], next.position[p]);
    }
  }

  QUIPU_HD void resolve(std::int64_t degree) {
    QUIPU_UNROLL
    for (int i = 0; i < Elements; ++i) {
      if constexpr (keeps_positions) position[i] = resolve_first(position[i], degree);
      if (degree == 0) best[i] = A{0};
    }
  }
};

/// The input once more, for what the inner loop leaves out: NaNs, and the bits of 16-bit NaNs.
template <class T, class I>
struct input_rows {
  const T* data;
  std::int64_t row_stride;
  const I* indices;

  QUIPU_HD T at(std::int64_t edge, std::int64_t feature) const {
    return data[static_cast<std::int64_t>(indices[edge]) * row_stride + feature];
  }

  /// Replaces element i of a slice's state by the slice's first NaN, if it has one.
  template <class State>
  QUIPU_HD void take_first_nan(State& s, int i, const slice_edges& edges,
                               std::int64_t feature) const {
    for (std::int32_t k = 0; k < edges.count; ++k) {
      const auto v = widen(at(edges.first_edge + k, feature));
      if (v == v) continue;
      s.best[i] = v;
      if constexpr (State::keeps_positions) {
        s.position[i] = edges.first_position + static_cast<std::uint32_t>(k);
      }
      return;
    }
  }
};

/// Writes extrema with the bits of the elements that won. 16-bit NaNs lose their payload on the way
/// to fp32 and back, so they, and they alone, are fetched again.
template <class T, class Tile, class I, class State>
QUIPU_HD inline void store_extremum(const lane_position<Tile>& at, const row_edges<I>& row,
                                    T* output, std::int64_t row_stride,
                                    const input_rows<T, I>& input, const State& s,
                                    store_hint hint) {
  T* to = output + static_cast<std::int64_t>(row.row) * row_stride;
  store_fragment(at, to, s.best, hint);
  if constexpr (sizeof(T) == 2) {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) {
      if (s.best[i] == s.best[i] || !at.active(i / Tile::width)) continue;
      const auto feature = at.feature(i / Tile::width) + i % Tile::width;
      to[feature] = input.at(row.begin + s.position[i], feature);
    }
  }
}

/// min and max with argument.
template <element T, node_index I, extremum E>
struct extremum_program {
  using A = accumulator<T>;
  template <class Tile>
  struct state : extremum_state<E, A, Tile::elements, positions::kept> {
    A check;  // sum of all that was seen: NaN if any of it was (or if infinities of both signs
              // were)
  };

  T* output;
  std::int64_t row_stride;
  argument_view argument;
  input_rows<T, I> input;
  store_hint hint = store_hint::keep;

  template <class Tile>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
    s.clear();
    s.check = A{0};
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>&, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      A seen = A{0};
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) {
        const A x = batch.rows[u].value(i);
        s.fold_number(i, x, batch.position(u));
        seen += x;
      }
      s.check += seen;
    }
  }

  template <class Tile>
  QUIPU_HD void settle(const lane_position<Tile>& at, state<Tile>& s,
                       const slice_edges& edges) const {
    if (s.check == s.check) return;
    for (int v = 0; v < Tile::vectors; ++v) {
      for (int e = 0; at.active(v) && e < Tile::width; ++e) {
        input.take_first_nan(s, v * Tile::width + e, edges, at.feature(v) + e);
      }
    }
  }

  template <class Tile>
  QUIPU_HD void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    s.append(next);
  }

  template <class Tile>
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                       state<Tile> s) const {
    s.resolve(row.degree);
    store_extremum<T>(at, row, output, row_stride, input, s, hint);
    store_argument(at, argument, row, input.indices, s.position);
  }
};

/// Any subset of sum, mean, min, max and sum of squares, from one read of the rows. Positions are
/// kept if an argument is wanted, and for 16 bits, where a NaN's bits are fetched through them.
template <element T, node_index I, positions P>
struct several_program {
  static_assert(P == positions::kept || sizeof(T) > 2);
  using A = accumulator<T>;
  template <class Tile>
  struct state {
    A sum[Tile::elements];  // NaN if any element was: the check for min and max
    A squares[Tile::elements];
    extremum_state<extremum::min, A, Tile::elements, P> least;
    extremum_state<extremum::max, A, Tile::elements, P> greatest;
  };

  struct target {
    T* data = nullptr;
    std::int64_t row_stride = 0;
  };
  target sum, mean, min, max, squares;
  argument_view min_argument, max_argument;
  const float* weights;
  input_rows<T, I> input;
  store_hint hint = store_hint::keep;

  template <class Tile>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = s.squares[i] = A{0};
    s.least.clear();
    s.greatest.clear();
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>&, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      const A w = weights != nullptr ? static_cast<A>(weights[batch.edge(u)]) : A{1};
      const auto position = batch.position(u);
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) {
        const A x = batch.rows[u].value(i);
        s.sum[i] += w * x;
        s.squares[i] += x * x;
        s.least.fold_number(i, x, position);
        s.greatest.fold_number(i, x, position);
      }
    }
  }

  template <class Tile>
  QUIPU_HD void settle(const lane_position<Tile>& at, state<Tile>& s,
                       const slice_edges& edges) const {
    for (int i = 0; i < Tile::elements; ++i) {
      if (s.sum[i] == s.sum[i] || !at.active(i / Tile::width)) continue;
      const auto feature = at.feature(i / Tile::width) + i % Tile::width;
      input.take_first_nan(s.least, i, edges, feature);
      input.take_first_nan(s.greatest, i, edges, feature);
    }
  }

  template <class Tile>
  QUIPU_HD void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) {
      s.sum[i] += next.sum[i];
      s.squares[i] += next.squares[i];
    }
    s.least.append(next.least);
    s.greatest.append(next.greatest);
  }

  template <class Tile>
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                       state<Tile> s) const {
    const auto put = [&](const target& t, const A(&values)[Tile::elements]) {
      if (t.data == nullptr) return;
      store_fragment(at, t.data + static_cast<std::int64_t>(row.row) * t.row_stride, values, hint);
    };
    put(sum, s.sum);
    put(squares, s.squares);
    if (row.degree > 0 && mean.data != nullptr) {
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) s.sum[i] /= static_cast<A>(row.degree);
    }
    put(mean, s.sum);
    s.least.resolve(row.degree);
    s.greatest.resolve(row.degree);
    if (min.data != nullptr)
      store_extremum<T>(at, row, min.data, min.row_stride, input, s.least, hint);
    if (max.data != nullptr)
      store_extremum<T>(at, row, max.data, max.row_stride, input, s.greatest, hint);
    if constexpr (P == positions::kept) {
      store_argument(at, min_argument, row, input.indices, s.least.position);
      store_argument(at, max_argument, row, input.indices, s.greatest.position);
    }
  }
};

}  // namespace quipu::detail
