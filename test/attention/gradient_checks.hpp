// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "attention/gradient_runners.hpp"

namespace test {

/// Weights are off as in forward; the products with grad_output add their own rounding, and the
/// saved output that of its storage.
template <class T, class I, class O, class Runner>
void check_gradients(const Runner& runner, const oracle::graph& g, const attention_setting& s,
                     bool stash = false, bool bare_bias = false) {
  auto p = make_gradient_problem<T, I, O>(g, s);
  p.stash = stash;
  p.bare_bias = bare_bias;
  const auto got = runner(p);
  const auto inputs = p.forward.rounded();
  const auto forward = oracle::attend(g, inputs);
  const auto want =
      oracle::attention_backward(g, inputs, p.grad_output.rounded(), Runner::in_parts);
  double largest = 0, degree = 0;
  for (const double m : forward.logit_magnitude.values) largest = std::max(largest, m);
  for (std::int64_t i = 0; i < g.rows; ++i) {
    degree = std::max(degree, static_cast<double>(g.offsets[i + 1] - g.offsets[i]));
  }
  std::vector<double> sent(static_cast<std::size_t>(g.columns));
  for (const auto j : g.indices) degree = std::max(degree, ++sent[static_cast<std::size_t>(j)]);
  const double eps = accumulator_epsilon<T>(), terms = std::sqrt(static_cast<double>(s.dim) + 4);
  const auto off_with = [&](double summands) {
    return 8 * terms * eps * (largest + 1) + (8 + 4 * std::sqrt(summands)) * eps + 4 * terms * eps;
  };
  const double tiny = std::is_same_v<T, quipu::float16> ? 6e-8 : 1e-30;
  const auto judge = [&](const auto& have, const oracle::gradient& wanted, double off,
                         double storage, const char* what) {
    const auto values = have.rounded();
    double worst = 0;
    for (std::size_t k = 0; k < wanted.value.values.size(); ++k) {
      const double bound = off * wanted.magnitude.values[k] +
                           1.01 * storage * std::fabs(wanted.value.values[k]) + tiny;
      const double error = std::fabs(values.values[k] - wanted.value.values[k]);
      worst = std::max(worst, std::isnan(error) ? 1e300 : error / bound);
    }
    INFO(what << ", error over bound " << worst);
    REQUIRE(worst <= 1.0);
  };
  const double in_weight = off_with(degree), saved = in_weight + 1.01 * epsilon<T>();
  if (s.kind == oracle::attention::gat) {
    judge(got.receiver_scores, want.receiver_scores, saved, epsilon<T>(), "grad_target_score");
    judge(got.sender_scores, want.sender_scores, saved, epsilon<T>(), "grad_source_score");
  } else {
    judge(got.receivers, want.receivers, saved, epsilon<T>(), "of receivers");
  }
  for (const auto* h : {&got.receivers, &got.senders, &got.values}) require_gaps(*h);
  judge(got.senders, want.senders, saved, epsilon<T>(), "of senders");
  if (s.kind == oracle::attention::gatv2) {
    const double all = off_with(static_cast<double>(g.indices.size())) + 1.01 * epsilon<T>();
    judge(got.vector, want.vector, all, epsilon<T>(), "grad_attention");
  }
  if (s.kind == oracle::attention::transformer) {
    judge(got.values, want.values, in_weight, epsilon<T>(), "grad_value");
    if (s.bias || bare_bias) judge(got.bias, want.bias, saved, 0, "grad_bias");
  }
}

template <class Runner, class... Elements>
void check_all_gradients(const Runner& runner) {
  const auto g = random_graph(52, 60, 70, 8, 90);
  for (const auto kind : all_kinds) {
    INFO("kind " << static_cast<int>(kind));
    const bool bias = kind == oracle::attention::transformer;
    for (const auto& [name, zoo] : graph_zoo()) {
      INFO(name);
      (check_gradients<Elements, std::int32_t, std::int32_t>(runner, zoo, {kind, 2, 16}), ...);
      check_gradients<float, std::int32_t, std::int64_t>(runner, zoo, {kind, 1, 8, 1, bias});
      check_gradients<float, std::int64_t, std::int64_t>(runner, zoo, {kind, 3, 4, 1, bias});
      check_gradients<float, std::int32_t, std::int32_t>(runner, zoo, {kind, 2, 12, 1, bias}, true);
    }
    for (const std::int64_t dim :
         {1, 2, 3, 4, 5, 8, 12, 17, 31, 32, 33, 48, 64, 100, 128, 129, 200, 256}) {
      INFO("dim " << dim);
      (check_gradients<Elements, std::int32_t, std::int32_t>(runner, g, {kind, 2, dim}), ...);
    }
    for (const std::int64_t heads : {1, 4, 5, 8, 33}) {
      INFO("heads " << heads);
      (check_gradients<Elements, std::int32_t, std::int32_t>(runner, g, {kind, heads, 8}), ...);
    }
    for (const heads_layout l : {heads_layout{16, 0, 0}, heads_layout{1, 0, 0},
                                 heads_layout{0, 3, 1}, heads_layout{8, 8, 8}}) {
      INFO("gap " << l.gap << " padding " << l.padding << " shift " << l.shift);
      (check_gradients<Elements, std::int32_t, std::int32_t>(runner, g,
                                                             {kind, 3, 16, 1, false, 0.2, l}),
       ...);
    }
    for (const double p : {0.1, 0.8}) {  // backward makes forward's mask anew
      INFO("dropout " << p);
      for (const bool stash : {false, true}) {
        check_gradients<float, std::int32_t, std::int32_t>(
            runner, g, {kind, 3, 20, 1, bias, 0.2, {}, {p, 11, 12345}}, stash);
        check_gradients<float, std::int32_t, std::int32_t>(
            runner, g, {kind, 8, 16, 1, bias, 0.2, {}, {p, 11, 12345}}, stash);
      }
    }
    for (const double slope : {0.0, 1.5, -0.5, 20.0, -3.0}) {
      INFO("slope " << slope);
      check_gradients<float, std::int32_t, std::int32_t>(runner, g, {kind, 2, 12, 1, false, slope});
    }
  }
}

/// leaky'(0) is the slope: all x of these edges are 0.
template <class Runner>
void check_gradients_at_zero(const Runner& runner) {
  const auto g = random_graph(57, 20, 20, 4);
  for (const auto kind : {oracle::attention::gat, oracle::attention::gatv2}) {
    auto p = make_gradient_problem<float>(g, {kind, 1, 8});
    for (auto* m : {&p.forward.receiver_scores.data, &p.forward.receivers.m.data}) {
      std::fill(m->begin(), m->end(), -0.75f);
    }
    std::fill(p.forward.sender_scores.data.begin(), p.forward.sender_scores.data.end(), 0.75f);
    if (kind == oracle::attention::gatv2) {
      std::fill(p.forward.senders.m.data.begin(), p.forward.senders.m.data.end(), 0.75f);
      p.forward.senders.m.at(3, 0) = 5;  // so that products differ
    }
    const auto got = runner(p);
    const auto want = oracle::attention_backward(g, p.forward.rounded(), p.grad_output.rounded());
    const auto close = [](const oracle::matrix& have, const oracle::gradient& wanted) {
      for (std::size_t k = 0; k < wanted.value.values.size(); ++k) {
        REQUIRE(std::fabs(have.values[k] - wanted.value.values[k]) <=
                1e-5 * (1 + wanted.magnitude.values[k]));
      }
    };
    if (kind == oracle::attention::gat) {
      close(got.receiver_scores.rounded(), want.receiver_scores);
    } else {
      close(got.receivers.rounded(), want.receivers);
    }
    close(got.senders.rounded(), want.senders);
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
      REQUIRE(got.receivers.m.at(7, f) == 0.0f);
      for (const int sender : {4, 5}) {
        REQUIRE(got.senders.m.at(sender, f) == 0.0f);
        REQUIRE(got.values.m.at(sender, f) == 0.0f);
      }
    }
    for (const auto* m : {&got.receivers, &got.senders, &got.values}) {
      for (const double v : m->rounded().values) REQUIRE(std::isfinite(v));
    }
  }
}

