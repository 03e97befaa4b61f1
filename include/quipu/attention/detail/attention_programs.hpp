// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/softmax.hpp"
#include "quipu/engine/row_source.hpp"
#include "quipu/math/activation.hpp"

namespace quipu::detail {

/// A head's part of a row, as lanes hold it: converted, and 0 where a lane has no feature.
#ifdef __CUDACC__
template <class T, class Tile>
__device__ inline void read_head(const lane_position<Tile>& at, const T* row,
                                 accumulator<T> (&to)[Tile::elements]) {
  fragment<T, Tile> f;
#pragma unroll
  for (int v = 0; v < Tile::vectors; ++v) {
    load_fragment_vector(f, v, row + at.read_offset(v));
#pragma unroll
    for (int e = 0; e < Tile::width; ++e) {
      const int i = v * Tile::width + e;
      to[i] = at.active(v) ? f.value(i) : accumulator<T>{0};
    }
  }
}
#endif

/// leaky(x) = x > 0 ? x : slope * x = of_x * x + of_absolute * |x|.
template <class A>
struct leaky_terms {
  A slope, of_x, of_absolute;
  explicit leaky_terms(A s) : slope(s), of_x((A{1} + s) / 2), of_absolute((A{1} - s) / 2) {}
};

#ifdef __CUDACC__
/// What dot products of query and key mean, `bias` null or [edges, heads].
template <class A>
__device__ inline scaled_logit<A> logit_of(A scale, const A* bias, std::int64_t stride,
                                           std::int64_t edge, std::int64_t head, bool valid) {
  return {scale, bias != nullptr && valid ? bias[edge * stride + head] : A{0}};
}

/// This lane's part of <a, leaky(own + row)>, the quick way, three instructions an element instead
/// of four. Infinities become NaN.
template <class A, int Elements, class Row>
__device__ inline A quick_leaky_dot(const leaky_terms<A>& leaky, const A (&own)[Elements],
                                    const A (&a)[Elements], const Row& row) {
  A sum{0}, of_absolutes{0};
#pragma unroll
  for (int i = 0; i < Elements; ++i) {
    const A x = own[i] + row(i);
    sum += a[i] * x;
    of_absolutes += a[i] * fabs(x);
  }
  return leaky.of_x * sum + leaky.of_absolute * of_absolutes;
}
/// The same by the formula, of features alone.
template <class Tile, class A, class Row>
__device__ inline A leaky_dot(const lane_position<Tile>& at, A slope,
                              const A (&own)[Tile::elements], const A (&a)[Tile::elements],
                              const Row& row) {
  A part{0};
#pragma unroll
  for (int i = 0; i < Tile::elements; ++i) {
    const A x = own[i] + row(i);
    if (at.active(i / Tile::width)) part += a[i] * leaky_relu(x, slope);
  }
  return part;
}

/// One or the other.
template <bool Careful, class Tile, class A, class Row>
__device__ inline A leaky_part(const lane_position<Tile>& at, const leaky_terms<A>& leaky,
                               const A (&own)[Tile::elements], const A (&a)[Tile::elements],
                               const Row& row) {
  if constexpr (Careful) {
    return leaky_dot(at, leaky.slope, own, a, row);
  } else {
    return quick_leaky_dot(leaky, own, a, row);
  }
}

/// The first elements of an array as one.
template <int Held, class A, int Count>
__device__ inline A (&first_of(A (&values)[Count]))[Held] {
  return reinterpret_cast<A(&)[Held]>(values);
}
#endif

/// Heads of a matrix with rows of its own.
template <element T>
struct head_matrix {
  const T* data;
  std::int64_t row_stride, head_stride;

