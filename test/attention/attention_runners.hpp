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
  quipu::attention_dropout dropout = {};
  bool wants_alpha = true;
  quipu::graph_options options = small_slices();

  /// What the types hold, for the oracle.
  oracle::attention_inputs rounded() const {
    return {
        kind,
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
        static_cast<double>(static_cast<A>(scale)),
        dropout.probability > 0
            ? oracle::dropout_mask(static_cast<std::int64_t>(graph.indices.size()), receivers.heads,
                                   dropout.probability, dropout.seed, dropout.offset)
            : oracle::matrix(0, 0)};
  }
};

template <class T>
struct attention_outcome {
  stored_heads<T> output;
  stored_matrix<quipu::accumulator<T>> logsumexp, alpha;
};

/// Where a runner put the operands, in the order of the problem's members.
template <class T>
struct operand_memory {
  const T *receivers, *senders, *values, *vector, *receiver_scores, *sender_scores;
  const quipu::accumulator<T>* bias;
};
/// And the results.
template <class T>
struct attention_memory {
  T* output;
  quipu::accumulator<T>*logsumexp, *alpha;
};

/// The view of a stored matrix whose elements lie at `data`.
template <class T, class Element>
quipu::matrix_view<Element> view_at(const stored_matrix<T>& m, Element* data) {
  return quipu::make_matrix_view(data + m.shift, m.rows, m.width, m.stride);
}

template <class T, class I, class O>
attention_outcome<T> empty_outcome(const attention_problem<T, I, O>& p) {
  using A = quipu::accumulator<T>;
  const auto heads = p.receivers.heads;
  return {stored_heads<T>(p.graph.rows, heads, p.receivers.dim, p.l, poison_value),
          stored_matrix<A>(p.graph.rows, heads, poison_value),
          stored_matrix<A>(static_cast<std::int64_t>(p.graph.indices.size()), heads, poison_value)};
}

/// The operands of a pass, forward or backward: both call them the same.
template <class Args, class T, class I, class O>
void give_operands(Args& a, const attention_problem<T, I, O>& p, const quipu::graph_view<I, O>& g,
                   const operand_memory<T>& in) {
  using A = quipu::accumulator<T>;
  a.graph = g;
  a.dropout = p.dropout;
  if constexpr (requires { a.slope; }) a.slope = static_cast<A>(p.slope);
  if constexpr (requires { a.query; }) {
    a.query = p.receivers.view(in.receivers);
    a.key = p.senders.view(in.senders);
    a.value = p.values.view(in.values);
    a.scale = static_cast<A>(p.scale);
    if (p.bias.rows > 0) a.bias = view_at(p.bias, in.bias);
  } else if constexpr (requires { a.target_score; }) {
    a.target_score = view_at(p.receiver_scores, in.receiver_scores);
    a.source_score = view_at(p.sender_scores, in.sender_scores);
    a.source = p.senders.view(in.senders);
  } else {
    a.target = p.receivers.view(in.receivers);
    a.source = p.senders.view(in.senders);
    a.attention = view_at(p.vector, in.vector);
  }
}

/// Calls use(args) with the arguments of the problem's kind.
template <class T, class I, class O, class Use>
auto with_arguments(const attention_problem<T, I, O>& p, const quipu::graph_view<I, O>& g,
                    const operand_memory<T>& in, const attention_outcome<T>& out,
                    const attention_memory<T>& at, Use use) {
  const auto run = [&](auto a) {
    give_operands(a, p, g, in);
    a.output = out.output.view(at.output);
    a.logsumexp = view_at(out.logsumexp, at.logsumexp);
    if (p.wants_alpha) a.alpha = view_at(out.alpha, at.alpha);
    return use(a);
  };
  switch (p.kind) {
    case oracle::attention::gat:
      return run(quipu::gat_forward_args<T, I, O>{});
    case oracle::attention::gatv2:
      return run(quipu::gatv2_forward_args<T, I, O>{});
    default:
      return run(quipu::transformer_forward_args<T, I, O>{});
  }
}

inline auto forward(const auto& ctx, const auto& args, auto... workspace) {
  if constexpr (requires { args.query; }) {
    return quipu::transformer_forward(ctx, args, workspace...);
  } else if constexpr (requires { args.target_score; }) {
    return quipu::gat_forward(ctx, args, workspace...);
  } else {
    return quipu::gatv2_forward(ctx, args, workspace...);
  }
}

