// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "attention/attention_runners.hpp"
#include "support/random_graph.hpp"

namespace test {

struct attention_setting {
  oracle::attention kind = oracle::attention::gatv2;
  std::int64_t heads = 1, dim = 8;
  double size = 1;  // of the operands: logits grow with it
  bool bias = false;
  double slope = 0.2;
  heads_layout l = {};
  quipu::attention_dropout dropout = {};
};

template <class T, class I = std::int32_t, class O = std::int32_t>
attention_problem<T, I, O> make_problem(const oracle::graph& g, const attention_setting& s) {
  using A = quipu::accumulator<T>;
  const auto operand = [&](std::uint64_t seed, std::int64_t rows) {
    auto m = random_matrix(seed, rows, s.heads * s.dim);
    for (double& v : m.values) v *= s.size;
    return stored_heads<T>(m, s.heads, s.dim, s.l, NAN);
  };
  const auto plain = [&](std::uint64_t seed, std::int64_t rows, std::int64_t width) {
    return stored_matrix<T>(random_matrix(seed, rows, width), s.l.padding, s.l.shift, NAN);
  };
  const auto edges = s.bias ? static_cast<std::int64_t>(g.indices.size()) : 0;
  return {stored_graph<I, O>(g),
          s.kind,
          operand(31, g.rows),
          operand(32, g.columns),
          operand(33, g.columns),
          plain(34, s.heads, s.dim),
          plain(35, g.rows, s.heads),
          plain(36, g.columns, s.heads),
          stored_matrix<A>(random_matrix(37, edges, s.heads)),
          s.slope,
          1.0 / std::sqrt(static_cast<double>(s.dim)),
          s.l,
          s.dropout};
}

/// Bounds that follow from the arithmetic. A logit of n terms is off by 4 sqrt(n) eps of their
/// magnitudes; so is, relatively, its weight, twice as much with the denominator; an output adds
/// the rounding of a sum over the row, and of storage. 2^x is off by 2 units in the last place.
template <class T>
void require_attention(const attention_outcome<T>& got, const oracle::graph& g,
                       const oracle::attention_results& want, std::int64_t heads, std::int64_t dim,
                       bool with_alpha) {
  const double eps = accumulator_epsilon<T>();
  const double tiny = std::is_same_v<T, quipu::float16> ? 6e-8 : 1e-30;
  double worst = 0;
  const auto judge = [&](double value, double wanted, double bound) {
    if (value == wanted) return;
    const double ratio = std::fabs(value - wanted) / bound;
    worst = std::max(worst, std::isfinite(wanted) && std::isfinite(ratio) ? ratio : 1e300);
  };
  const auto output = got.output.rounded();
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      double magnitude = 0;
      for (auto k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        const double m = want.logit_magnitude.at(k, h);
        if (std::isfinite(m)) magnitude = std::max(magnitude, m);
      }
      const double degree = static_cast<double>(g.offsets[i + 1] - g.offsets[i]);
      const double in_logit = 4 * std::sqrt(static_cast<double>(dim) + 4) * eps * (magnitude + 1);
      const double in_weight = 2 * in_logit + (8 + 4 * std::sqrt(degree)) * eps;
      for (std::int64_t f = h * dim; f < (h + 1) * dim; ++f) {
        judge(output.at(i, f), want.output.at(i, f),
              in_weight * want.output_magnitude.at(i, f) +
                  1.01 * epsilon<T>() * std::fabs(want.output.at(i, f)) + tiny);
      }
      judge(static_cast<double>(got.logsumexp.at(i, h)), want.logsumexp.at(i, h),
            in_weight + 4 * eps * std::fabs(want.logsumexp.at(i, h)));
      for (auto k = g.offsets[i]; k < g.offsets[i + 1] && with_alpha; ++k) {
        // Below the smallest normal number, weights may be 0.
        judge(
            static_cast<double>(got.alpha.at(k, h)), want.applied.at(k, h),
            (2 * in_weight + 4 * eps * std::fabs(want.logsumexp.at(i, h))) * want.applied.at(k, h) +
                1.2e-38);
      }
    }
  }
  INFO("error over bound " << worst);
  REQUIRE(worst <= 1.0);
}

