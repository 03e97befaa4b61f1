// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/program.hpp"
#include "quipu/lane/vector.hpp"
#include "quipu/math/reduction.hpp"
#include "quipu/reduce/aggregate.hpp"

namespace quipu::detail {

/// Factors of a sum: what a sender's row is multiplied by, from the edge position and the sender.
struct unit_factor {
  static constexpr bool is_one = true;
};
struct weight_factor {
  static constexpr bool is_one = false;
  const float* weights;
  template <class A, class I>
  QUIPU_HD A at(std::int64_t edge, I) const {
    return static_cast<A>(weights[edge]);
  }
};
/// Seen from the reverse graph: edges carry their forward position, senders their own degree.
template <class O>
struct mapped_factor {
  static constexpr bool is_one = false;
  const float* weights;  // by forward edge position; null: 1
  const O* edge_map;
  const O* offsets;  // of the forward rows, to divide by their degree; null: no division
  template <class A, class I>
  QUIPU_HD A at(std::int64_t edge, I row) const {
    const A weight = weights != nullptr ? static_cast<A>(weights[edge_map[edge]]) : A{1};
    return offsets != nullptr ? weight / static_cast<A>(offsets[row + 1] - offsets[row]) : weight;
  }
};

/// sum and mean.
template <element T, class Factor>
struct sum_program {
  using A = accumulator<T>;
  template <class Tile>
  struct state {
    A sum[Tile::elements];
  };

  T* output;
  std::int64_t row_stride;
  Factor factor;
  reduce op;

  template <class Tile, class I>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] = A{0};
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>&, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      if constexpr (Factor::is_one) {
        QUIPU_UNROLL
        for (int i = 0; i < Tile::elements; ++i) s.sum[i] += batch.rows[u].value(i);
      } else {
        const A f = factor.template at<A>(batch.edge(u), batch.columns[u]);
        QUIPU_UNROLL
        for (int i = 0; i < Tile::elements; ++i) s.sum[i] += f * batch.rows[u].value(i);
      }
    }
  }

  template <class Tile>
  QUIPU_HD void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) s.sum[i] += next.sum[i];
  }

  template <class Tile, class I>
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row, state<Tile> s) const {
    if (op == reduce::mean && row.degree > 0) {
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) s.sum[i] /= static_cast<A>(row.degree);
    }
    store_fragment(at, output + static_cast<std::int64_t>(row.row) * row_stride, s.sum);
  }
};

template <class Raw, class Tile>
QUIPU_HD inline void store_positions(const lane_position<Tile>& at, Raw* row,
                                     const std::uint32_t (&positions)[Tile::elements]) {
  QUIPU_UNROLL
  for (int v = 0; v < Tile::vectors; ++v) {
    if (!at.active(v)) continue;
    raw_vector<Raw, Tile::width> out;
    QUIPU_UNROLL
    for (int e = 0; e < Tile::width; ++e) out.data[e] = static_cast<Raw>(positions[v * Tile::width + e]);
    Raw* to = row + at.feature(v);
#ifdef __CUDA_ARCH__
    // Rows of winners are packed, so `width` of them lie on a border of their own size.
    using word = std::conditional_t<sizeof out == 4, std::uint32_t,
                                    std::conditional_t<sizeof out == 8, uint2, std::uint16_t>>;
    if constexpr (sizeof out == 4 || sizeof out == 8 || (sizeof out == 2 && sizeof(Raw) == 1)) {
      if (reinterpret_cast<std::uintptr_t>(to) % sizeof out == 0) {
        word bits;
        memcpy(&bits, &out, sizeof out);
        __stcs(reinterpret_cast<word*>(to), bits);
        continue;
      }
    }
    if constexpr (sizeof out % 16 == 0) {
      if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
        for (int q = 0; q < static_cast<int>(sizeof out / 16); ++q) {
          uint4 bits;
          memcpy(&bits, reinterpret_cast<const char*>(&out) + q * 16, 16);
          __stcs(reinterpret_cast<uint4*>(to) + q, bits);
        }
        continue;
      }
    }
#endif
    for (int e = 0; e < Tile::width; ++e) to[e] = out.data[e];
  }
}

/// Writes winners in the width that the caller's storage has; nothing if it is empty.
template <class Tile>
QUIPU_HD inline void store_argument(const lane_position<Tile>& at, const argument_view& argument,
                                    std::int64_t row,
                                    const std::uint32_t (&positions)[Tile::elements]) {
  if (argument.data == nullptr) return;
  const auto begin = row * argument.row_stride;
  switch (argument.width) {
    case argument_width::u8:
      return store_positions(at, static_cast<std::uint8_t*>(argument.data) + begin, positions);
    case argument_width::u16:
      return store_positions(at, static_cast<std::uint16_t*>(argument.data) + begin, positions);
    case argument_width::u32:
      return store_positions(at, static_cast<std::uint32_t*>(argument.data) + begin, positions);
  }
}

/// Best value and its position for the elements of one lane.
template <extremum E, class A, int Elements>
struct extremum_state {
  A best[Elements];
  std::uint32_t position[Elements];

