// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <optional>

#include "matrix.hpp"
#include "options.hpp"
#include "place.hpp"
#include "quipu/attention/gat.hpp"
#include "quipu/attention/gatv2.hpp"
#include "quipu/attention/transformer.hpp"
#include "verbs.hpp"

namespace quipu::cli {

/// Every verb of attention under one name.
template <class Args>
status attend(const auto& ctx, const Args& a, auto... w) {
  constexpr bool back = requires { a.grad_output; };
  if constexpr (requires { a.target_score; }) {
    if constexpr (back)
      return gat_backward(ctx, a, w...);
    else
      return gat_forward(ctx, a, w...);
  } else if constexpr (requires { a.attention; }) {
    if constexpr (back)
      return gatv2_backward(ctx, a, w...);
    else
      return gatv2_forward(ctx, a, w...);
  } else {
    if constexpr (back)
      return transformer_backward(ctx, a, w...);
    else
      return transformer_forward(ctx, a, w...);
  }
}
template <class Args>
status start_attention(const context& ctx, const Args& a, buffer<std::byte>& scratch) {
  return attend(ctx, a, workspace{scratch.data(), scratch.bytes()});
}
template <class Args>
status start_attention(const host_context& ctx, const Args& a, buffer<std::byte>&) {
  return attend(ctx, a);
}

/// draw(nodes, width, stream) of a layer's operands.
template <class T, class Context>
auto draw_onto(const Context& ctx, std::uint64_t seed) {
  return [&ctx, seed](std::int64_t nodes, std::int64_t width, std::uint64_t stream) {
    return place(ctx, draw_matrix<T>(nodes, width, seed, stream).values);
  };
}

/// A layer of attention on an executor's side: operands by the side that they belong to, what
/// forward makes of them, and their gradients. Buffers that a kind has no use for stay empty.
template <class T, class I, class Context>
struct attention_layer {
  const Context& ctx;
  graph_view<I, I> graph;
  attention_kind kind;
  std::int64_t heads, dim;
  double slope = 0.2;
  std::optional<double> scale;  // none: 1 / sqrt(dim)
  attention_dropout dropout;

  buffer<T> receivers;  // target, query or target scores
  buffer<T> senders;    // source, key or source scores
  buffer<T> values;     // value; the source of gat
  buffer<T> vector;     // attention of gatv2
  buffer<T> output;
  buffer<float> logsumexp;
  buffer<T> grad_output, grad_receivers, grad_senders, grad_values, grad_vector;

  attention_layer(const Context& context, const graph_view<I, I>& g, attention_kind k,
                  std::int64_t h, std::int64_t d)
      : ctx(context), graph(g), kind(k), heads(h), dim(d) {}

  /// `draw(nodes, width, stream)` gives an operand; what is there already is left.
  template <class Draw>
  void fill_operands(const Draw& draw) {
    const auto rows = graph.rows(), columns = graph.columns();
    const bool gat = kind == attention_kind::gat;
    const auto width = gat ? heads : heads * dim;
    const auto fill = [&](buffer<T>& b, std::int64_t nodes, std::int64_t w, std::uint64_t stream) {
      if (b.size() == 0) b = draw(nodes, w, stream);
    };
    fill(receivers, rows, width, 1);
    fill(senders, columns, width, 2);
    if (kind == attention_kind::gatv2) {
      fill(vector, heads, dim, 4);
    } else {
      fill(values, columns, heads * dim, 3);
    }
    output = make_buffer<T>(ctx, rows * heads * dim);
    logsumexp = make_buffer<float>(ctx, rows * heads);
  }
  template <class Draw>
  void fill_gradients(const Draw& draw) {
    if (grad_output.size() == 0) grad_output = draw(graph.rows(), heads * dim, 5);
    grad_receivers = make_buffer<T>(ctx, receivers.size());
    grad_senders = make_buffer<T>(ctx, senders.size());
    grad_values = make_buffer<T>(ctx, values.size());
    grad_vector = make_buffer<T>(ctx, vector.size());
  }

  /// use(arguments) of the kind's forward verb.
  template <class Use>
  auto forward(const Use& use) {
    return with_operands<gat_forward_args, gatv2_forward_args, transformer_forward_args>(
        [&](auto& a) {
          a.output = make_heads_view(output.data(), graph.rows(), heads, dim);
          a.logsumexp = make_matrix_view(logsumexp.data(), graph.rows(), heads);
          return use(a);
        });
  }
  /// The same of its backward verb.
  template <class Use>
  auto backward(const Use& use) {
    const auto rows = graph.rows(), columns = graph.columns();
    const auto whole = [&](buffer<T>& b, std::int64_t nodes) {
      return make_heads_view(b.data(), nodes, heads, dim);
    };
    return with_operands<gat_backward_args, gatv2_backward_args, transformer_backward_args>(
        [&](auto& a) {
          a.output = make_heads_view<const T>(output.data(), rows, heads, dim);
          a.logsumexp = make_matrix_view<const float>(logsumexp.data(), rows, heads);
          a.grad_output = make_heads_view<const T>(grad_output.data(), rows, heads, dim);
          if constexpr (requires { a.grad_query; }) {
            a.grad_query = whole(grad_receivers, rows);
            a.grad_key = whole(grad_senders, columns);
            a.grad_value = whole(grad_values, columns);
          } else if constexpr (requires { a.grad_attention; }) {
            a.grad_target = whole(grad_receivers, rows);
            a.grad_source = whole(grad_senders, columns);
            a.grad_attention = make_matrix_view(grad_vector.data(), heads, dim);
          } else {
            a.grad_target_score = make_matrix_view(grad_receivers.data(), rows, heads);
            a.grad_source_score = make_matrix_view(grad_senders.data(), columns, heads);
            a.grad_source = whole(grad_values, columns);
          }
          return use(a);
        });
  }

 private:
  template <template <class, class, class> class Gat, template <class, class, class> class Gatv2,
            template <class, class, class> class Transformer, class Use>
  auto with_operands(const Use& use) const {
    const auto rows = graph.rows(), columns = graph.columns();
    const auto whole = [&](const buffer<T>& b, std::int64_t nodes) {
      return make_heads_view<const T>(b.data(), nodes, heads, dim);
    };
    const auto go = [&](auto& a) {
      a.graph = graph;
      a.dropout = dropout;
      return use(a);
    };
    if (kind == attention_kind::gat) {
      Gat<T, I, I> a;
      a.target_score = make_matrix_view<const T>(receivers.data(), rows, heads);
      a.source_score = make_matrix_view<const T>(senders.data(), columns, heads);
      a.source = whole(values, columns);
      a.slope = static_cast<float>(slope);
      return go(a);
    }
    if (kind == attention_kind::gatv2) {
      Gatv2<T, I, I> a;
      a.target = whole(receivers, rows);
      a.source = whole(senders, columns);
      a.attention = make_matrix_view<const T>(vector.data(), heads, dim);
      a.slope = static_cast<float>(slope);
      return go(a);
    }
    Transformer<T, I, I> a;
    a.query = whole(receivers, rows);
    a.key = whole(senders, columns);
    a.value = whole(values, columns);
    a.scale = static_cast<float>(scale.value_or(1.0 / std::sqrt(static_cast<double>(dim))));
    return go(a);
  }
};

}  // namespace quipu::cli
