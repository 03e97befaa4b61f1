// SPDX-License-Identifier: Apache-2.0
#pragma once

// One face for host and device and for all kinds of attention, so that every check is written once.

#include <vector>

#include "quipu/attention/gat.hpp"
#include "quipu/attention/gatv2.hpp"
#include "quipu/attention/transformer.hpp"
#include "support/attention_oracle.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"

namespace test {

/// How heads lie in a row: `gap` elements behind each head, `padding` behind each row, `shift`
/// before the first.
struct heads_layout {
  std::int64_t gap = 0, padding = 0, shift = 0;
};

/// [rows, heads, dim] in storage type T.
template <class T>
struct stored_heads {
  std::int64_t heads = 1, dim = 1, gap = 0;
  stored_matrix<T> m;  // a row is heads * (dim + gap) elements

  stored_heads(std::int64_t rows, std::int64_t h, std::int64_t d, const heads_layout& l,
               double fill)
      : heads(h), dim(d), gap(l.gap), m(rows, h * (d + l.gap), fill, l.padding, l.shift) {}
  stored_heads(const oracle::matrix& from, std::int64_t h, std::int64_t d, const heads_layout& l,
               double fill)
      : stored_heads(from.rows, h, d, l, fill) {
    for (std::int64_t i = 0; i < from.rows; ++i)
      for (std::int64_t f = 0; f < h * d; ++f) m.at(i, place(f)) = to_element<T>(from.at(i, f));
  }
  std::int64_t place(std::int64_t f) const { return f / dim * (dim + gap) + f % dim; }

  oracle::matrix rounded() const {
    oracle::matrix out(m.rows, heads * dim);
    for (std::int64_t i = 0; i < m.rows; ++i)
      for (std::int64_t f = 0; f < heads * dim; ++f)
        out.at(i, f) = static_cast<double>(quipu::widen(m.at(i, place(f))));
    return out;
  }
  template <class Element>
  quipu::heads_view<Element> view(Element* data) const {
    return quipu::make_heads_view(data + m.shift, m.rows, heads, dim, m.stride, dim + gap);
  }
};

template <class T, class I, class O>
struct attention_problem {
  using A = quipu::accumulator<T>;
  stored_graph<I, O> graph;
  oracle::attention kind;
  stored_heads<T> receivers, senders, values;
  stored_matrix<T> vector, receiver_scores, sender_scores;
  stored_matrix<A> bias;
  double slope = 0.2, scale = 1;
  heads_layout l;
  bool wants_alpha = true;
  quipu::graph_options options = small_slices();

  /// What the types hold, for the oracle.
  oracle::attention_inputs rounded() const {
    return {kind,
            receivers.heads,
            receivers.dim,
            receivers.rounded(),
            senders.rounded(),
            values.rounded(),
            vector.rounded(),
            receiver_scores.rounded(),
            sender_scores.rounded(),
            bias.rounded(),
            static_cast<double>(static_cast<A>(slope)),
            static_cast<double>(static_cast<A>(scale))};
  }
};

template <class T>
struct attention_outcome {
  stored_heads<T> output;
  stored_matrix<quipu::accumulator<T>> logsumexp, alpha;
};

/// Where a runner put the operands.
template <class T>
struct attention_memory {
  using A = quipu::accumulator<T>;
  const T *receivers, *senders, *values, *vector, *receiver_scores, *sender_scores;
  const A* bias;
  T* output;
  A *logsumexp, *alpha;
};

template <class T, class I, class O>
attention_outcome<T> empty_outcome(const attention_problem<T, I, O>& p) {
  using A = quipu::accumulator<T>;
  const auto heads = p.receivers.heads;
  return {stored_heads<T>(p.graph.rows, heads, p.receivers.dim, p.l, poison_value),
          stored_matrix<A>(p.graph.rows, heads, poison_value),
          stored_matrix<A>(static_cast<std::int64_t>(p.graph.indices.size()), heads, poison_value)};
}

/// Calls use(args) with the arguments of the problem's kind.
template <class T, class I, class O, class Use>
auto with_arguments(const attention_problem<T, I, O>& p, const quipu::graph_view<I, O>& g,
                    const attention_outcome<T>& out, const attention_memory<T>& at, Use use) {
  using A = quipu::accumulator<T>;
  const auto matrix = [](const auto& m, auto* data) {
    return quipu::make_matrix_view(data + m.shift, m.rows, m.width, m.stride);
  };
  const auto logsumexp = matrix(out.logsumexp, at.logsumexp);
  const auto alpha = p.wants_alpha ? matrix(out.alpha, at.alpha) : quipu::matrix_view<A>{};
  const auto output = out.output.view(at.output);
  const auto slope = static_cast<A>(p.slope), scale = static_cast<A>(p.scale);
  switch (p.kind) {
    case oracle::attention::gat:
      return use(quipu::gat_forward_args<T, I, O>{g, matrix(p.receiver_scores, at.receiver_scores),
                                                  matrix(p.sender_scores, at.sender_scores),
                                                  p.senders.view(at.senders), output, slope,
                                                  logsumexp, alpha});
    case oracle::attention::gatv2:
      return use(quipu::gatv2_forward_args<T, I, O>{
          g, p.receivers.view(at.receivers), p.senders.view(at.senders),
          matrix(p.vector, at.vector), output, slope, logsumexp, alpha});
    default:
      return use(quipu::transformer_forward_args<T, I, O>{
          g, p.receivers.view(at.receivers), p.senders.view(at.senders), p.values.view(at.values),
          output, scale, p.bias.rows > 0 ? matrix(p.bias, at.bias) : quipu::matrix_view<const A>{},
          logsumexp, alpha});
  }
}

inline auto forward(const auto& ctx, const auto& args, auto... workspace) {
  using args_type = std::remove_cvref_t<decltype(args)>;
  if constexpr (requires { args.query; }) {
    return quipu::transformer_forward(ctx, args, workspace...);
  } else if constexpr (requires { args.target_score; }) {
    return quipu::gat_forward(ctx, args, workspace...);
  } else {
    static_assert(sizeof(args_type) > 0);
    return quipu::gatv2_forward(ctx, args, workspace...);
  }
}

struct host_attention {
  std::int32_t threads = 1;

