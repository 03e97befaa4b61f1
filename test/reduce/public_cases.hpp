// SPDX-License-Identifier: Apache-2.0
#pragma once

// Public bug reports as small cases. Each name is the case's id in the collection they come from.

#include <limits>

#include "reduce/checks.hpp"

namespace test {

struct small_case {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> indices;
  std::int64_t columns;
  std::vector<std::vector<double>> x;
  std::vector<double> weights = {};

  oracle::graph graph() const {
    oracle::graph g;
    g.rows = static_cast<std::int64_t>(offsets.size()) - 1;
    g.columns = columns;
    g.offsets = offsets;
    g.indices = indices;
    g.weights = weights;
    return g;
  }
  oracle::matrix input() const {
    const auto width = x.empty() ? 1 : static_cast<std::int64_t>(x[0].size());
    oracle::matrix m(columns, width);
    for (std::int64_t i = 0; i < columns; ++i)
      for (std::int64_t f = 0; f < width; ++f) m.at(i, f) = x[i][f];
    return m;
  }
};

template <class T, class Runner>
outcome<T> run_small(const Runner& runner, const small_case& c, quipu::reduce op,
                     const oracle::matrix* gradient = nullptr,
                     const quipu::graph_options& options = {}) {
  const auto g = c.graph();
  const auto x = c.input();
  const oracle::matrix ones(g.rows, x.width, 1.0);
  return runner(stored_graph<std::int32_t, std::int32_t>(g), stored_matrix<T>(x),
                stored_matrix<T>(gradient != nullptr ? *gradient : ones), op, {}, options);
}

template <class T>
std::vector<double> values_of(const stored_matrix<T>& m) {
  return m.rounded().values;
}
using numbers = std::vector<double>;
using positions = std::vector<std::int64_t>;

template <class Runner>
void check_empty_rows(const Runner& runner) {
  {  // K01: an empty row gives 0, never the identity of max
    const small_case c{
        {0, 0, 1, 2, 3, 4},
        {0, 1, 2, 3},
        5,
        {{-1, -1.5, -2}, {-2, -2.5, -3}, {-3, -3.5, -4}, {-4, -4.5, -5}, {-5, -5.5, -6}}};
    for (const auto op : all_reductions) {
      const auto out = run_small<float>(runner, c, op);
      REQUIRE(values_of(out.output) ==
              numbers{0, 0, 0, -1, -1.5, -2, -2, -2.5, -3, -3, -3.5, -4, -4, -4.5, -5});
      if (!out.edges.empty()) {
        REQUIRE(out.edges == positions{-1, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3});
      }
    }
  }
  {  // K02, K42: no edges at all
    const small_case c{{0, 0, 0}, {}, 2, {{1, 2, 3, 4}, {5, 6, 7, 8}}};
    for (const auto op : all_reductions) {
      const auto out = run_small<float>(runner, c, op);
      REQUIRE(values_of(out.output) == numbers(8, 0.0));
      REQUIRE(values_of(out.grad_input) == numbers(8, 0.0));
    }
  }
  {  // K04: no senders; then no receivers
    const small_case nobody{{0, 0, 0}, {}, 0, {}};
    const small_case no_rows{{0}, {}, 3, {{1}, {2}, {3}}};
    for (const auto op : all_reductions) {
      REQUIRE(values_of(run_small<float>(runner, nobody, op).output) == numbers(2, 0.0));
      REQUIRE(values_of(run_small<float>(runner, no_rows, op).grad_input) == numbers(3, 0.0));
    }
  }
}

template <class Runner>
void check_ties(const Runner& runner) {
  {  // K06: the winner alone gets the gradient; the empty row's is lost
    const small_case c{{0, 2, 2, 4}, {0, 1, 2, 3}, 4, {{3}, {1}, {2}, {5}}};
    oracle::matrix dy(3, 1);
    dy.values = {10, 20, 30};
    const auto out = run_small<float>(runner, c, quipu::reduce::max, &dy);
    REQUIRE(values_of(out.output) == numbers{3, 0, 5});
    REQUIRE(out.edges == positions{0, -1, 3});
    REQUIRE(values_of(out.grad_input) == numbers{10, 0, 0, 30});
  }
  {  // K08: four equal senders, one gradient
    const small_case c{{0, 4}, {0, 1, 2, 3}, 4, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}};
    for (const auto op : {quipu::reduce::max, quipu::reduce::min}) {
      const auto out = run_small<float>(runner, c, op);
      REQUIRE(values_of(out.grad_input) == numbers{1, 1, 0, 0, 0, 0, 0, 0});
    }
  }
  for (const std::int64_t length : {16, 300, 5000, 100000}) {  // K10: constant rows of any length
    for (const std::int64_t width : {1, 8}) {
      oracle::graph g;
      g.rows = 1;
      g.columns = length;
      for (std::int64_t k = 0; k < length; ++k) g.indices.push_back(k);
      g.offsets.push_back(length);
      const oracle::matrix x(length, width, -3.0), dy(1, width, 1.0);
      for (const auto op : {quipu::reduce::max, quipu::reduce::min}) {
        const auto out = runner(stored_graph<std::int32_t, std::int32_t>(g),
                                stored_matrix<float>(x), stored_matrix<float>(dy), op, {}, {});
        REQUIRE(out.edges == positions(static_cast<std::size_t>(width), 0));
      }
    }
  }
  const auto winner_of = [&](std::int64_t length, const positions& peaks) {  // K11
    oracle::graph g;
    g.rows = 1;
    g.columns = length;
    for (std::int64_t k = 0; k < length; ++k) g.indices.push_back(k);
    g.offsets.push_back(length);
    oracle::matrix x(length, 1);
    for (const auto p : peaks) x.at(p, 0) = 9;
    return runner(stored_graph<std::int32_t, std::int32_t>(g), stored_matrix<float>(x),
                  stored_matrix<float>(oracle::matrix(1, 1, 1.0)), quipu::reduce::max, {}, {})
        .edges;
  };
  for (int repeat = 0; repeat < 20; ++repeat) {
    REQUIRE(winner_of(1000, {37, 511, 999}) == positions{37});
    REQUIRE(winner_of(70000, {33, 32768, 69999}) == positions{33});
  }
}

