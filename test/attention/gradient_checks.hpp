// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/attention_checks.hpp"

namespace test {

/// A transformer's forward and backward pass. The gradients of what the problem has no use for stay
/// as they were.
template <class T, class I, class O>
struct gradient_problem {
  attention_problem<T, I, O> forward;
  stored_heads<T> grad_output;
};
template <class T>
struct gradient_outcome {
  stored_heads<T> query, key, value;
  stored_matrix<quipu::accumulator<T>> bias;
};

template <class T, class I = std::int32_t, class O = std::int32_t>
gradient_problem<T, I, O> make_gradient_problem(const oracle::graph& g, attention_setting s) {
  s.kind = oracle::attention::transformer;
  const auto cotangent = random_matrix(51, g.rows, s.heads * s.dim);
  return {make_problem<T, I, O>(g, s), stored_heads<T>(cotangent, s.heads, s.dim, s.l, NAN)};
}

template <class T, class I, class O>
gradient_outcome<T> empty_gradients(const gradient_problem<T, I, O>& p) {
  const auto& f = p.forward;
  const auto heads = f.receivers.heads, dim = f.receivers.dim;
  const auto empty = [&](std::int64_t rows) {
    return stored_heads<T>(rows, heads, dim, f.l, poison_value);
  };
  return {empty(f.graph.rows), empty(f.graph.columns), empty(f.graph.columns),
          stored_matrix<quipu::accumulator<T>>(static_cast<std::int64_t>(f.graph.indices.size()),
                                               heads, poison_value)};
}

/// The arguments of both passes, over arrays that lie wherever the runner put them.
template <class T, class I, class O, class Heads, class Numbers>
auto gradient_arguments(const gradient_problem<T, I, O>& p, const quipu::graph_view<I, O>& g,
                        const attention_outcome<T>& left, const gradient_outcome<T>& out,
                        const Heads& heads, const Numbers& numbers) {
  using A = quipu::accumulator<T>;
  const auto& f = p.forward;
  quipu::transformer_backward_args<T, I, O> b;
  b.graph = g;
  b.query = f.receivers.template view<const T>(heads.query);
  b.key = f.senders.template view<const T>(heads.key);
  b.value = f.values.template view<const T>(heads.value);
  b.output = left.output.template view<const T>(heads.output);
  b.grad_output = p.grad_output.template view<const T>(heads.grad_output);
  b.grad_query = out.query.view(heads.grad_query);
  b.grad_key = out.key.view(heads.grad_key);
  b.grad_value = out.value.view(heads.grad_value);
  b.scale = static_cast<A>(f.scale);
  b.logsumexp = quipu::make_matrix_view<const A>(numbers.logsumexp, g.rows(), f.receivers.heads);
  if (f.bias.rows > 0) {
    b.bias = quipu::make_matrix_view<const A>(numbers.bias + f.bias.shift, f.bias.rows,
                                              f.bias.width, f.bias.stride);
    b.grad_bias = quipu::make_matrix_view(numbers.grad_bias, g.edges(), f.receivers.heads);
  }
  return b;
}

template <class T>
struct heads_pointers {
  const T *query, *key, *value, *output, *grad_output;
  T *grad_query, *grad_key, *grad_value;
};
template <class A>
struct number_pointers {
  const A *logsumexp, *bias;
  A* grad_bias;
};

struct host_gradients {
  std::int32_t threads = 1;

  template <class T, class I, class O>
  gradient_outcome<T> operator()(const gradient_problem<T, I, O>& p) const {
    using namespace quipu;
    const host_context ctx{threads};
    const auto left = host_attention{threads}(p.forward);
    const auto g = check(make_graph<I, O>(ctx, p.forward.graph.view(), p.forward.options));
    auto out = empty_gradients(p);
    const heads_pointers<T> heads{p.forward.receivers.m.data.data(),
                                  p.forward.senders.m.data.data(),
                                  p.forward.values.m.data.data(),
                                  left.output.m.data.data(),
                                  p.grad_output.m.data.data(),
                                  out.query.m.data.data(),
                                  out.key.m.data.data(),
                                  out.value.m.data.data()};
    const number_pointers<accumulator<T>> numbers{left.logsumexp.data.data(),
                                                  p.forward.bias.data.data(), out.bias.data.data()};
    check(transformer_backward(ctx, gradient_arguments(p, g.view(), left, out, heads, numbers)));
    return out;
  }
};

struct device_gradients {
  run_mode mode = run_mode::eager;

