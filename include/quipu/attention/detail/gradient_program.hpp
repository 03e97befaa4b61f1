// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/attention_programs.hpp"

namespace quipu::detail {

/// What a gradient must know of a receiver's softmax, side by side so that one load brings both:
/// the logarithm of the denominator, in powers of 2, and <grad_output, output>, by which every
/// <grad_output, value> is lowered. [rows, heads]
template <class A>
struct alignas(2 * sizeof(A)) softmax_record {
  A logsumexp, lowered_by;
};

#ifdef __CUDACC__
/// Sums over the lanes of a group for two numbers of each edge of a batch: with them the lanes hold
/// both numbers of their edges.
template <int Lanes, int Size>
struct pair_sums {
  using sums = group_sum<Lanes, 2 * Size>;
  static constexpr int held = sums::held > 1 ? sums::held / 2 : 1;  // edges of a lane
  static __device__ int first(int lane) { return sums::first(lane) / 2; }
  static constexpr __device__ int lane_of(int edge) { return 2 * edge / sums::held * sums::copies; }
  static constexpr __device__ int slot_of(int edge) { return edge % held; }

  /// Number k of edge u lies in values[2 * u + k].
  template <class A>
  static __device__ void apply(A (&values)[2 * Size], A (&one)[held], A (&other)[held]) {
    sums::apply(values);
    if constexpr (sums::held > 1) {
#pragma unroll
      for (int h = 0; h < held; ++h) {
        one[h] = values[2 * h];
        other[h] = values[2 * h + 1];
      }
    } else {
      const A across = __shfl_xor_sync(group_mask<Lanes>(), values[0], sums::copies);
      const bool second = static_cast<int>(threadIdx.x) % Lanes / sums::copies % 2 == 1;
      one[0] = second ? across : values[0];
      other[0] = second ? values[0] : across;
    }
  }
};

template <class A>
__device__ inline A weight_by_record(A dot, const exponent_of<A>& exponent,
                                     const softmax_record<A>& r) {
  return is_minus_infinity(r.logsumexp) ? A{0} : quick_exp2(exponent.above(dot, r.logsumexp));
}

/// sum += f * row, but not where f is 0: weight 0 passes no gradient, whatever the row holds.
template <int Elements, class A, class Value>
__device__ inline void add_scaled(A (&sum)[Elements], A f, const Value& value) {
  if (f == A{0}) return;
#pragma unroll
  for (int i = 0; i < Elements; ++i) sum[i] += f * value(i);
}
#endif

/// Sums over edges that are written as rows of heads.
template <class A, int Elements, int Count>
struct gradient_state {
  A sum[Count][Elements];
};
template <element T>
struct head_output {
  T* data;
  std::int64_t row_stride, head_stride;
  accumulator<T> factor;
  explicit head_output(const heads_view<T>& m, accumulator<T> f = 1)
      : data(m.data_handle()), row_stride(m.stride(0)), head_stride(m.stride(1)), factor(f) {}
};

/// States, merging and writing of gradients that are `Count` sums over edges.
template <element T, int Count>
struct gradient_program {
  using A = accumulator<T>;
  static constexpr bool by_heads = true;
  template <class Tile>
  using state = gradient_state<A, Tile::elements, Count>;

  head_output<T> out[Count];

#ifdef __CUDACC__
  template <class Tile, class I>
  __device__ state<Tile> init(const lane_position<Tile>&, const row_edges<I>&) const {
    state<Tile> s;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
#pragma unroll
      for (int i = 0; i < Tile::elements; ++i) s.sum[c][i] = A{0};
    }
    return s;
  }
  template <class Tile>
  __device__ void merge(const lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
#pragma unroll
      for (int i = 0; i < Tile::elements; ++i) s.sum[c][i] += next.sum[c][i];
    }
  }
  template <class Tile, class I>
  __device__ void finish(const lane_position<Tile>& at, const row_edges<I>& row,
                         state<Tile> s) const {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      const auto& o = out[c];
#pragma unroll
      for (int i = 0; i < Tile::elements; ++i) s.sum[c][i] *= o.factor;
      store_fragment(
          at, o.data + static_cast<std::int64_t>(row.row) * o.row_stride + at.head * o.head_stride,
          s.sum[c]);
    }
  }
#endif
};