/// The first NaN wins wherever it lies: in any slice of a split row, in a row too long for a byte,
/// and with its payload.
template <class T, class Runner>
void check_first_nan(const Runner& runner) {
  oracle::graph g;
  g.rows = 2;
  g.columns = 400;
  for (std::int64_t k = 0; k < 400; ++k) g.indices.push_back(k);
  g.offsets = {0, 100, 400};
  stored_matrix<T> x(random_matrix(44, 400, 3));
  const auto payload = [&](std::int64_t row, std::int64_t feature) {
    T& v = x.at(row, feature);
    v = to_element<T>(NAN);
    std::uint8_t low;
    std::memcpy(&low, &v, 1);
    low ^= static_cast<std::uint8_t>(1 + row % 7);  // mantissa bits
    std::memcpy(&v, &low, 1);
  };
  for (const std::int64_t row : {70, 71, 99, 330, 399}) payload(row, 0);
  payload(399, 1);
  payload(100, 2);
  const stored_matrix<T> dy(oracle::matrix(2, 3, 1.0));
  for (const auto op : {quipu::reduce::max, quipu::reduce::min}) {
    for (const std::int32_t slice : {0, 1, 7, 64}) {
      const auto out =
          runner(stored_graph<std::int32_t, std::int32_t>(g), x, dy, op, {}, small_slices(slice));
      const auto want = oracle::extremum(g, x.rounded(), op == quipu::reduce::max ? 1 : -1);
      REQUIRE(out.edges == want.edge);
      REQUIRE(out.edges[0] == 70);
      REQUIRE(out.edges[3] == 330);
      REQUIRE(out.edges[4] == 399);
      REQUIRE(out.edges[5] == 100);
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t f = 0; f < 3; ++f) {
          const T winner = x.at(g.indices[want.edge[i * 3 + f]], f), got = out.output.at(i, f);
          REQUIRE(std::memcmp(&winner, &got, sizeof(T)) == 0);
        }
      }
    }
  }
}

template <class Runner>
void check_special_values(const Runner& runner) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  {  // K12: NaN wins, the first of them
    const small_case c{{0, 3, 5, 7}, {0, 1, 2, 1, 3, 2, 4}, 5, {{1}, {NAN}, {3}, {-1}, {1}}};
    for (const auto op : {quipu::reduce::max, quipu::reduce::min}) {
      const auto out = run_small<float>(runner, c, op);
      REQUIRE(std::isnan(quipu::widen(out.output.at(0, 0))));
      REQUIRE(std::isnan(quipu::widen(out.output.at(1, 0))));
      REQUIRE(out.output.at(2, 0) == (op == quipu::reduce::max ? 3.0f : 1.0f));
      REQUIRE(out.edges == positions{1, 3, op == quipu::reduce::max ? 5 : 6});
    }
  }
  check_first_nan<float>(runner);
  check_first_nan<quipu::float16>(runner);
  check_first_nan<quipu::bfloat16>(runner);
  {  // K14: rows of nothing but infinities
    const small_case c{
        {0, 3, 5, 6}, {0, 1, 2, 3, 3, 4}, 5, {{-inf}, {-inf}, {-inf}, {inf}, {-inf}}};
    for (const auto op : {quipu::reduce::max, quipu::reduce::min}) {
      for (const std::int32_t slice : {0, 1, 2}) {
        const auto out = run_small<float>(runner, c, op, nullptr, small_slices(slice));
        REQUIRE(values_of(out.output) == numbers{-inf, inf, -inf});
        REQUIRE(out.edges == positions{0, 3, 5});
      }
    }
  }
  {  // K52: -0 equals +0; the first edge wins and its bits are kept
    const small_case c{{0, 2, 4, 6}, {0, 1, 1, 0, 2, 1}, 3, {{-0.0}, {0.0}, {-0.0}}};
    for (const auto op : {quipu::reduce::max, quipu::reduce::min}) {
      const auto out = run_small<float>(runner, c, op);
      REQUIRE(out.edges == positions{0, 2, 4});
      REQUIRE(std::signbit(out.output.at(0, 0)));
      REQUIRE(!std::signbit(out.output.at(1, 0)));
      REQUIRE(std::signbit(out.output.at(2, 0)));
    }
  }
}

