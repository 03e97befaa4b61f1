// SPDX-License-Identifier: Apache-2.0
#include "quipu/math/reduction.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace {

using quipu::extremum;
using quipu::no_edge;

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::nanf("");

/// What a row of minima or maxima keeps.
struct winner {
  float best;
  std::uint32_t position;
  bool operator==(const winner& o) const {
    return std::bit_cast<std::uint32_t>(best) == std::bit_cast<std::uint32_t>(o.best) &&
           position == o.position;
  }
};

/// The state of one element, or of the edges that follow, behind `first`.
template <extremum E>
winner merge(const winner& first, const winner& next) {
  return quipu::replaces<E>(next.best, first.best) ? next : first;
}

template <extremum E>
winner fold(const std::vector<float>& values, std::size_t begin, std::size_t end) {
  winner w{quipu::worst<E, float>(), no_edge};
  for (auto k = begin; k < end; ++k) {
    w = merge<E>(w, {values[k], static_cast<std::uint32_t>(k)});
  }
  return w;
}

/// The first NaN, else the first of the best.
template <extremum E>
std::uint32_t first_winner(const std::vector<float>& values) {
  std::size_t best = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (std::isnan(values[k])) return static_cast<std::uint32_t>(k);
    const bool ahead = E == extremum::max ? values[k] > values[best] : values[k] < values[best];
    if (ahead) best = k;
  }
  return values.empty() ? no_edge : static_cast<std::uint32_t>(best);
}

template <extremum E>
winner whole(const std::vector<float>& values) {
  auto w = fold<E>(values, 0, values.size());
  w.position = quipu::resolve_first(w.position, static_cast<std::int64_t>(values.size()));
  return w;
}

template <extremum E>
void check_all_cuts(const std::vector<float>& values) {
  const auto n = values.size();
  const auto all = fold<E>(values, 0, n);
  for (std::size_t i = 0; i <= n; ++i) {
    for (std::size_t j = i; j <= n; ++j) {
      const auto a = fold<E>(values, 0, i), b = fold<E>(values, i, j), c = fold<E>(values, j, n);
      CHECK(merge<E>(merge<E>(a, b), c) == all);
      CHECK(merge<E>(a, merge<E>(b, c)) == all);
    }
  }
  CHECK(whole<E>(values).position == first_winner<E>(values));
}

}  // namespace

TEST_CASE("rows may be cut anywhere and merged in any grouping", "[reduction]") {
  const std::vector<float> few{-infinity, -1,       -0.0f,        0.0f,
                               1,         infinity, not_a_number, -not_a_number};
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> values(random() % 8);
    const std::size_t kinds = round % 3 == 0 ? 2 : few.size() - 2 * (round % 2);
    for (auto& v : values) v = few[random() % kinds];
    check_all_cuts<extremum::max>(values);
    for (auto& v : values) v = -v;
    check_all_cuts<extremum::min>(values);
  }
}

TEST_CASE("the first of equals wins", "[reduction]") {
  CHECK(whole<extremum::max>({1, 3, 3, 2}).position == 1);
  CHECK(whole<extremum::min>({4, 2, 2, 3}).position == 1);
  CHECK(whole<extremum::max>({-0.0f, 0.0f}) == winner{-0.0f, 0});
  CHECK(whole<extremum::min>({0.0f, -0.0f}) == winner{0.0f, 0});
}

TEST_CASE("the first NaN wins over everything", "[reduction]") {
  CHECK(whole<extremum::max>({1, not_a_number, infinity}).position == 1);
  CHECK(whole<extremum::min>({-infinity, not_a_number, not_a_number}).position == 1);
  CHECK(std::isnan(whole<extremum::max>({not_a_number}).best));
}

TEST_CASE("a row of nothing but the identity has its first element win", "[reduction]") {
  CHECK(whole<extremum::max>({-infinity, -infinity}) == winner{-infinity, 0});
  CHECK(whole<extremum::min>({infinity}) == winner{infinity, 0});
  CHECK(whole<extremum::max>({}).position == no_edge);
}

TEST_CASE("better never prefers equals or NaN", "[reduction]") {
  CHECK(quipu::better<extremum::max>(2.0f, 1.0f));
  CHECK(quipu::better<extremum::min>(1.0f, 2.0f));
  CHECK_FALSE(quipu::better<extremum::max>(1.0f, 1.0f));
  CHECK_FALSE(quipu::better<extremum::max>(not_a_number, 1.0f));
  CHECK_FALSE(quipu::better<extremum::min>(1.0f, not_a_number));
}