  QUIPU_HD void clear() {
    QUIPU_UNROLL
    for (int i = 0; i < Elements; ++i) {
      best[i] = worst<E, A>();
      position[i] = no_edge;
    }
  }
  QUIPU_HD void append(const extremum_state& next) {
    QUIPU_UNROLL
    for (int i = 0; i < Elements; ++i) {
      fold_extremum<E>(best[i], position[i], next.best[i], next.position[i]);
    }
  }
  QUIPU_HD void resolve(std::int64_t degree) {
    QUIPU_UNROLL
    for (int i = 0; i < Elements; ++i) {
      position[i] = resolve_first(position[i], degree);
      if (degree == 0) best[i] = A{0};
    }
  }
};

/// Writes extrema with the bits of the elements that won. 16-bit NaNs lose their payload on the way
/// to fp32 and back, so they, and they alone, are fetched again.
template <class T, class Tile, extremum E, class I>
QUIPU_HD inline void store_extremum(const lane_position<Tile>& at, const row_edges<I>& row, T* output,
                                    std::int64_t row_stride, const T* input,
                                    std::int64_t input_stride, const I* indices,
                                    extremum_state<E, accumulator<T>, Tile::elements>& s) {
  T* to = output + static_cast<std::int64_t>(row.row) * row_stride;
  store_fragment(at, to, s.best);
  if constexpr (sizeof(T) == 2) {
    QUIPU_UNROLL
    for (int i = 0; i < Tile::elements; ++i) {
      if (s.best[i] == s.best[i] || !at.active(i / Tile::width)) continue;
      const auto feature = at.feature(i / Tile::width) + i % Tile::width;
      const std::int64_t column = indices[row.begin + s.position[i]];
      to[feature] = input[column * input_stride + feature];
    }
  }
}

/// min and max with argument.
template <element T, node_index I, extremum E>
struct extremum_program {
  using A = accumulator<T>;
  template <class Tile>
  using state = extremum_state<E, A, Tile::elements>;

  T* output;
  std::int64_t row_stride;
  argument_view argument;
  const T* input;  // with its stride and the ids: to fetch 16-bit NaNs again
  std::int64_t input_stride;
  const I* indices;

  template <class Tile>
  QUIPU_HD state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
    s.clear();
    return s;
  }

  template <class Tile, class Batch>
  QUIPU_HD void visit(const lane_position<Tile>&, state<Tile>& s, const Batch& batch) const {
    QUIPU_UNROLL
    for (int u = 0; u < Batch::size; ++u) {
      if (!batch.valid(u)) continue;
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) {
        fold_extremum<E>(s.best[i], s.position[i], batch.rows[u].value(i), batch.position(u));
      }
    }
  }

  template <class Tile>
  QUIPU_HD void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    s.append(next);
  }

  template <class Tile>
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row, state<Tile> s) const {
    s.resolve(row.degree);
    store_extremum<T>(at, row, output, row_stride, input, input_stride, indices, s);
    store_argument(at, argument, row.row, s.position);
  }
};

/// Any subset of sum, mean, min, max and sum of squares, from one read of the rows.
template <element T, node_index I>
struct several_program {
  using A = accumulator<T>;
  template <class Tile>
  struct state {
    A sum[Tile::elements];
    A squares[Tile::elements];
    extremum_state<extremum::min, A, Tile::elements> least;
    extremum_state<extremum::max, A, Tile::elements> greatest;
  };

  struct target {
    T* data = nullptr;
    std::int64_t row_stride = 0;
  };
  target sum, mean, min, max, squares;
  argument_view min_argument, max_argument;
  const float* weights;
  const T* input;
  std::int64_t input_stride;
  const I* indices;

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
        fold_extremum<extremum::min>(s.least.best[i], s.least.position[i], x, position);
        fold_extremum<extremum::max>(s.greatest.best[i], s.greatest.position[i], x, position);
      }
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
  QUIPU_HD void finish(const lane_position<Tile>& at, const row_edges<I>& row, state<Tile> s) const {
    const auto put = [&](const target& t, const A(&values)[Tile::elements]) {
      if (t.data == nullptr) return;
      store_fragment(at, t.data + static_cast<std::int64_t>(row.row) * t.row_stride, values);
    };
    put(sum, s.sum);
    put(squares, s.squares);
    if (row.degree > 0) {
      QUIPU_UNROLL
      for (int i = 0; i < Tile::elements; ++i) s.sum[i] /= static_cast<A>(row.degree);
    }
    put(mean, s.sum);
    s.least.resolve(row.degree);
    s.greatest.resolve(row.degree);
    if (min.data != nullptr) {
      store_extremum<T>(at, row, min.data, min.row_stride, input, input_stride, indices, s.least);
    }
    if (max.data != nullptr) {
      store_extremum<T>(at, row, max.data, max.row_stride, input, input_stride, indices, s.greatest);
    }
    store_argument(at, min_argument, row.row, s.least.position);
    store_argument(at, max_argument, row.row, s.greatest.position);
  }
};

}  // namespace quipu::detail