  explicit head_matrix(const heads_view<const T>& m)
      : data(m.data_handle()), row_stride(m.stride(0)), head_stride(m.stride(1)) {}
  QUIPU_HD const T* head_of(std::int64_t row, std::int64_t head) const {
    return data + row * row_stride + head * head_stride;
  }
};

template <element T, bool Wide = false, bool Drops = false>
struct gatv2_program : softmax_program<T, Wide, Drops> {
  using A = accumulator<T>;
  head_matrix<T> target, source;
  const T* attention;
  std::int64_t attention_stride;
  leaky_terms<A> leaky;

#ifdef __CUDACC__
  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gatv2_program& program;
    std::int64_t receiver;
    A target[Tile::elements];
    A attention[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, softmax_state<A, Tile::elements>& s,
                          const Batch& batch) const {
      visit_batch<false>(at, s, batch);
    }
    template <class Batch>
    __device__ void visit_with_care(const lane_position<Tile>& at,
                                    softmax_state<A, Tile::elements>& s, const Batch& batch) const {
      visit_batch<true>(at, s, batch);
    }
    __device__ bool start_again(const lane_position<Tile>&,
                                softmax_state<A, Tile::elements>& s) const {
      return program.template start_again<Tile>(s);
    }

   private:
    template <bool Careful, class Batch>
    __device__ void visit_batch(const lane_position<Tile>& at, softmax_state<A, Tile::elements>& s,
                                const Batch& batch) const {
      using slots = group_sum<Tile::lanes, Batch::size>;
      A dot[Batch::size];
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        dot[u] = leaky_part<Careful>(at, program.leaky, target, attention,
                                     [&](int i) { return batch.rows[u].value(i); });
      }
      program.for_other_parts(at, [&](const lane_position<Tile>& part) {
        A other_target[Tile::elements], other_attention[Tile::elements], row[Tile::elements];
        read_head(part, program.target.head_of(receiver, at.head), other_target);
        read_head(part, program.attention_of(at.head), other_attention);
#pragma unroll
        for (int u = 0; u < Batch::size; ++u) {
          if (!batch.valid(u)) continue;
          read_head(part, program.source.head_of(batch.columns[u], at.head), row);
          dot[u] += leaky_part<Careful>(part, program.leaky, other_target, other_attention,
                                        [&](int i) { return row[i]; });
        }
      });
      slots::apply(dot);
      program.fold(at, s, batch, first_of<slots::held>(dot), dot_is_logit<A>{},
                   [&](int u, int i) { return batch.rows[u].value(i); });
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, row.row, {}, {}};
    read_head(at, target.head_of(row.row, at.head), r.target);
    read_head(at, attention_of(at.head), r.attention);
    return r;
  }
  __device__ const T* attention_of(std::int64_t head) const {
    return attention + head * attention_stride;
  }
#endif
};

/// Keys and values of the senders, both fetched.
template <element T>
struct key_value_rows {
  head_rows<T> keys, values;
  template <class Tile>
  struct cursor {
    typename head_rows<T>::template cursor<Tile> keys, values;
  };
  template <class Tile>
  struct pair {
    fragment<T, Tile> key, value;
  };

  template <class Tile>
  QUIPU_HD cursor<Tile> begin(const lane_position<Tile>& at) const {
    return {keys.begin(at), values.begin(at)};
  }
  template <class Tile, class I>
  QUIPU_HD pair<Tile> load(const cursor<Tile>& c, I column) const {
    return {keys.template load<Tile>(c.keys, column), values.template load<Tile>(c.values, column)};
  }
};

template <element T, bool Wide = false, bool Drops = false>
struct transformer_program : softmax_program<T, Wide, Drops> {
  using A = accumulator<T>;
  head_matrix<T> query, key, value;
  A scale;
  const A* bias;  // null: none
  std::int64_t bias_stride;

#ifdef __CUDACC__
  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const transformer_program& program;
    std::int64_t receiver;
    A query[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, softmax_state<A, Tile::elements>& s,
                          const Batch& batch) const {
      visit_batch<false>(at, s, batch);
    }
    template <class Batch>
    __device__ void visit_with_care(const lane_position<Tile>& at,
                                    softmax_state<A, Tile::elements>& s, const Batch& batch) const {
      visit_batch<true>(at, s, batch);
    }
    __device__ bool start_again(const lane_position<Tile>&,
                                softmax_state<A, Tile::elements>& s) const {
      return program.template start_again<Tile>(s);
    }

