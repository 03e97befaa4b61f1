// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/attention_programs.hpp"
#include "quipu/attention/detail/attention_tuning.hpp"

namespace quipu::detail {

/// What a gradient must know of a receiver's softmax: the logarithm of the denominator, and
/// <grad_output, output>, by which every <grad_output, value> is lowered.
template <class A>
struct alignas(2 * sizeof(A)) softmax_record {
  A logsumexp, lowered_by;
};

/// The records of all receivers and heads, which the receivers' half leaves to the senders'. One
/// load brings both numbers of a record. Where heads are many and narrow, records would take a
/// noticeable part of all memory, and logsumexp stays where the forward call put it.
template <class A>
struct record_list {
  const A* forward_logsumexp;  // [rows, heads]
  std::int64_t forward_stride;
  std::int64_t heads;
  A* data;  // [rows, heads] records, or what they are lowered by
  bool apart;

#ifdef __CUDACC__
  __device__ A logsumexp(std::int64_t row, std::int64_t head) const {
    return forward_logsumexp[row * forward_stride + head];
  }
  __device__ softmax_record<A> at(std::int64_t row, std::int64_t head) const {
    const auto k = row * heads + head;
    if (apart) return {logsumexp(row, head), data[k]};
    return reinterpret_cast<const softmax_record<A>*>(data)[k];
  }
  __device__ void put(std::int64_t row, std::int64_t head, const softmax_record<A>& r) const {
    const auto k = row * heads + head;
    if (apart) {
      data[k] = r.lowered_by;
    } else {
      reinterpret_cast<softmax_record<A>*>(data)[k] = r;
    }
  }
#endif
};

/// What the sums over edges are made of: the weight of grad_output, and the gradient of the logit.
template <class A>
struct alignas(2 * sizeof(A)) edge_gradient {
  A weight, logit;
};

#ifdef __CUDACC__
/// Sums over the lanes of a group for one number of each edge of a batch. Lanes hold the edges
/// first(lane) and on; edge u is in slot slot_of(u) of lane lane_of(u), and of others.
template <int Lanes, int Size>
struct edge_sums : group_sum<Lanes, Size> {
  using sums = group_sum<Lanes, Size>;
  static constexpr __device__ int lane_of(int edge) { return edge / sums::held * sums::copies; }
  static constexpr __device__ int slot_of(int edge) { return edge % sums::held; }
};

/// The same for two numbers of each edge.
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

template <class Tile>
__device__ inline int lane_of_group() {
  return static_cast<int>(threadIdx.x) % Tile::lanes;
}

/// The sender of edge u on the receivers' side, the receiver on the senders', `u` differing from
/// lane to lane: chosen step by step, because an array with such an index goes to memory.
template <class Batch>
__device__ inline std::int64_t column_of(const Batch& batch, int u) {
  auto column = batch.columns[0];
#pragma unroll
  for (int k = 1; k < Batch::size; ++k) column = u == k ? batch.columns[k] : column;
  return column;
}

/// alpha made anew, and with it the gradient. `product` is <grad_output, value>, `kept` what
/// dropout multiplies the weight by. An edge of alpha 0 passes none.
template <class A, class Logit>
__device__ inline edge_gradient<A> gradient_of(A dot, const Logit& means, A product,
                                               const softmax_record<A>& r, A kept) {
  const A alpha = is_minus_infinity(r.logsumexp) ? A{0} : quick_exp2(means.above(dot, r.logsumexp));
  if (alpha == A{0}) return {A{0}, A{0}};
  return {alpha * kept, alpha * (kept * product - r.lowered_by)};
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

/// Numbers of nodes or edges by head.
template <class A>
struct head_numbers {
  A* data;  // null: none
  std::int64_t stride;
  explicit head_numbers(const matrix_view<A>& m) : data(m.data_handle()), stride(m.stride(0)) {}
  QUIPU_HD A& at(std::int64_t row, std::int64_t head) const { return data[row * stride + head]; }
};

/// What the receivers' half of every gradient has: it makes the records, and leaves a stash if it
/// is to. Without `Extras` there is neither dropout nor a stash, and no register for them.
template <element T, bool Extras>
struct receivers_half {
  using A = accumulator<T>;
  static constexpr auto side = gradient_side::receivers;
  // Extras take registers that lay-outs were not measured with.
  static constexpr bool bounds_blocks = !Extras;
  head_matrix<T> grad_output, output;
  record_list<A> records;
  dropout_mask<A> dropout;
  edge_gradient<A>* stash;  // [edges, heads]; null: not wanted

#ifdef __CUDACC__
  /// Reads a receiver's grad_output and makes its record. Every slice of a split row writes the
  /// same.
  template <class Tile>
  __device__ softmax_record<A> open(const lane_position<Tile>& at, std::int64_t row,
                                    A (&grad)[Tile::elements]) const {
    A own[Tile::elements], dot{0};
    read_head(at, output.head_of(row, at.head), own);
    read_head(at, grad_output.head_of(row, at.head), grad);
#pragma unroll
    for (int i = 0; i < Tile::elements; ++i) dot += grad[i] * own[i];
    const softmax_record<A> r{records.logsumexp(row, at.head), sum_group<Tile::lanes>(dot)};
    if (lane_of_group<Tile>() == 0) records.put(row, at.head, r);
    return r;
  }

  /// Turns logits and products of the edges that a lane holds into gradients of logits and weights.
  /// `means(u)` says what a logit means.
  template <class Slots, class Tile, class Batch, class Means>
  __device__ void weigh(const lane_position<Tile>& at, const Batch& batch,
                        const softmax_record<A>& record, const Means& means,
                        A (&logit)[Slots::held], A (&product)[Slots::held]) const {
    const int lane = lane_of_group<Tile>();
#pragma unroll
    for (int h = 0; h < Slots::held; ++h) {
      const int u = Slots::first(lane) + h;
      A kept{1};
      if constexpr (Extras) kept = dropout(batch.edge(u), at.head);
      const auto g = gradient_of(logit[h], means(u), product[h], record, kept);
      if constexpr (Extras) {
        if (stash != nullptr && batch.valid(u) && lane == Slots::lane_of(u)) {
          stash[batch.edge(u) * records.heads + at.head] = g;
        }
      }
      logit[h] = g.logit;
      product[h] = g.weight;
    }
  }
#endif
};

/// What the senders' half has, whose graph is the reverse one. Without `Extras` there is neither
/// dropout nor a stash.
template <element T, node_index O, bool Extras>
struct senders_half {
  using A = accumulator<T>;
  static constexpr auto side = gradient_side::senders;
  record_list<A> records;
  dropout_mask<A> dropout;
  const edge_gradient<A>* stash;  // null: none
  const O* edge_map;              // null: no extra asks an edge for more than its receiver

#ifdef __CUDACC__
  __device__ bool has_stash() const { return Extras && stash != nullptr; }

  /// What is looked up for the edges that a lane holds before anything is computed.
  template <class Slots>
  struct looked_up {
    std::int64_t edge[Slots::held];  // in the forward graph
    softmax_record<A> record[Slots::held];
  };
  template <class Slots, class Tile, class Batch>
  __device__ looked_up<Slots> look_up(const lane_position<Tile>& at, const Batch& batch) const {
    looked_up<Slots> found;
#pragma unroll
    for (int h = 0; h < Slots::held; ++h) {
      const int u = Slots::first(lane_of_group<Tile>()) + h;
      found.edge[h] = 0;
      if constexpr (Extras) {
        if (edge_map != nullptr && batch.valid(u))
          found.edge[h] = static_cast<std::int64_t>(edge_map[batch.edge(u)]);
      }
      found.record[h] =
          has_stash() ? softmax_record<A>{} : records.at(column_of(batch, u), at.head);
    }
    return found;
  }

  template <class Slots, class Tile, class Means>
  __device__ void weigh(const lane_position<Tile>& at, const looked_up<Slots>& found,
                        const Means& means, A (&logit)[Slots::held],
                        A (&product)[Slots::held]) const {
#pragma unroll
    for (int h = 0; h < Slots::held; ++h) {
      A kept{1};
      if constexpr (Extras) kept = dropout(found.edge[h], at.head);
      const auto g = gradient_of(logit[h], means(h), product[h], found.record[h], kept);
      logit[h] = g.logit;
      product[h] = g.weight;
    }
  }
  /// The same from what the receivers' half left.
  template <class Slots, class Tile>
  __device__ void recall(const lane_position<Tile>& at, const looked_up<Slots>& found,
                         A (&logit)[Slots::held], A (&weight)[Slots::held]) const {
#pragma unroll
    for (int h = 0; h < Slots::held; ++h) {
      const auto g = stash[found.edge[h] * records.heads + at.head];
      logit[h] = g.logit;
      weight[h] = g.weight;
    }
  }
#endif
};

/// Two rows of each receiver, both fetched: query and grad_output, or target and grad_output.
template <element T>
using receiver_rows = key_value_rows<T>;

}  // namespace quipu::detail