/// 16-bit sums and counts do not fit the storage type on the way.
template <class Runner>
void check_narrow_types(const Runner& runner) {
  const auto star = [&](std::int64_t edges, double value, std::int64_t width, quipu::reduce op) {
    oracle::graph g;
    g.rows = 1;
    g.columns = 1;
    g.indices.assign(static_cast<std::size_t>(edges), 0);
    g.offsets.push_back(edges);
    return runner(stored_graph<std::int32_t, std::int32_t>(g),
                  stored_matrix<quipu::float16>(oracle::matrix(1, width, value)),
                  stored_matrix<quipu::float16>(oracle::matrix(1, width, 0.0)), op, {}, {});
  };
  // K16: 6000 ones
  REQUIRE(values_of(star(6000, 1, 32, quipu::reduce::sum).output) == numbers(32, 6000.0));
  REQUIRE(values_of(star(6000, 1, 32, quipu::reduce::mean).output) == numbers(32, 1.0));
  REQUIRE(values_of(star(6000, 1, 32, quipu::reduce::max).output) == numbers(32, 1.0));
  // K18: 70000 twos, more than fp16 can count
  REQUIRE(values_of(star(70000, 2, 1, quipu::reduce::mean).output) == numbers{2.0});
  REQUIRE(std::isinf(values_of(star(70000, 2, 1, quipu::reduce::sum).output)[0]));
}

template <class Runner>
void check_multigraphs(const Runner& runner) {
  {  // K20: more edges than the matrix has cells
    const small_case c{{0, 0, 5}, {0, 0, 0, 0, 0}, 2, {{1, 2, 3, 4, 5}, {9, 9, 9, 9, 9}}};
    REQUIRE(values_of(run_small<float>(runner, c, quipu::reduce::sum).output) ==
            numbers{0, 0, 0, 0, 0, 5, 10, 15, 20, 25});
  }
  {  // C01: parallel edges with weights
    const small_case c{
        {0, 1, 2, 5}, {3, 1, 0, 1, 1}, 4, {{1}, {10}, {100}, {1000}}, {2, 16, 8, 1, 4}};
    REQUIRE(values_of(run_small<float>(runner, c, quipu::reduce::sum).output) ==
            numbers{2000, 160, 58});
  }
  {  // C29: columns out of order are legal
    const small_case c{{0, 3, 5}, {2, 0, 1, 3, 1}, 4, {{1}, {10}, {100}, {1000}}, {1, 2, 3, 4, 5}};
    REQUIRE(values_of(run_small<float>(runner, c, quipu::reduce::sum).output) ==
            numbers{132, 4050});
    const auto max = run_small<float>(runner, c, quipu::reduce::max);
    REQUIRE(values_of(max.output) == numbers{100, 1000});
    REQUIRE(max.edges == positions{0, 3});
  }
}

template <class Runner>
void check_public_cases(const Runner& runner) {
  check_empty_rows(runner);
  check_ties(runner);
  check_special_values(runner);
  check_narrow_types(runner);
  check_multigraphs(runner);
  {  // K24: a column does not depend on its neighbours
    const auto g = random_graph(41, 30, 30, 7, 40, true);
    const auto x = random_matrix(42, 30, 6);
    const auto whole =
        runner(stored_graph<std::int32_t, std::int32_t>(g), stored_matrix<float>(x),
               stored_matrix<float>(random_matrix(43, 30, 6)), quipu::reduce::sum, {}, {});
    for (std::int64_t width = 1; width < 6; ++width) {
      oracle::matrix part(30, width), gradient(30, width);
      for (std::int64_t i = 0; i < 30; ++i)
        for (std::int64_t f = 0; f < width; ++f) part.at(i, f) = x.at(i, f);
      const auto some =
          runner(stored_graph<std::int32_t, std::int32_t>(g), stored_matrix<float>(part),
                 stored_matrix<float>(gradient), quipu::reduce::sum, {}, {});
      for (std::int64_t i = 0; i < 30; ++i)
        for (std::int64_t f = 0; f < width; ++f)
          REQUIRE(some.output.at(i, f) == whole.output.at(i, f));
    }
  }
}

}  // namespace test
