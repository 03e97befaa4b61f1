// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include "reduce/runners.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random_graph.hpp"

namespace test {

inline double least_magnitude(const oracle::matrix& m) {
  double least = 0;
  for (const double v : m.values) {
    if (v != 0 && (least == 0 || std::fabs(v) < least)) least = std::fabs(v);
  }
  return least;
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