template <class T, class I, class O>
operand_memory<T> operands_of(const attention_problem<T, I, O>& p) {
  return {p.receivers.m.data.data(), p.senders.m.data.data(),       p.values.m.data.data(),
          p.vector.data.data(),      p.receiver_scores.data.data(), p.sender_scores.data.data(),
          p.bias.data.data()};
}

struct host_attention {
  std::int32_t threads = 1;

  template <class T, class I, class O>
  attention_outcome<T> operator()(const attention_problem<T, I, O>& p) const {
    using namespace quipu;
    const host_context ctx{threads};
    const auto g = check(make_graph<I, O>(ctx, p.graph.view(), p.options));
    auto out = empty_outcome(p);
    const attention_memory<T> at{out.output.m.data.data(), out.logsumexp.data.data(),
                                 out.alpha.data.data()};
    check(with_arguments(p, g.view(), operands_of(p), out, at,
                         [&](const auto& a) { return forward(ctx, a); }));
    return out;
  }
};

/// A problem's graph and operands on the device.
template <class T, class I, class O>
class device_problem {
 public:
  device_problem(const quipu::context& ctx, const attention_problem<T, I, O>& p)
      : receivers_(there(ctx, p.receivers.m.data)),
        senders_(there(ctx, p.senders.m.data)),
        values_(there(ctx, p.values.m.data)),
        vector_(there(ctx, p.vector.data)),
        receiver_scores_(there(ctx, p.receiver_scores.data)),
        sender_scores_(there(ctx, p.sender_scores.data)),
        bias_(there(ctx, p.bias.data)),
        offsets_(there(ctx, p.graph.offsets)),
        indices_(there(ctx, p.graph.indices)) {
    auto csr = p.graph.view();
    csr.offsets = offsets_.data();
    csr.indices = indices_.data();
    csr.weights = nullptr;
    graph_ = quipu::check(quipu::make_graph<I, O>(ctx, csr, p.options));
  }
  quipu::graph_view<I, O> graph() const { return graph_.view(); }
  operand_memory<T> operands() const {
    return {receivers_.data(),       senders_.data(),       values_.data(), vector_.data(),
            receiver_scores_.data(), sender_scores_.data(), bias_.data()};
  }

 private:
  template <class E>
  static quipu::buffer<E> there(const quipu::context& ctx, const std::vector<E>& values) {
    return quipu::check(quipu::to_device(ctx, values));
  }

  quipu::buffer<T> receivers_, senders_, values_, vector_, receiver_scores_, sender_scores_;
  quipu::buffer<quipu::accumulator<T>> bias_;
  quipu::buffer<O> offsets_;
  quipu::buffer<I> indices_;
  quipu::graph<I, O> graph_;
};

/// A result on the device that is spoilt before every run.
template <class T>
class device_result {
 public:
  device_result(const quipu::context& ctx, std::vector<T>& host)
      : host_(host), there_(quipu::check(quipu::to_device(ctx, host))) {}
  T* data() { return there_.data(); }
  /// As the host had it: gaps too.
  void spoil(const quipu::context& ctx) {
    (void)cudaMemcpyAsync(there_.data(), host_.data(), there_.bytes(), cudaMemcpyDefault,
                          ctx.stream);
  }
  void fetch(const quipu::context& ctx) { host_ = quipu::check(quipu::to_host(ctx, there_)); }

 private:
  std::vector<T>& host_;
  quipu::buffer<T> there_;
};

struct device_attention {
  run_mode mode = run_mode::eager;

  template <class T, class I, class O>
  attention_outcome<T> operator()(const attention_problem<T, I, O>& p) const {
    using namespace quipu;
    const auto ctx = device_context();
    const device_problem there(ctx, p);
    auto out = empty_outcome(p);
    device_result output(ctx, out.output.m.data), logsumexp(ctx, out.logsumexp.data);
    device_result alpha(ctx, out.alpha.data);
    const attention_memory<T> at{output.data(), logsumexp.data(), alpha.data()};
    with_arguments(p, there.graph(), there.operands(), out, at, [&](const auto& a) {
      guarded_workspace scratch(ctx, workspace_bytes(ctx, a));
      run(
          ctx, mode,
          [&](const context& c) {
            output.spoil(c);
            logsumexp.spoil(c);
            alpha.spoil(c);
          },
          [&](const context& c) { return forward(c, a, scratch.get()); });
      REQUIRE(scratch.intact());
    });
    output.fetch(ctx);
    logsumexp.fetch(ctx);
    alpha.fetch(ctx);
    return out;
  }
};

}  // namespace test