  template <class T, class I, class O>
  gradient_outcome<T> operator()(const gradient_problem<T, I, O>& p) const {
    using namespace quipu;
    const auto ctx = device_context();
    const auto left = device_attention{}(p.forward);
    const auto& f = p.forward;
    const auto offsets = check(to_device(ctx, f.graph.offsets));
    const auto indices = check(to_device(ctx, f.graph.indices));
    auto csr = f.graph.view();
    csr.offsets = offsets.data();
    csr.indices = indices.data();
    csr.weights = nullptr;
    const auto g = check(make_graph<I, O>(ctx, csr, f.options));
    auto out = empty_gradients(p);
    const auto there = [&](const auto& values) { return check(to_device(ctx, values)); };
    const auto query = there(f.receivers.m.data), key = there(f.senders.m.data);
    const auto value = there(f.values.m.data), output = there(left.output.m.data);
    const auto grad = there(p.grad_output.m.data);
    const auto logsumexp = there(left.logsumexp.data), bias = there(f.bias.data);
    const auto clean_rows = there(out.query.m.data), clean_columns = there(out.key.m.data);
    auto dq = there(out.query.m.data), dk = there(out.key.m.data), dv = there(out.value.m.data);
    auto db = there(out.bias.data);
    const heads_pointers<T> heads{query.data(), key.data(), value.data(), output.data(),
                                  grad.data(),  dq.data(),  dk.data(),    dv.data()};
    const number_pointers<accumulator<T>> numbers{logsumexp.data(), bias.data(), db.data()};
    const auto a = gradient_arguments(p, g.view(), left, out, heads, numbers);
    guarded_workspace scratch(ctx, workspace_bytes(ctx, a));
    run(
        ctx, mode,
        [&](const context& c) {
          const auto again = [&](auto& to, const auto& from) {
            (void)cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyDefault, c.stream);
          };
          again(dq, clean_rows);
          again(dk, clean_columns);
          again(dv, clean_columns);
        },
        [&](const context& c) { return transformer_backward(c, a, scratch.get()); });
    REQUIRE(scratch.intact());
    out.query.m.data = check(to_host(ctx, dq));
    out.key.m.data = check(to_host(ctx, dk));
    out.value.m.data = check(to_host(ctx, dv));
    out.bias.data = check(to_host(ctx, db));
    return out;
  }
};

/// Weights are off as in forward; the products with grad_output add their own rounding, and the
/// saved output that of its storage.
template <class T, class I, class O, class Runner>
void check_gradients(const Runner& runner, const oracle::graph& g, const attention_setting& s) {
  const auto p = make_gradient_problem<T, I, O>(g, s);
  const auto got = runner(p);
  const auto inputs = p.forward.rounded();
  const auto forward = oracle::attend(g, inputs);
  const auto want = oracle::transformer_gradients(g, inputs, p.grad_output.rounded());
  double largest = 0, degree = 0;
  for (const double m : forward.logit_magnitude.values) largest = std::max(largest, m);
  for (std::int64_t i = 0; i < g.rows; ++i) {
    degree = std::max(degree, static_cast<double>(g.offsets[i + 1] - g.offsets[i]));
  }
  std::vector<double> sent(static_cast<std::size_t>(g.columns));
  for (const auto j : g.indices) degree = std::max(degree, ++sent[static_cast<std::size_t>(j)]);
  const double eps = accumulator_epsilon<T>(), terms = std::sqrt(static_cast<double>(s.dim) + 4);
  const double in_weight =
      8 * terms * eps * (largest + 1) + (8 + 4 * std::sqrt(degree)) * eps + 4 * terms * eps;
  const double tiny = std::is_same_v<T, quipu::float16> ? 6e-8 : 1e-30;
  const auto judge = [&](const oracle::matrix& have, const oracle::matrix& wanted,
                         const oracle::matrix& magnitude, double off, double storage,
                         const char* what) {
    double worst = 0;
    for (std::size_t k = 0; k < wanted.values.size(); ++k) {
      const double bound =
          off * magnitude.values[k] + 1.01 * storage * std::fabs(wanted.values[k]) + tiny;
      const double error = std::fabs(have.values[k] - wanted.values[k]);
      worst = std::max(worst, std::isnan(error) ? 1e300 : error / bound);
    }
    INFO(what << ", error over bound " << worst);
    REQUIRE(worst <= 1.0);
  };
  const double saved = in_weight + 1.01 * epsilon<T>();
  judge(got.query.rounded(), want.receivers, want.receivers_magnitude, saved, epsilon<T>(),
        "grad_query");
  judge(got.key.rounded(), want.senders, want.senders_magnitude, saved, epsilon<T>(), "grad_key");
  judge(got.value.rounded(), want.values, want.values_magnitude, in_weight, epsilon<T>(),
        "grad_value");
  if (s.bias) judge(got.bias.rounded(), want.bias, want.bias_magnitude, saved, 0, "grad_bias");
}

