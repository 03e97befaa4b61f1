// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/synthetic.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace quipu;
using int_graph = graph<std::int32_t, std::int32_t>;

int_graph make(std::string_view text) {
  graph_options options;
  options.reverse = edge_option::keep;
  return check(make_synthetic(host_context{1}, check(parse_synthetic(text)), options));
}

std::vector<std::int64_t> degrees(const int_graph& g) {
  const auto csr = g.view().forward.csr;
  std::vector<std::int64_t> d(static_cast<std::size_t>(csr.rows));
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = csr.offsets[i + 1] - csr.offsets[i];
  return d;
}

// Share of the edges on the 1 % longest rows.
double top_share(std::vector<std::int64_t> d) {
  std::ranges::sort(d, std::greater{});
  const auto end = d.begin() + static_cast<std::ptrdiff_t>(d.size() / 100);
  return static_cast<double>(std::accumulate(d.begin(), end, std::int64_t{0})) /
         static_cast<double>(std::accumulate(d.begin(), d.end(), std::int64_t{0}));
}

std::vector<std::int32_t> column_list(const int_graph& g) {
  const auto csr = g.view().forward.csr;
  return {csr.indices, csr.indices + csr.edges};
}

bool rows_rise_without_loops(const int_graph& g) {
  const auto csr = g.view().forward.csr;
  for (std::int64_t i = 0; i < csr.rows; ++i) {
    for (auto k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
      if (csr.indices[k] == i || csr.indices[k] < 0 || csr.indices[k] >= csr.columns) return false;
      if (k > csr.offsets[i] && csr.indices[k] <= csr.indices[k - 1]) return false;
    }
  }
  return true;
}

bool is_symmetric(const int_graph& g) {
  const auto csr = g.view().forward.csr;
  for (std::int64_t i = 0; i < csr.rows; ++i) {
    for (auto k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
      const auto j = csr.indices[k];
      const auto* begin = csr.indices + csr.offsets[j];
      if (!std::binary_search(begin, csr.indices + csr.offsets[j + 1], i)) return false;
    }
  }
  return true;
}

double local_share(const int_graph& g, std::int64_t community) {
  const auto csr = g.view().forward.csr;
  std::int64_t local = 0;
  for (std::int64_t i = 0; i < csr.rows; ++i) {
    for (auto k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
      local += csr.indices[k] / community == i / community;
    }
  }
  return static_cast<double>(local) / static_cast<double>(csr.edges);
}

status made(const synthetic_shape& shape) {
  return make_synthetic(host_context{1}, synthetic_request{shape, {}}).error();
}

}  // namespace

