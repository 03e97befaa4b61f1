// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include "reduce/runners.hpp"
#include "support/catch.hpp"
#include "support/random_graph.hpp"

namespace test {

/// |got - want| <= c * sqrt(n) * eps(accumulator) * (sum of magnitudes) + half a unit of storage:
/// the usual bound for a sum of n terms with random rounding, c = 4.
template <class T>
void require_sum(const stored_matrix<T>& got, const oracle::matrix& want,
                 const oracle::matrix& magnitude, double terms, const std::string& what) {
  double worst = 0;
  std::string where;
  for (std::int64_t i = 0; i < want.rows; ++i) {
    for (std::int64_t f = 0; f < want.width; ++f) {
      const double bound =
          4.0 * std::sqrt(terms + 1.0) * accumulator_epsilon<T>() * std::fabs(magnitude.at(i, f)) +
          1.01 * epsilon<T>() * std::fabs(want.at(i, f)) + 1e-30 +
          (std::is_same_v<T, quipu::float16> ? 6e-8 : 0.0);  // fp16 denormals
      const double error =
          std::fabs(static_cast<double>(quipu::widen(got.at(i, f))) - want.at(i, f));
      const double ratio = std::isnan(error) ? 1e300 : error / bound;
      if (ratio > worst) {
        worst = ratio;
        where = what + " row " + std::to_string(i) + " feature " + std::to_string(f) + " want " +
                std::to_string(want.at(i, f)) + " got " +
                std::to_string(static_cast<double>(quipu::widen(got.at(i, f))));
      }
    }
  }
  INFO(where << ", error over bound " << worst);
  REQUIRE(worst <= 1.0);
}

template <class T>
void require_equal(const stored_matrix<T>& got, const oracle::matrix& want,
                   const std::string& what) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < want.rows; ++i) {
    for (std::int64_t f = 0; f < want.width; ++f) {
      const double g = static_cast<double>(quipu::widen(got.at(i, f)));
      wrong += !(g == want.at(i, f) || (std::isnan(g) && std::isnan(want.at(i, f))));
    }
  }
  INFO(what);
  REQUIRE(wrong == 0);
}

/// Gaps between rows and before the first must stay as they were.
template <class T>
void require_gaps_untouched(const stored_matrix<T>& m) {
  std::int64_t touched = 0;
  const T clean = to_element<T>(poison_value);
  for (std::size_t k = 0; k < m.data.size(); ++k) {
    const auto offset = static_cast<std::int64_t>(k) - m.shift;
    const bool inside = offset >= 0 && offset % m.stride < m.width;
    if (!inside) touched += std::memcmp(&m.data[k], &clean, sizeof clean) != 0;
  }
  REQUIRE(touched == 0);
}

inline double least_magnitude(const oracle::matrix& m) {
  double least = 0;
  for (const double v : m.values) {
    if (v != 0 && (least == 0 || std::fabs(v) < least)) least = std::fabs(v);
  }
  return least;
}

/// The most terms that meet in one sum, forward (a row) or backward (a sender).
inline double longest_sum(const oracle::graph& g) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(g.columns), 0);
  std::int64_t most = 1;
  for (const auto j : g.indices) most = std::max(most, ++sent[static_cast<std::size_t>(j)]);
  for (std::int64_t i = 0; i < g.rows; ++i) most = std::max(most, g.offsets[i + 1] - g.offsets[i]);
  return static_cast<double>(most);
}

