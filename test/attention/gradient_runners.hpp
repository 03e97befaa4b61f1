// SPDX-License-Identifier: Apache-2.0
#pragma once

// One face for the gradients of all kinds of attention, on host and device.

#include "attention/attention_checks.hpp"

namespace test {

/// Forward and backward. The gradients of what the problem's kind has no use for stay as they were.
template <class T, class I, class O>
struct gradient_problem {
  attention_problem<T, I, O> forward;
  stored_heads<T> grad_output;
  bool stash = false;
  bool bare_bias = false;  // its gradient is asked for, without a bias, of a graph without edge map
};
template <class T>
struct gradient_outcome {
  using A = quipu::accumulator<T>;
  stored_heads<T> receivers, senders, values;
  stored_matrix<T> vector, receiver_scores, sender_scores;
  stored_matrix<A> bias, stash;

  bool operator==(const gradient_outcome& o) const {
    return receivers.m.data == o.receivers.m.data && senders.m.data == o.senders.m.data &&
           values.m.data == o.values.m.data && vector.data == o.vector.data &&
           receiver_scores.data == o.receiver_scores.data &&
           sender_scores.data == o.sender_scores.data && bias.data == o.bias.data;
  }
};
template <class T>
struct gradient_memory {
  const T *output, *grad_output;
  const quipu::accumulator<T>* logsumexp;
  T *receivers, *senders, *values, *vector, *receiver_scores, *sender_scores;
  quipu::accumulator<T>*bias, *stash;
};

template <class T, class I = std::int32_t, class O = std::int32_t>
gradient_problem<T, I, O> make_gradient_problem(const oracle::graph& g,
                                                const attention_setting& s) {
  const auto cotangent = random_matrix(51, g.rows, s.heads * s.dim);
  return {make_problem<T, I, O>(g, s), stored_heads<T>(cotangent, s.heads, s.dim, s.l, NAN)};
}

template <class T, class I, class O>
gradient_outcome<T> empty_gradients(const gradient_problem<T, I, O>& p) {
  using A = quipu::accumulator<T>;
  const auto& f = p.forward;
  const auto heads = f.receivers.heads, dim = f.receivers.dim;
  const auto edges = static_cast<std::int64_t>(f.graph.indices.size());
  const auto rows = [&](std::int64_t count) {
    return stored_heads<T>(count, heads, dim, f.l, poison_value);
  };
  const auto numbers = [&](std::int64_t count, std::int64_t width) {
    return stored_matrix<T>(count, width, poison_value, f.l.padding, f.l.shift);
  };
  return {rows(f.graph.rows),
          rows(f.graph.columns),
          rows(f.graph.columns),
          numbers(heads, dim),
          numbers(f.graph.rows, heads),
          numbers(f.graph.columns, heads),
          stored_matrix<A>(edges, heads, poison_value),
          stored_matrix<A>(edges, 2 * heads, poison_value)};
}

/// Calls use(args) with the arguments of the problem's kind.
template <class T, class I, class O, class Use>
auto with_gradient_arguments(const gradient_problem<T, I, O>& p, const quipu::graph_view<I, O>& g,
                             const operand_memory<T>& in, const attention_outcome<T>& left,
                             const gradient_outcome<T>& out, const gradient_memory<T>& at,
                             Use use) {
  const auto& f = p.forward;
  const auto run = [&](auto a) {
    give_operands(a, f, g, in);
    if (p.bare_bias) a.graph.edge_map = nullptr;
    a.output = left.output.template view<const T>(at.output);
    a.logsumexp = view_at(left.logsumexp, at.logsumexp);
    a.grad_output = p.grad_output.template view<const T>(at.grad_output);
    if (p.stash) a.stash = view_at(out.stash, at.stash);
    if constexpr (requires { a.grad_query; }) {
      a.grad_query = out.receivers.view(at.receivers);
      a.grad_key = out.senders.view(at.senders);
      a.grad_value = out.values.view(at.values);
      if (f.bias.rows > 0 || p.bare_bias) a.grad_bias = view_at(out.bias, at.bias);
    } else if constexpr (requires { a.grad_attention; }) {
      a.grad_target = out.receivers.view(at.receivers);
      a.grad_source = out.senders.view(at.senders);
      a.grad_attention = view_at(out.vector, at.vector);
    } else {
      a.grad_target_score = view_at(out.receiver_scores, at.receiver_scores);
      a.grad_source_score = view_at(out.sender_scores, at.sender_scores);
      a.grad_source = out.senders.view(at.senders);
    }
    return use(a);
  };
  switch (f.kind) {
    case oracle::attention::gat:
      return run(quipu::gat_backward_args<T, I, O>{});
    case oracle::attention::gatv2:
      return run(quipu::gatv2_backward_args<T, I, O>{});
    default:
      return run(quipu::transformer_backward_args<T, I, O>{});
  }
}

inline auto backward(const auto& ctx, const auto& args, auto... workspace) {
  if constexpr (requires { args.query; }) {
    return quipu::transformer_backward(ctx, args, workspace...);
  } else if constexpr (requires { args.target_score; }) {
    return quipu::gat_backward(ctx, args, workspace...);
  } else {
    return quipu::gatv2_backward(ctx, args, workspace...);
  }
}

struct host_gradients {
  static constexpr bool in_parts = false;
  std::int32_t threads = 1;