   private:
    /// This lane's part of <q, row>; with care, of features alone.
    template <bool Careful, class Row>
    __device__ static A dot_part(const lane_position<Tile>& at, const A (&q)[Tile::elements],
                                 const Row& row) {
      A part{0};
#pragma unroll
      for (int i = 0; i < Tile::elements; ++i) {
        if (!Careful || at.active(i / Tile::width)) part += q[i] * row(i);
      }
      return part;
    }

    template <bool Careful, class Batch>
    __device__ void visit_batch(const lane_position<Tile>& at, softmax_state<A, Tile::elements>& s,
                                const Batch& batch) const {
      using slots = group_sum<Tile::lanes, Batch::size>;
      A dot[Batch::size];
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        dot[u] = dot_part<Careful>(at, query, [&](int i) { return batch.rows[u].key.value(i); });
      }
      program.for_other_parts(at, [&](const lane_position<Tile>& part) {
        A other_query[Tile::elements], row[Tile::elements];
        read_head(part, program.query.head_of(receiver, at.head), other_query);
#pragma unroll
        for (int u = 0; u < Batch::size; ++u) {
          if (!batch.valid(u)) continue;
          read_head(part, program.key.head_of(batch.columns[u], at.head), row);
          dot[u] += dot_part<Careful>(part, other_query, [&](int i) { return row[i]; });
        }
      });
      slots::apply(dot);
      const int first = slots::first(static_cast<int>(threadIdx.x) % Tile::lanes);
      scaled_logit<A> logits[slots::held];
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        logits[h] = program.logit(batch.edge(first + h), at.head, batch.valid(first + h));
      }
      program.fold(
          at, s, batch, first_of<slots::held>(dot), [&](int h) { return logits[h]; },
          [&](int u, int i) { return batch.rows[u].value.value(i); });
    }
  };

  __device__ scaled_logit<A> logit(std::int64_t edge, std::int64_t head, bool valid) const {
    return logit_of(scale, bias, bias_stride, edge, head, valid);
  }

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, row.row, {}};
    read_head(at, query.head_of(row.row, at.head), r.query);
    return r;
  }
#endif
};

template <element T, node_index I, bool Wide = false, bool Drops = false>
struct gat_program : softmax_program<T, Wide, Drops> {
  using A = accumulator<T>;
  const I* indices;
  const T* target_score;
  std::int64_t target_score_stride;
  const T* source_score;
  std::int64_t source_score_stride;
  A slope;

#ifdef __CUDACC__
  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const gat_program& program;
    A target;

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, softmax_state<A, Tile::elements>& s,
                          const Batch& batch) const {
      using slots = group_sum<Tile::lanes, Batch::size>;
      const int first = slots::first(static_cast<int>(threadIdx.x) % Tile::lanes);
      A logit[slots::held];
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        // Read once more: a choice among registers that differs from lane to lane goes to memory
        // too.
        const int u = Batch::full || first + h < batch.count ? first + h : batch.count - 1;
        const auto column = static_cast<std::int64_t>(program.indices[batch.edge(u)]);
        const A x =
            target + widen(program.source_score[column * program.source_score_stride + at.head]);
        logit[h] = leaky_relu(x, program.slope);
      }
      program.fold(at, s, batch, logit, dot_is_logit<A>{},
                   [&](int u, int i) { return batch.rows[u].value(i); });
    }
  };

  template <class Tile>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    return {
        *this,
        widen(target_score[static_cast<std::int64_t>(row.row) * target_score_stride + at.head])};
  }
#endif
};

}  // namespace quipu::detail