/// What lies between heads and rows must stay as it was.
template <class T>
void require_gaps(const stored_heads<T>& h) {
  auto outside = h.m;
  for (std::int64_t i = 0; i < outside.rows; ++i)
    for (std::int64_t f = 0; f < h.heads * h.dim; ++f)
      outside.at(i, h.place(f)) = to_element<T>(poison_value);
  const auto poison = quipu::widen(to_element<T>(poison_value));
  REQUIRE(std::all_of(outside.data.begin(), outside.data.end(),
                      [&](T v) { return quipu::widen(v) == poison; }));
}

template <class T, class I, class O, class Runner>
void check_attention(const Runner& runner, const oracle::graph& g, const attention_setting& s) {
  const auto p = make_problem<T, I, O>(g, s);
  const auto got = runner(p);
  require_attention<T>(got, g, oracle::attend(g, p.rounded()), s.heads, s.dim, true);
  require_gaps(got.output);
}

inline constexpr oracle::attention all_kinds[] = {oracle::attention::gat, oracle::attention::gatv2,
                                                  oracle::attention::transformer};

/// Every graph, kind, element and pair of indices.
template <class Runner, class... Elements>
void check_attention_graphs(const Runner& runner) {
  for (const auto& [name, g] : graph_zoo()) {
    for (const auto kind : all_kinds) {
      INFO(name << " kind " << static_cast<int>(kind));
      (check_attention<Elements, std::int32_t, std::int32_t>(runner, g, {kind, 2, 16}), ...);
      check_attention<float, std::int32_t, std::int64_t>(runner, g, {kind, 1, 8});
      check_attention<float, std::int64_t, std::int64_t>(runner, g, {kind, 3, 4});
    }
    check_attention<float, std::int32_t, std::int32_t>(
        runner, g, {oracle::attention::transformer, 2, 8, 1, true});
  }
}

/// Head sizes and numbers of heads, powers of two and others.
template <class Runner, class... Elements>
void check_attention_shapes(const Runner& runner) {
  const auto g = random_graph(41, 60, 70, 8, 90);
  for (const auto kind : all_kinds) {
    for (const std::int64_t dim : {1,  2,  3,  4,  5,   7,   8,   12,  16,  17,  24,  31,  32,
                                   33, 48, 64, 65, 100, 128, 129, 200, 256, 257, 300, 516, 1032}) {
      INFO("kind " << static_cast<int>(kind) << " dim " << dim);
      (check_attention<Elements, std::int32_t, std::int32_t>(runner, g, {kind, 1, dim}), ...);
      (check_attention<Elements, std::int32_t, std::int32_t>(runner, g, {kind, 3, dim}), ...);
    }
    for (const std::int64_t heads : {2, 4, 5, 8, 16, 33}) {
      INFO("kind " << static_cast<int>(kind) << " heads " << heads);
      (check_attention<Elements, std::int32_t, std::int32_t>(runner, g, {kind, heads, 16}), ...);
    }
  }
}

/// Heads with gaps (keys beside values, packed query, key and value), padded and misaligned rows.
template <class Runner, class... Elements>
void check_attention_layouts(const Runner& runner) {
  const auto g = random_graph(42, 64, 64, 6, 70);
  for (const auto kind : all_kinds) {
    for (const heads_layout l :
         {heads_layout{16, 0, 0}, heads_layout{32, 16, 0}, heads_layout{1, 0, 0},
          heads_layout{0, 3, 1}, heads_layout{0, 0, 1}, heads_layout{8, 8, 8}}) {
      INFO("kind " << static_cast<int>(kind) << " gap " << l.gap << " padding " << l.padding
                   << " shift " << l.shift);
      (check_attention<Elements, std::int32_t, std::int32_t>(runner, g,
                                                             {kind, 3, 16, 1, false, 0.2, l}),
       ...);
    }
  }
}