  template <class T, class I, class O>
  attention_outcome<T> operator()(const attention_problem<T, I, O>& p) const {
    using namespace quipu;
    const host_context ctx{threads};
    const auto g = check(make_graph<I, O>(ctx, p.graph.view(), p.options));
    auto out = empty_outcome(p);
    const attention_memory<T> at{
        p.receivers.m.data.data(), p.senders.m.data.data(),       p.values.m.data.data(),
        p.vector.data.data(),      p.receiver_scores.data.data(), p.sender_scores.data.data(),
        p.bias.data.data(),        out.output.m.data.data(),      out.logsumexp.data.data(),
        out.alpha.data.data()};
    check(with_arguments(p, g.view(), out, at, [&](const auto& a) { return forward(ctx, a); }));
    return out;
  }
};

struct device_attention {
  run_mode mode = run_mode::eager;

  template <class T, class I, class O>
  attention_outcome<T> operator()(const attention_problem<T, I, O>& p) const {
    using namespace quipu;
    const auto ctx = device_context();
    const auto offsets = check(to_device(ctx, p.graph.offsets));
    const auto indices = check(to_device(ctx, p.graph.indices));
    auto csr = p.graph.view();
    csr.offsets = offsets.data();
    csr.indices = indices.data();
    csr.weights = nullptr;
    const auto g = check(make_graph<I, O>(ctx, csr, p.options));
    auto out = empty_outcome(p);
    const auto receivers = check(to_device(ctx, p.receivers.m.data));
    const auto senders = check(to_device(ctx, p.senders.m.data));
    const auto values = check(to_device(ctx, p.values.m.data));
    const auto vector = check(to_device(ctx, p.vector.data));
    const auto receiver_scores = check(to_device(ctx, p.receiver_scores.data));
    const auto sender_scores = check(to_device(ctx, p.sender_scores.data));
    const auto bias = check(to_device(ctx, p.bias.data));
    const auto clean = check(to_device(ctx, out.output.m.data));
    auto output = check(to_device(ctx, out.output.m.data));
    auto logsumexp = check(to_device(ctx, out.logsumexp.data));
    auto alpha = check(to_device(ctx, out.alpha.data));
    const attention_memory<T> at{receivers.data(), senders.data(),         values.data(),
                                 vector.data(),    receiver_scores.data(), sender_scores.data(),
                                 bias.data(),      output.data(),          logsumexp.data(),
                                 alpha.data()};
    with_arguments(p, g.view(), out, at, [&](const auto& a) {
      guarded_workspace scratch(ctx, workspace_bytes(ctx, a));
      run(
          ctx, mode,
          [&](const context& c) {
            (void)cudaMemcpyAsync(output.data(), clean.data(), output.bytes(), cudaMemcpyDefault,
                                  c.stream);
            (void)cudaMemsetAsync(logsumexp.data(), 0x7f, logsumexp.bytes(), c.stream);
            (void)cudaMemsetAsync(alpha.data(), 0x7f, alpha.bytes(), c.stream);
          },
          [&](const context& c) { return forward(c, a, scratch.get()); });
      REQUIRE(scratch.intact());
    });
    out.output.m.data = check(to_host(ctx, output));
    out.logsumexp.data = check(to_host(ctx, logsumexp));
    out.alpha.data = check(to_host(ctx, alpha));
    return out;
  }
};

}  // namespace test