TEST_CASE("a request is a name and options", "[synthetic]") {
  const auto plain = check(parse_synthetic("arxiv_like"));
  CHECK(plain.shape.nodes == 169'343);
  CHECK(plain.options.seed == 0);
  CHECK(plain.options.skew == degree_skew::as_named);
  const auto full = check(parse_synthetic("cora,seed=18446744073709551615,flat"));
  CHECK(full.shape.name == "cora");
  CHECK(full.options.seed == 18'446'744'073'709'551'615u);
  CHECK(full.options.skew == degree_skew::flat);
  for (const char* bad :
       {"", "nobody", "cora,", "cora,,flat", "cora,seed=", "cora,seed=-1", "cora,seed=1x",
        "cora,seed=18446744073709551616", "cora,round", ",flat"}) {
    CAPTURE(bad);
    CHECK(parse_synthetic(bad).error().code == status_code::invalid_argument);
  }
}

TEST_CASE("every shape has a name of its own and counts that fit", "[synthetic]") {
  std::set<std::string> names;
  for (const auto& shape : synthetic_shapes()) {
    CAPTURE(std::string(shape.name));
    CHECK(names.insert(std::string(shape.name)).second);
    CHECK(shape.max_degree < shape.nodes);
    CHECK((shape.symmetry == edge_symmetry::directed || shape.edges % 2 == 0));
    CHECK(check(parse_synthetic(shape.name)).shape.edges == shape.edges);
  }
  CHECK(names.size() == 27);
}

TEST_CASE("small shapes keep their promises", "[synthetic]") {
  for (const auto& shape : synthetic_shapes()) {
    if (shape.edges > 3'000'000) continue;
    for (const char* options : {"", ",seed=5", ",flat"}) {
      const auto text = std::string(shape.name) + options;
      CAPTURE(text);
      const auto g = make(text);
      const auto d = degrees(g);
      CHECK(g.view().rows() == shape.nodes);
      CHECK(g.view().edges() == shape.edges);
      CHECK(rows_rise_without_loops(g));
      if (shape.symmetry == edge_symmetry::symmetric) CHECK(is_symmetric(g));
      const bool is_flat = text.ends_with("flat");
      if (shape.longest == longest_row::planted && !is_flat) {
        CHECK(*std::ranges::max_element(d) == shape.max_degree);
      }
      CHECK(local_share(g, shape.community) > 0.55 * shape.locality);
    }
  }
}

TEST_CASE("degrees follow the graphs that a shape stands for", "[synthetic]") {
  const auto longest = [](std::string_view name) {
    return static_cast<double>(std::ranges::max(degrees(make(name))));
  };
  // Figures of docs/performance.md. The longest row is random: it may miss by 15 %.
  CHECK(longest("arxiv_like") == Approx(6'119).epsilon(0.15));
  CHECK(longest("reviews_like") == Approx(1'854).epsilon(0.15));
  CHECK(longest("tolokers_like") == Approx(1'913).epsilon(0.15));
  CHECK(longest("roads_like") == Approx(20).epsilon(0.15));
  CHECK(top_share(degrees(make("ogbn-arxiv"))) == Approx(0.35).epsilon(0.1));
  CHECK(top_share(degrees(make("city-reviews"))) == Approx(0.20).epsilon(0.1));
  CHECK(top_share(degrees(make("arxiv_like,flat"))) < 0.02);
}

TEST_CASE("the seed decides every edge", "[synthetic]") {
  CHECK(column_list(make("cora,seed=3")) == column_list(make("cora,seed=3")));
  CHECK(column_list(make("cora,seed=3")) != column_list(make("cora,seed=4")));
  CHECK(column_list(make("cora,seed=0")) == column_list(make("cora")));
}

TEST_CASE("a web graph has one long row and many empty ones", "[synthetic][slow]") {
  const auto d = degrees(make("web-fraud"));
  CHECK(std::ranges::count(d, 228'990) == 1);
  CHECK(std::ranges::max(d) == 228'990);
  CHECK(std::ranges::count(d, 0) > 500'000);
}

TEST_CASE("shapes of your own, down to the smallest", "[synthetic]") {
  synthetic_shape pair{"pair", 2, 2, 1};
  const auto g = check(make_synthetic(host_context{1}, synthetic_request{pair, {}}));
  CHECK(column_list(g) == std::vector<std::int32_t>{1, 0});
  synthetic_shape full{"full", 8, 56, 7, 0, 0.5, 3};
  CHECK(degrees(check(make_synthetic(host_context{1}, synthetic_request{full, {}}))) ==
        std::vector<std::int64_t>(8, 7));
  synthetic_shape star{"star", 50, 98, 49, 0, 0, 1, edge_symmetry::symmetric, longest_row::planted};
  CHECK(std::ranges::max(
            degrees(check(make_synthetic(host_context{1}, synthetic_request{star, {}})))) == 49);
}

TEST_CASE("shapes that no graph can have are refused", "[synthetic]") {
  const synthetic_shape good{"good", 100, 200, 20, 2.0, 0.5, 10};
  CHECK(made(good).ok());
  const auto refuses = [&](auto change) {
    auto shape = good;
    change(shape);
    return made(shape).code == status_code::invalid_argument;
  };
  CHECK(refuses([](auto& s) { s.nodes = 1; }));
  CHECK(refuses([](auto& s) { s.nodes = std::int64_t{1} << 31; }));
  CHECK(refuses([](auto& s) { s.edges = 0; }));
  CHECK(refuses([](auto& s) { s.edges = 201; }));
  CHECK(refuses([](auto& s) { s.edges = 9'902; }));
  CHECK(refuses([](auto& s) { s.max_degree = 100; }));
  CHECK(refuses([](auto& s) { s.tail = 0.5; }));
  CHECK(refuses([](auto& s) { s.locality = 1.5; }));
  CHECK(refuses([](auto& s) { s.community = 0; }));
  CHECK(refuses([](auto& s) { s.locality = 1, s.community = 2; }));  // 100 pairs: none left to draw
  CHECK(refuses([](auto& s) {
    s.longest = longest_row::planted;
    s.edges = 30;
  }));
}
