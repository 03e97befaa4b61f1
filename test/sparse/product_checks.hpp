// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "sparse/product_runners.hpp"
#include "support/random_graph.hpp"

namespace test {

inline constexpr quipu::normalisation all_norms[] = {
    quipu::normalisation::none, quipu::normalisation::mean, quipu::normalisation::walk,
    quipu::normalisation::symmetric};

/// How a backend keeps coefficients: two fp32 factors and a weight, or one number of the element
/// type.
enum class coefficients_in { fp32, element };

struct product_setting {
  quipu::normalisation norm = quipu::normalisation::none;
  double alpha = 1, beta = 0;
  layout l = {};
  coefficients_in kept = coefficients_in::fp32;
};

inline oracle::matrix absolute(oracle::matrix m) {
  for (double& v : m.values) v = std::fabs(v);
  return m;
}
inline std::vector<double> absolute(std::vector<double> v) {
  for (double& x : v) x = std::fabs(x);
  return v;
}

/// What rounding the coefficients adds to the magnitude that errors are proportional to: a few
/// roundings to fp32, or one to the element type.
template <class T>
void allow_for_coefficients(oracle::matrix& magnitude, coefficients_in kept, double terms) {
  const double rounding =
      4 * epsilon<float>() + (kept == coefficients_in::element ? epsilon<T>() : 0.0);
  const double unit = 4.0 * std::sqrt(terms + 1.0) * accumulator_epsilon<T>();
  for (double& v : magnitude.values) v *= 1.0 + rounding / unit;
}

template <class T>
void require_dots(const std::vector<quipu::accumulator<T>>& got, const std::vector<double>& want,
                  const std::vector<double>& magnitude, double terms) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (std::size_t k = 0; k < want.size(); ++k) {
    const double bound =
        (4.0 * std::sqrt(terms + 1.0) * accumulator_epsilon<T>() + 4 * epsilon<float>()) *
            magnitude[k] +
        1e-30;
    const double error = std::fabs(static_cast<double>(got[k]) - want[k]);
    worst = std::max(worst, std::isnan(error) ? 1e300 : error / bound);
  }
  INFO("sddmm, error over bound " << worst);
  REQUIRE(worst <= 1.0);
}

/// Forward, backward and the weights' gradient against the oracle.
template <class T, class I, class O, class Runner>
void check_product(const Runner& runner, const oracle::graph& g, std::int64_t features,
                   const product_setting& s = {}) {
  const auto stored = [&](std::uint64_t seed, std::int64_t rows, double gap) {
    return stored_matrix<T>(random_matrix(seed, rows, features), s.l.padding, s.l.shift, gap);
  };
  const product_problem<T, I, O> p{stored_graph<I, O>(g),
                                   stored(11, g.columns, NAN),
                                   stored(13, g.rows, poison_value),
                                   stored(12, g.rows, NAN),
                                   stored(14, g.columns, poison_value),
                                   s.norm,
                                   s.alpha,
                                   s.beta};
  const auto got = runner(p);
  const auto c = oracle::coefficients(g, static_cast<oracle::normalisation>(s.norm));
  const auto ca = absolute(c);
  const auto x = p.x.rounded(), dy = p.dy.rounded(), y0 = p.y0.rounded(), dx0 = p.dx0.rounded();
  const double terms = longest_sum(g), alpha = std::fabs(s.alpha), beta = std::fabs(s.beta);

  auto magnitude = oracle::product(g, ca, absolute(x), alpha, beta, absolute(y0));
  allow_for_coefficients<T>(magnitude, s.kept, terms);
  require_sum(got.output, oracle::product(g, c, x, s.alpha, s.beta, y0), magnitude, terms, "spmm");
  magnitude = oracle::product_backward(g, ca, absolute(dy), alpha, beta, absolute(dx0));
  allow_for_coefficients<T>(magnitude, s.kept, terms);
  require_sum(got.grad_input, oracle::product_backward(g, c, dy, s.alpha, s.beta, dx0), magnitude,
              terms, "spmm_backward");
  require_gaps_untouched(got.output);
  require_gaps_untouched(got.grad_input);

  // The weights' gradient knows the factors, not the weights.
  auto unweighted = g;
  unweighted.weights.clear();
  auto factors = oracle::coefficients(unweighted, static_cast<oracle::normalisation>(s.norm));
  for (double& f : factors) f *= s.alpha;
  require_dots<T>(got.dots, oracle::sampled(g, factors, dy, x),
                  oracle::sampled(g, absolute(factors), absolute(dy), absolute(x)),
                  static_cast<double>(features));
}

template <class Runner, class... Elements>
void check_products(const Runner& runner, coefficients_in kept = coefficients_in::fp32) {
  for (const auto& [name, g] : graph_zoo()) {
    INFO(name);
    for (const auto norm : all_norms) {
      INFO("norm " << static_cast<int>(norm));
      const product_setting s{norm, 1, 0, {}, kept};
      (check_product<Elements, std::int32_t, std::int32_t>(runner, g, 32, s), ...);
      check_product<float, std::int32_t, std::int64_t>(runner, g, 8, s);
      check_product<float, std::int64_t, std::int64_t>(runner, g, 8, s);
    }
    for (const auto& [alpha, beta] : {std::pair{2.0, 0.5}, {0.0, 1.0}, {-1.0, -3.0}}) {
      const product_setting s{quipu::normalisation::symmetric, alpha, beta, {}, kept};
      (check_product<Elements, std::int32_t, std::int32_t>(runner, g, 20, s), ...);
    }
  }
}

template <class Runner, class... Elements>
void check_product_widths(const Runner& runner, coefficients_in kept = coefficients_in::fp32) {
  const auto weighted = random_graph(21, 60, 70, 8, 90, true);
  const auto plain = random_graph(23, 60, 70, 8, 90);
  for (const std::int64_t width :
       {1,  2,  3,   4,   5,   7,   8,   14,  16,  17,  24,  31,   33,  48,
        63, 65, 100, 127, 128, 129, 143, 255, 256, 257, 602, 1023, 1025}) {
    INFO("width " << width);
    const product_setting s{quipu::normalisation::walk, 1, 0, {}, kept};
    (check_product<Elements, std::int32_t, std::int32_t>(runner, weighted, width, s), ...);
    (check_product<Elements, std::int32_t, std::int32_t>(runner, plain, width, s), ...);
  }
}

template <class Runner, class... Elements>
void check_product_layouts(const Runner& runner, coefficients_in kept = coefficients_in::fp32) {
  const auto g = random_graph(22, 64, 64, 6, 70);
  for (const layout l : {layout{3, 0}, layout{8, 0}, layout{0, 1}, layout{5, 1}, layout{16, 8}}) {
    for (const std::int64_t width : {7, 8, 64}) {
      INFO("padding " << l.padding << " shift " << l.shift << " width " << width);
      const product_setting s{quipu::normalisation::mean, 1.5, 0.25, l, kept};
      (check_product<Elements, std::int32_t, std::int32_t>(runner, g, width, s), ...);
    }
  }
}

}  // namespace test