/// A receiver whose logits are all -inf by its own row passes no gradient, and nobody gets a NaN.
template <class Runner>
void check_vector_gradients_of_nothing(const Runner& runner) {
  const auto g = random_graph(53, 30, 30, 5);
  for (const std::int64_t dim : {3, 8, 20, 100}) {
    INFO("dim " << dim);
    auto p = make_gradient_problem<float>(g, {oracle::attention::gatv2, 1, dim});
    for (float& a : p.forward.vector.data) a = std::fabs(a) + 0.25f;
    for (std::int64_t f = 0; f < dim; ++f) p.forward.receivers.m.at(7, f) = -INFINITY;
    const auto got = runner(p);
    for (std::int64_t f = 0; f < dim; ++f) REQUIRE(got.receivers.m.at(7, f) == 0.0f);
    for (const auto& m : {got.receivers.rounded(), got.senders.rounded(), got.vector.rounded()}) {
      for (const double v : m.values) REQUIRE(std::isfinite(v));
    }
  }
}

/// Gradients of one problem against another that differs by what weighs nothing.
template <class T>
void require_close(const stored_heads<T>& got, const stored_heads<T>& want,
                   std::int64_t first_feature = 0) {
  const auto have = got.rounded(), wanted = want.rounded();
  for (std::int64_t f = first_feature; f < wanted.width; ++f) {
    double largest = 0;
    for (std::int64_t i = 0; i < wanted.rows; ++i) {
      largest = std::max(largest, std::fabs(wanted.at(i, f)));
    }
    for (std::int64_t i = 0; i < wanted.rows; ++i) {
      REQUIRE(std::fabs(have.at(i, f) - wanted.at(i, f)) <= 1e-4 * largest);
    }
  }
}