/// The receivers' side of the transformer: d query = scale * sum of ds * key, and the records.
template <element T>
struct transformer_receivers : gradient_program<T, 1> {
  using A = accumulator<T>;
  head_matrix<T> query, grad_output, output;
  const A* logsumexp;
  std::int64_t logsumexp_stride;
  softmax_record<A>* records;  // [rows, heads]
  std::int64_t heads;
  A scale;
  const A* bias;  // null: none
  std::int64_t bias_stride;
  A* grad_bias;  // null: not wanted
  std::int64_t grad_bias_stride;

#ifdef __CUDACC__
  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const transformer_receivers& program;
    softmax_record<A> record;
    A query[Tile::elements];
    A grad[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, gradient_state<A, Tile::elements, 1>& s,
                          const Batch& batch) const {
      using slots = pair_sums<Tile::lanes, Batch::size>;
      A dot[2 * Batch::size];
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        A qk{0}, gv{0};
#pragma unroll
        for (int v = 0; v < Tile::vectors; ++v) {
          A part{0};
#pragma unroll
          for (int i = v * Tile::width; i < (v + 1) * Tile::width; ++i) {
            part += query[i] * batch.rows[u].key.value(i);
            gv += grad[i] * batch.rows[u].value.value(i);
          }
          // A key of -inf has weight 0, and must have it in lanes without features too.
          qk += at.active(v) ? part : A{0};
        }
        dot[2 * u] = qk;
        dot[2 * u + 1] = gv;
      }
      A logit[slots::held], product[slots::held];
      slots::apply(dot, logit, product);
      const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        const int u = slots::first(lane) + h;
        const auto means = scaled_exponent(program.scale, program.bias, program.bias_stride,
                                           batch.edge(u), at.head, batch.valid(u));
        const A w = weight_by_record(logit[h], means, record);
        logit[h] = w == A{0} ? A{0} : w * (product[h] - record.lowered_by);
        if (program.grad_bias != nullptr && batch.valid(u) && lane == slots::lane_of(u)) {
          program.grad_bias[batch.edge(u) * program.grad_bias_stride + at.head] = logit[h];
        }
      }
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        const A ds = tell_group<Tile::lanes>(logit[slots::slot_of(u)], slots::lane_of(u));
        if (batch.valid(u)) {
          add_scaled(s.sum[0], ds, [&](int i) { return batch.rows[u].key.value(i); });
        }
      }
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, {}, {}, {}};
    const std::int64_t i = row.row;
    read_head(at, query.head_of(i, at.head), r.query);
    read_head(at, output.head_of(i, at.head), r.grad);
    A own[Tile::elements];
    read_head(at, grad_output.head_of(i, at.head), own);
    A dot{0};
#pragma unroll
    for (int e = 0; e < Tile::elements; ++e) {
      dot += own[e] * r.grad[e];
      r.grad[e] = own[e];
    }
#pragma unroll
    for (int offset = Tile::lanes / 2; offset > 0; offset /= 2) {
      dot += __shfl_xor_sync(group_mask<Tile::lanes>(), dot, offset);
    }
    r.record = {logsumexp[i * logsumexp_stride + at.head] * log2_of_e<A>, dot};
    // Every slice of a split row writes the same.
    if (threadIdx.x % Tile::lanes == 0) records[i * heads + at.head] = r.record;
    return r;
  }
#endif
};

/// Two rows of each receiver, both fetched: query and grad_output, or target and grad_output.
template <element T>
using receiver_rows = key_value_rows<T>;

/// The senders' side: d key = scale * sum of ds * query, d value = sum of alpha * grad_output. The
/// graph is the reverse one.
template <element T, node_index O>
struct transformer_senders : gradient_program<T, 2> {
  using A = accumulator<T>;
  head_matrix<T> key, value;
  const softmax_record<A>* records;
  std::int64_t heads;
  A scale;
  const A* bias;  // null: none; in the order of the forward graph
  std::int64_t bias_stride;
  const O* edge_map;

#ifdef __CUDACC__
  template <class Tile>
  struct row_program {
    static constexpr bool takes_absent_rows = true;
    const transformer_senders& program;
    A key[Tile::elements];
    A value[Tile::elements];

    template <class Batch>
    __device__ void visit(const lane_position<Tile>& at, gradient_state<A, Tile::elements, 2>& s,
                          const Batch& batch) const {
      using slots = pair_sums<Tile::lanes, Batch::size>;
      const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
      softmax_record<A> record[slots::held];
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        record[h] =
            program.records[receiver_of(batch, slots::first(lane) + h) * program.heads + at.head];
      }
      A dot[2 * Batch::size];
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        A qk{0}, gv{0};
#pragma unroll
        for (int i = 0; i < Tile::elements; ++i) {
          qk += key[i] * batch.rows[u].key.value(i);
          gv += value[i] * batch.rows[u].value.value(i);
        }
        dot[2 * u] = qk;
        dot[2 * u + 1] = gv;
      }
      A logit[slots::held], product[slots::held];
      slots::apply(dot, logit, product);
#pragma unroll
      for (int h = 0; h < slots::held; ++h) {
        const int u = slots::first(lane) + h;
        const bool biased = program.bias != nullptr && batch.valid(u);
        const auto edge =
            biased ? static_cast<std::int64_t>(program.edge_map[batch.edge(u)]) : std::int64_t{0};
        const auto means = scaled_exponent(program.scale, program.bias, program.bias_stride, edge,
                                           at.head, biased);
        const A w = weight_by_record(logit[h], means, record[h]);
        logit[h] = w == A{0} ? A{0} : w * (product[h] - record[h].lowered_by);
        product[h] = w;
      }
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        const A ds = tell_group<Tile::lanes>(logit[slots::slot_of(u)], slots::lane_of(u));
        const A w = tell_group<Tile::lanes>(product[slots::slot_of(u)], slots::lane_of(u));
        if (!batch.valid(u)) continue;
        add_scaled(s.sum[0], ds, [&](int i) { return batch.rows[u].key.value(i); });
        add_scaled(s.sum[1], w, [&](int i) { return batch.rows[u].value.value(i); });
      }
    }

   private:
    template <class Batch>
    static __device__ std::int64_t receiver_of(const Batch& batch, int u) {
      auto receiver = batch.columns[0];
#pragma unroll
      for (int k = 1; k < Batch::size; ++k) receiver = u == k ? batch.columns[k] : receiver;
      return receiver;
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, {}, {}};
    read_head(at, key.head_of(row.row, at.head), r.key);
    read_head(at, value.head_of(row.row, at.head), r.value);
    return r;
  }
#endif
};

}  // namespace quipu::detail
