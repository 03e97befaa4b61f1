// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/attention/detail/gradient_program.hpp"

namespace quipu::detail {

/// Logits and products of a batch: this lane's parts of <own, key> and <own_other, value>, where
/// what is fetched are keys and values, or queries and gradients of outputs. A key of -inf has
/// weight 0, and must have it in lanes without features too.
#ifdef __CUDACC__
template <class Tile, class Batch, class A>
__device__ inline void transformer_dots(const lane_position<Tile>& at, const Batch& batch,
                                        const A (&own)[Tile::elements],
                                        const A (&own_other)[Tile::elements],
                                        A (&dot)[2 * Batch::size]) {
#pragma unroll
  for (int u = 0; u < Batch::size; ++u) {
    A logit{0}, product{0};
#pragma unroll
    for (int v = 0; v < Tile::vectors; ++v) {
      A part{0};
#pragma unroll
      for (int i = v * Tile::width; i < (v + 1) * Tile::width; ++i) {
        part += own[i] * batch.rows[u].key.value(i);
        product += own_other[i] * batch.rows[u].value.value(i);
      }
      logit += at.active(v) ? part : A{0};
    }
    dot[2 * u] = logit;
    dot[2 * u + 1] = product;
  }
}
#endif

/// The receivers' side: d query = scale * sum of ds * key, d bias = ds, and the records.
template <element T, bool Extras>
struct transformer_receivers : gradient_program<T, 1>, receivers_half<T, Extras> {
  using A = accumulator<T>;
  head_matrix<T> query;
  A scale;
  head_numbers<const A> bias;
  head_numbers<A> grad_bias;

#ifdef __CUDACC__
  __device__ const A* bias_data() const { return Extras ? bias.data : nullptr; }

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
      A dot[2 * Batch::size], ds[slots::held], weight[slots::held];
      transformer_dots(at, batch, query, grad, dot);
      slots::apply(dot, ds, weight);
      program.template weigh<slots>(
          at, batch, record,
          [&](int u) {
            return logit_of(program.scale, program.bias_data(), program.bias.stride, batch.edge(u),
                            at.head, batch.valid(u));
          },
          ds, weight);
      if (Extras && program.grad_bias.data != nullptr) {
        const int lane = lane_of_group<Tile>();
#pragma unroll
        for (int h = 0; h < slots::held; ++h) {
          const int u = slots::first(lane) + h;
          if (batch.valid(u) && lane == slots::lane_of(u)) {
            program.grad_bias.at(batch.edge(u), at.head) = ds[h];
          }
        }
      }
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        const A f = tell_group<Tile::lanes>(ds[slots::slot_of(u)], slots::lane_of(u));
        if (batch.valid(u)) {
          add_scaled(s.sum[0], f, [&](int i) { return batch.rows[u].key.value(i); });
        }
      }
    }
  };

  template <class Tile, class I>
  __device__ row_program<Tile> for_row(const lane_position<Tile>& at,
                                       const row_edges<I>& row) const {
    row_program<Tile> r{*this, {}, {}, {}};
    read_head(at, query.head_of(row.row, at.head), r.query);
    r.record = this->open(at, row.row, r.grad);
    return r;
  }
#endif
};

/// The senders' side: d key = scale * sum of ds * query, d value = sum of weight * grad_output.
template <element T, node_index O, bool Extras>
struct transformer_senders : gradient_program<T, 2>, senders_half<T, O, Extras> {
  using A = accumulator<T>;
  head_matrix<T> key, value;
  A scale;
  head_numbers<const A> bias;  // in the order of the forward graph

#ifdef __CUDACC__
  __device__ const A* bias_data() const { return Extras ? bias.data : nullptr; }

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
      const auto found = program.template look_up<slots>(at, batch);
      A ds[slots::held], weight[slots::held];
      if (!program.has_stash()) {
        A dot[2 * Batch::size];
        transformer_dots(at, batch, key, value, dot);
        slots::apply(dot, ds, weight);
        program.template weigh<slots>(
            at, found,
            [&](int h) {
              const bool there = batch.valid(slots::first(lane_of_group<Tile>()) + h);
              return logit_of(program.scale, program.bias_data(), program.bias.stride,
                              found.edge[h], at.head, there);
            },
            ds, weight);
      } else {
        program.template recall<slots>(at, found, ds, weight);
      }
#pragma unroll
      for (int u = 0; u < Batch::size; ++u) {
        const A f = tell_group<Tile::lanes>(ds[slots::slot_of(u)], slots::lane_of(u));
        const A w = tell_group<Tile::lanes>(weight[slots::slot_of(u)], slots::lane_of(u));
        if (!batch.valid(u)) continue;
        add_scaled(s.sum[0], f, [&](int i) { return batch.rows[u].key.value(i); });
        add_scaled(s.sum[1], w, [&](int i) { return batch.rows[u].value.value(i); });
      }
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