/// g without the edges from a sender.
inline oracle::graph without_sender(const oracle::graph& g, std::int64_t sender) {
  auto out = g;
  out.indices.clear();
  out.offsets = {0};
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (auto k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
      if (g.indices[k] != sender) out.indices.push_back(g.indices[k]);
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.indices.size()));
  }
  return out;
}

/// A key of -inf under positive queries takes no part, in heads of every shape: what the quick way
/// to a logit gets wrong there is done again.
template <class T, class Runner>
void check_infinite_key(const Runner& runner, const oracle::graph& g, std::int64_t dim) {
  auto p = make_problem<T>(g, {oracle::attention::transformer, 2, dim});
  for (std::int64_t f = 0; f < 2 * dim; ++f) {
    p.senders.m.at(3, p.senders.place(f)) = to_element<T>(-INFINITY);
    for (std::int64_t i = 0; i < g.rows; ++i) {
      T& q = p.receivers.m.at(i, p.receivers.place(f));
      q = to_element<T>(std::fabs(static_cast<double>(quipu::widen(q))) + 0.25);
    }
  }
  p.wants_alpha = false;
  const auto rest = without_sender(g, 3);
  require_attention<T>(runner(p), rest, oracle::attend(rest, p.rounded()), 2, dim, false);
}
template <class Runner, class... Elements>
void check_attention_infinities(const Runner& runner) {
  const auto g = random_graph(47, 40, 40, 9, 100);
  for (const std::int64_t dim : {1, 3, 8, 20, 64, 100, 300, 600}) {
    INFO("dim " << dim);
    (check_infinite_key<Elements>(runner, g, dim), ...);
  }
}

/// Slopes, large logits, and logits that are not numbers.
template <class Runner>
void check_attention_range(const Runner& runner) {
  const auto g = random_graph(43, 50, 50, 12, 200);
  for (const double slope : {0.0, 0.01, 1.0, 1.5, -0.5, 20.0, -3.0}) {
    INFO("slope " << slope);
    for (const auto kind : {oracle::attention::gat, oracle::attention::gatv2}) {
      check_attention<float, std::int32_t, std::int32_t>(runner, g, {kind, 2, 12, 1, false, slope});
    }
  }
  for (const double size : {30.0, 100.0}) {  // logits up to 10^4
    for (const auto kind : all_kinds) {
      check_attention<float, std::int32_t, std::int32_t>(runner, g, {kind, 1, 64, size});
    }
  }
  for (const auto kind : all_kinds) {
    auto p = make_problem<float>(g, {kind, 2, 8});
    p.wants_alpha = false;
    require_attention<float>(runner(p), g, oracle::attend(g, p.rounded()), 2, 8, false);
  }
}

/// Dropout: the mask that its definition gives, in every kind; and about as many edges as it says.
template <class Runner>
void check_dropout(const Runner& runner) {
  const auto g = random_graph(48, 200, 180, 30, 700);
  for (const auto kind : all_kinds) {
    for (const double p : {0.1, 0.5, 0.95}) {
      INFO("kind " << static_cast<int>(kind) << " probability " << p);
      const quipu::attention_dropout dropout{p, 7, 1ull << 40};
      check_attention<float, std::int32_t, std::int32_t>(runner, g,
                                                         {kind, 3, 20, 1, false, 0.2, {}, dropout});
      const auto got = runner(make_problem<float>(g, {kind, 4, 8, 0.1, false, 0.2, {}, dropout}));
      double dropped = 0;
      for (const float a : got.alpha.data) dropped += a == 0;
      const auto draws = static_cast<double>(got.alpha.data.size());
      REQUIRE(std::fabs(dropped - p * draws) <= 5 * std::sqrt(p * (1 - p) * draws));
    }
  }
  const auto one = runner(
      make_problem<float>(g, {oracle::attention::gat, 2, 8, 1, false, 0.2, {}, {0.5, 1, 0}}));
  const auto other = runner(
      make_problem<float>(g, {oracle::attention::gat, 2, 8, 1, false, 0.2, {}, {0.5, 2, 0}}));
  REQUIRE(one.alpha.data != other.alpha.data);
  REQUIRE(one.logsumexp.data == other.logsumexp.data);
}

}  // namespace test
