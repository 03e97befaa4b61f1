// SPDX-License-Identifier: Apache-2.0
#pragma once

// Results against the oracle's, with bounds that are derived, and gaps that must stay as they were.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "support/catch.hpp"
#include "support/problem.hpp"

namespace test {

struct layout {
  std::int64_t padding = 0;
  std::int64_t shift = 0;
};

constexpr double poison_value = -12345.0;

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

/// The most terms that meet in one sum, forward (a row) or backward (a sender).
inline double longest_sum(const oracle::graph& g) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(g.columns), 0);
  std::int64_t most = 1;
  for (const auto j : g.indices) most = std::max(most, ++sent[static_cast<std::size_t>(j)]);
  for (std::int64_t i = 0; i < g.rows; ++i) most = std::max(most, g.offsets[i + 1] - g.offsets[i]);
  return static_cast<double>(most);
}

}  // namespace test
