// SPDX-License-Identifier: Apache-2.0
#pragma once

// Public bug reports as small cases. Each name is the case's id in the collection they come from.

#include "sparse/product_checks.hpp"

namespace test {

using exact_problem = product_problem<float, std::int32_t, std::int32_t>;

inline oracle::matrix matrix_of(const std::vector<std::vector<double>>& rows) {
  oracle::matrix m(static_cast<std::int64_t>(rows.size()),
                   static_cast<std::int64_t>(rows.empty() ? 0 : rows[0].size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t f = 0; f < rows[i].size(); ++f) {
      m.at(static_cast<std::int64_t>(i), static_cast<std::int64_t>(f)) = rows[i][f];
    }
  return m;
}

/// The graph of K24, K26 and K28: four nodes, an empty row, weights.
inline oracle::graph weighted_square() {
  oracle::graph g;
  g.rows = g.columns = 4;
  g.offsets = {0, 3, 4, 4, 6};
  g.indices = {0, 2, 3, 1, 0, 3};
  g.weights = {2, -1, 4, 3, 5, -2};
  return g;
}

inline exact_problem exact(const oracle::graph& g, const oracle::matrix& x,
                           const oracle::matrix& y0, const layout& in = {},
                           const layout& out = {}) {
  const oracle::matrix ones(g.rows, x.width, 1.0);
  return {stored_graph<std::int32_t, std::int32_t>(g),
          stored_matrix<float>(x, in.padding, in.shift, NAN),
          stored_matrix<float>(y0, out.padding, out.shift, poison_value),
          stored_matrix<float>(ones), stored_matrix<float>(g.columns, x.width, poison_value)};
}

template <class Runner>
void check_product_cases(const Runner& runner) {
  const auto g = weighted_square();
  {  // K24: a column does not depend on how many columns there are
    const auto x = matrix_of(
        {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 1, 2, 3}, {4, 5, 6, 7, 8, 9}, {-1, -2, -3, -4, -5, -6}});
    const auto want = matrix_of({{-6, -9, -12, -15, -18, -21},
                                 {21, 24, 27, 3, 6, 9},
                                 {0, 0, 0, 0, 0, 0},
                                 {7, 14, 21, 28, 35, 42}});
    for (std::int64_t width = 1; width <= 6; ++width) {
      oracle::matrix part(4, width), first(4, width);
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t f = 0; f < width; ++f) {
          part.at(i, f) = x.at(i, f);
          first.at(i, f) = want.at(i, f);
        }
      const auto out = runner(exact(g, part, oracle::matrix(4, width, poison_value)));
      REQUIRE(out.output.rounded().values == first.values);
    }
  }
  const auto x2 = matrix_of({{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  {  // K26a: beta counts once
    auto p = exact(g, x2, matrix_of({{2, 4}, {6, 8}, {10, 12}, {14, 16}}));
    p.alpha = 2;
    p.beta = 0.5;
    REQUIRE(runner(p).output.rounded().values ==
            matrix_of({{51, 62}, {21, 28}, {5, 6}, {-11, -4}}).values);
  }
  {  // K26b: beta = 0 does not read Y
    const auto p = exact(g, x2, oracle::matrix(4, 2, NAN));
    REQUIRE(runner(p).output.rounded().values ==
            matrix_of({{25, 30}, {9, 12}, {0, 0}, {-9, -6}}).values);
  }
  {  // alpha = 0 lets no NaN of X through
    auto p = exact(g, oracle::matrix(4, 2, NAN), oracle::matrix(4, 2, 3.0));
    p.alpha = 0;
    p.beta = 2;
    REQUIRE(runner(p).output.rounded().values == std::vector<double>(8, 6.0));
  }
  {  // K28: gaps between rows are neither read nor written
    const auto x = matrix_of({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}});
    const auto out = runner(exact(g, x, oracle::matrix(4, 3, poison_value), {2, 0}, {4, 0}));
    REQUIRE(out.output.rounded().values ==
            matrix_of({{35, 40, 45}, {12, 15, 18}, {0, 0, 0}, {-15, -12, -9}}).values);
    require_gaps_untouched(out.output);
  }
  {  // K20: more edges than rows * columns
    oracle::graph parallel;
    parallel.rows = parallel.columns = 2;
    parallel.offsets = {0, 0, 5};
    parallel.indices = {0, 0, 0, 0, 0};
    const auto x = matrix_of({{1, 2, 3, 4, 5}, {9, 9, 9, 9, 9}});
    const auto out = runner(exact(parallel, x, oracle::matrix(2, 5, poison_value)));
    REQUIRE(out.output.rounded().values ==
            matrix_of({{0, 0, 0, 0, 0}, {5, 10, 15, 20, 25}}).values);
    REQUIRE(out.grad_input.rounded().values ==
            matrix_of({{5, 5, 5, 5, 5}, {0, 0, 0, 0, 0}}).values);
    REQUIRE(out.dots == std::vector<float>(5, 15.0f));
  }
  {  // K54: no weights mean ones; given ones replace the graph's
    auto p = exact(g, x2, oracle::matrix(4, 2, poison_value));
    p.weights = {1, 1, 1, 1, 1, 1};
    const auto given = runner(p).output.data;
    p.weights.clear();
    p.graph.weights.clear();
    REQUIRE(runner(p).output.data == given);
  }
  {  // K22: a ring of integers, sums exact whatever the width
    for (const std::int64_t width : {1, 2, 3, 5, 7, 14, 17, 31, 33, 63, 65, 127, 143, 257, 602}) {
      oracle::graph ring;
      ring.rows = ring.columns = 33;
      for (std::int64_t i = 0; i < 33; ++i) {
        ring.indices.push_back((i + 1) % 33);
        ring.indices.push_back((i + 32) % 33);
        ring.offsets.push_back(2 * (i + 1));
      }
      const auto x = random_matrix(71, 33, width, filling::integers);
      const auto out = runner(exact(ring, x, oracle::matrix(33, width, poison_value)));
      REQUIRE(out.output.rounded().values == oracle::sum(ring, x).values);
    }
  }
}

}  // namespace test