/// An edge whose logit is -1e37 weighs nothing, although attention * x overflows on the way to it.
template <class Runner>
void check_gradients_of_large_vectors(const Runner& runner) {
  auto g = random_graph(55, 30, 30, 5);
  for (std::int64_t i = 0; i < 30; ++i) {  // nobody has that sender alone
    const auto begin = g.indices.begin() + g.offsets[i], end = g.indices.begin() + g.offsets[i + 1];
    if (std::count(begin, end, 4) == end - begin) std::fill(begin, end, 6);
  }
  const auto rest = without_sender(g, 4);
  REQUIRE(rest.indices.size() < g.indices.size());
  for (const std::int64_t dim : {3, 8, 20, 100}) {
    INFO("dim " << dim);
    const auto make = [&](const oracle::graph& from) {
      auto p =
          make_gradient_problem<float>(from, {oracle::attention::gatv2, 1, dim, 1, false, 0.01});
      p.forward.vector.at(0, 0) = 1e20f;
      for (std::int64_t i = 0; i < 30; ++i) {
        p.forward.receivers.m.at(i, 0) = p.forward.senders.m.at(i, 0) = 0;
        p.grad_output.m.at(i, 0) = 0;  // of the vector's large element
      }
      p.forward.senders.m.at(4, 0) = -1e19f;
      return p;
    };
    auto p = make(g);
    auto other = make(rest);
    const auto got = runner(p), want = runner(other);
    // Of feature 0 the gradient is the vector's 1e20 times a sum that is 0 but for rounding.
    require_close(got.receivers, want.receivers, 1);
    require_close(got.senders, want.senders, 1);
  }
}

/// A bias of -inf is a mask: all is as if the edges were not there, also where a row has no others,
/// with a stash and without.
template <class Runner>
void check_masking_bias(const Runner& runner) {
  auto g = random_graph(56, 30, 30, 5, 100);
  for (auto k = g.offsets[7]; k < g.offsets[8]; ++k) g.indices[k] = 4;
  const auto rest = without_sender(g, 4);
  for (const bool stash : {false, true}) {
    auto p = make_gradient_problem<float>(g, {oracle::attention::transformer, 2, 20, 1, true});
    auto other = make_gradient_problem<float>(rest, {oracle::attention::transformer, 2, 20});
    stored_matrix<float> kept(static_cast<std::int64_t>(rest.indices.size()), 2, 0.0);
    std::int64_t next = 0;
    for (std::size_t k = 0; k < g.indices.size(); ++k) {
      const auto edge = static_cast<std::int64_t>(k);
      for (std::int64_t h = 0; h < 2; ++h) {
        if (g.indices[k] == 4) {
          p.forward.bias.at(edge, h) = -INFINITY;
        } else {
          kept.at(next, h) = p.forward.bias.at(edge, h);
        }
      }
      next += g.indices[k] != 4;
    }
    other.forward.bias = kept;
    p.stash = other.stash = stash;
    const auto got = runner(p), want = runner(other);
    require_close(got.receivers, want.receivers);
    require_close(got.senders, want.senders);
    require_close(got.values, want.values);
    for (std::size_t k = 0; k < g.indices.size(); ++k) {
      if (g.indices[k] == 4) REQUIRE(got.bias.at(static_cast<std::int64_t>(k), 1) == 0.0f);
    }
  }
}

template <class Runner>
void check_gradient_corners(const Runner& runner) {
  check_gradients_of_nothing(runner);
  check_vector_gradients_of_nothing(runner);
  check_gradients_at_zero(runner);
  check_gradients_of_large_vectors(runner);
  check_masking_bias(runner);
  const auto g = random_graph(59, 40, 40, 6, 100);
  check_gradients<float, std::int32_t, std::int32_t>(
      runner, g, {oracle::attention::transformer, 2, 12}, false, true);
}

}  // namespace test