  template <class T, class I, class O>
  gradient_outcome<T> operator()(const gradient_problem<T, I, O>& p) const {
    using namespace quipu;
    const host_context ctx{threads};
    const auto left = host_attention{threads}(p.forward);
    const auto g = check(make_graph<I, O>(ctx, p.forward.graph.view(), p.forward.options));
    auto out = empty_gradients(p);
    const gradient_memory<T> at{left.output.m.data.data(),     p.grad_output.m.data.data(),
                                left.logsumexp.data.data(),    out.receivers.m.data.data(),
                                out.senders.m.data.data(),     out.values.m.data.data(),
                                out.vector.data.data(),        out.receiver_scores.data.data(),
                                out.sender_scores.data.data(), out.bias.data.data(),
                                out.stash.data.data()};
    check(with_gradient_arguments(p, g.view(), operands_of(p.forward), left, out, at,
                                  [&](const auto& a) { return backward(ctx, a); }));
    return out;
  }
};

struct device_gradients {
  static constexpr bool in_parts = true;
  run_mode mode = run_mode::eager;

  template <class T, class I, class O>
  gradient_outcome<T> operator()(const gradient_problem<T, I, O>& p) const {
    using namespace quipu;
    const auto ctx = device_context();
    auto left = device_attention{}(p.forward);
    const device_problem there(ctx, p.forward);
    auto grad = p.grad_output.m.data;
    auto out = empty_gradients(p);
    device_result output(ctx, left.output.m.data), logsumexp(ctx, left.logsumexp.data);
    device_result grad_output(ctx, grad), receivers(ctx, out.receivers.m.data);
    device_result senders(ctx, out.senders.m.data), values(ctx, out.values.m.data);
    device_result vector(ctx, out.vector.data), receiver_scores(ctx, out.receiver_scores.data);
    device_result sender_scores(ctx, out.sender_scores.data), bias(ctx, out.bias.data);
    device_result stash(ctx, out.stash.data);
    const gradient_memory<T> at{
        output.data(),        grad_output.data(), logsumexp.data(), receivers.data(),
        senders.data(),       values.data(),      vector.data(),    receiver_scores.data(),
        sender_scores.data(), bias.data(),        stash.data()};
    const auto for_results = [&](const auto& use) {
      use(receivers);
      use(senders);
      use(values);
      use(vector);
      use(receiver_scores);
      use(sender_scores);
      use(bias);
      use(stash);
    };
    with_gradient_arguments(p, there.graph(), there.operands(), left, out, at, [&](const auto& a) {
      guarded_workspace scratch(ctx, workspace_bytes(ctx, a));
      run(
          ctx, mode, [&](const context& c) { for_results([&](auto& r) { r.spoil(c); }); },
          [&](const context& c) { return backward(c, a, scratch.get()); });
      REQUIRE(scratch.intact());
    });
    for_results([&](auto& r) { r.fetch(ctx); });
    return out;
  }
};

}  // namespace test