/// Runs `op` forward and backward and compares everything with the oracle.
template <class T, class I, class O, class Runner>
void check_against_oracle(const Runner& runner, const oracle::graph& g, quipu::reduce op,
                          std::int64_t features, const layout& l = {},
                          const quipu::graph_options& options = small_slices()) {
  const stored_matrix<T> x(random_matrix(11, g.columns, features), l.padding, l.shift, NAN);
  const stored_matrix<T> dy(random_matrix(12, g.rows, features), l.padding, l.shift, NAN);
  const auto xr = x.rounded();
  const auto dyr = dy.rounded();
  const auto got = runner(stored_graph<I, O>(g), x, dy, op, l, options);
  const double longest = longest_sum(g);

  if (op == quipu::reduce::sum || op == quipu::reduce::mean) {
    const bool mean = op == quipu::reduce::mean;
    const auto want = mean ? oracle::mean(g, xr) : oracle::sum(g, xr);
    auto magnitude = oracle::sum_of_magnitudes(g, xr);
    for (std::int64_t i = 0; mean && i < g.rows; ++i) {
      const double degree = std::max(1.0, static_cast<double>(g.offsets[i + 1] - g.offsets[i]));
      for (std::int64_t f = 0; f < features; ++f) magnitude.at(i, f) /= degree;
    }
    require_sum(got.output, want, magnitude, longest, "forward");
    auto absolute = dyr;
    for (double& v : absolute.values) v = std::fabs(v);
    auto plain = g;
    for (double& w : plain.weights) w = std::fabs(w);
    require_sum(
        got.grad_input, mean ? oracle::mean_backward(g, dyr) : oracle::sum_backward(g, dyr),
        mean ? oracle::mean_backward(plain, absolute) : oracle::sum_backward(plain, absolute),
        longest, "backward");
  } else {
    const auto want = oracle::extremum(g, xr, op == quipu::reduce::max ? 1 : -1);
    require_equal(got.output, want.value, "forward");
    REQUIRE(got.edges == want.edge);
    auto absolute = dyr;
    for (double& v : absolute.values) v = std::fabs(v);
    auto magnitude = oracle::extremum_backward(g, want, absolute);
    // A scatter in fixed point rounds an addend to 2^-17 of the least one at most: the same for
    // each.
    const double addend = least_magnitude(dyr) * std::ldexp(1.0, -17);
    for (double& v : magnitude.values) {
      if (v > 0) v += longest * addend / (4 * accumulator_epsilon<T>() * std::sqrt(longest + 1));
    }
    require_sum(got.grad_input, oracle::extremum_backward(g, want, dyr), magnitude, longest,
                "backward");
  }
  require_gaps_untouched(got.output);
  require_gaps_untouched(got.grad_input);
}

inline constexpr quipu::reduce all_reductions[] = {quipu::reduce::sum, quipu::reduce::mean,
                                                   quipu::reduce::min, quipu::reduce::max};

/// Every shape, element type, index pair and layout that the verbs promise.
template <class Runner, class... Elements>
void check_everything(const Runner& runner) {
  for (const auto& [name, g] : graph_zoo()) {
    INFO(name);
    for (const auto op : all_reductions) {
      INFO("op " << static_cast<int>(op));
      (check_against_oracle<Elements, std::int32_t, std::int32_t>(runner, g, op, 32), ...);
      check_against_oracle<float, std::int32_t, std::int64_t>(runner, g, op, 8);
      check_against_oracle<float, std::int64_t, std::int64_t>(runner, g, op, 8);
    }
  }
}

template <class Runner, class... Elements>
void check_widths(const Runner& runner) {
  const auto g = random_graph(21, 60, 70, 8, 90);
  for (const std::int64_t width :
       {1,   2,   3,   4,   5,   7,   8,   14,  16,  17,  24,  31,   33,   48,   64,  65,
        100, 127, 128, 129, 143, 200, 255, 256, 257, 512, 602, 1023, 1024, 1025, 4096}) {
    INFO("width " << width);
    for (const auto op : {quipu::reduce::sum, quipu::reduce::max}) {
      (check_against_oracle<Elements, std::int32_t, std::int32_t>(runner, g, op, width), ...);
    }
  }
}

/// Padded rows, and data that starts one element off every border.
template <class Runner, class... Elements>
void check_layouts(const Runner& runner) {
  const auto g = random_graph(22, 64, 64, 6, 70);
  for (const layout l : {layout{3, 0}, layout{8, 0}, layout{0, 1}, layout{5, 1}, layout{16, 8}}) {
    for (const std::int64_t width : {7, 8, 64}) {
      INFO("padding " << l.padding << " shift " << l.shift << " width " << width);
      for (const auto op : all_reductions) {
        (check_against_oracle<Elements, std::int32_t, std::int32_t>(runner, g, op, width, l), ...);
      }
    }
  }
}

}  // namespace test