template <class Runner, class... Elements>
void check_all_gradients(const Runner& runner) {
  for (const auto& [name, g] : graph_zoo()) {
    INFO(name);
    const auto kind = oracle::attention::transformer;
    (check_gradients<Elements, std::int32_t, std::int32_t>(runner, g, {kind, 2, 16}), ...);
    check_gradients<float, std::int32_t, std::int64_t>(runner, g, {kind, 1, 8, 1, true});
    check_gradients<float, std::int64_t, std::int64_t>(runner, g, {kind, 3, 4, 1, true});
  }
  const auto g = random_graph(52, 60, 70, 8, 90);
  for (const std::int64_t dim :
       {1, 2, 3, 4, 5, 8, 12, 17, 31, 32, 33, 48, 64, 100, 128, 129, 200, 256}) {
    INFO("dim " << dim);
    (check_gradients<Elements, std::int32_t, std::int32_t>(
         runner, g, {oracle::attention::transformer, 2, dim}),
     ...);
  }
  for (const heads_layout l : {heads_layout{16, 0, 0}, heads_layout{1, 0, 0}, heads_layout{0, 3, 1},
                               heads_layout{8, 8, 8}}) {
    INFO("gap " << l.gap << " padding " << l.padding << " shift " << l.shift);
    (check_gradients<Elements, std::int32_t, std::int32_t>(
         runner, g, {oracle::attention::transformer, 3, 16, 1, false, 0.2, l}),
     ...);
  }
}

/// Senders 4 and 5 have keys of -inf under positive queries. A receiver of 4 alone passes no
/// gradient, to nobody; one that has other senders too passes none to 5, and nobody gets a NaN.
template <class Runner>
void check_gradients_of_nothing(const Runner& runner) {
  auto g = random_graph(53, 30, 30, 5);
  for (std::int64_t k = 0; k < g.offsets[30]; ++k) {
    const bool alone = k >= g.offsets[7] && k < g.offsets[8];
    if (alone || g.indices[k] == 4) g.indices[k] = alone ? 4 : 6;
  }
  for (const std::int64_t dim : {3, 8, 12, 20, 100}) {
    INFO("dim " << dim);
    auto p = make_gradient_problem<float>(g, {oracle::attention::transformer, 1, dim});
    for (std::int64_t f = 0; f < dim; ++f) {
      p.forward.senders.m.at(4, f) = p.forward.senders.m.at(5, f) = -INFINITY;
      for (std::int64_t i = 0; i < 30; ++i) {
        p.forward.receivers.m.at(i, f) = std::fabs(p.forward.receivers.m.at(i, f)) + 0.25f;
      }
    }
    const auto got = runner(p);
    for (std::int64_t f = 0; f < dim; ++f) {
      REQUIRE(got.query.m.at(7, f) == 0.0f);
      for (const int sender : {4, 5}) {
        REQUIRE(got.key.m.at(sender, f) == 0.0f);
        REQUIRE(got.value.m.at(sender, f) == 0.0f);
      }
    }
    for (const auto* m : {&got.query, &got.key, &got.value}) {
      for (const double v : m->rounded().values) REQUIRE(std::isfinite(v));
    }
  }
}

}  // namespace test
