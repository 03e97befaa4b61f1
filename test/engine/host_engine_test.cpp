// SPDX-License-Identifier: Apache-2.0
#include "quipu/engine/host_engine.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "engine/trail_program.hpp"
#include "quipu/graph/make_graph.hpp"
#include "support/catch.hpp"
#include "support/problem.hpp"
#include "support/random_graph.hpp"

namespace {

using quipu::host_context;
using test::node_id;
using test::trail_program;

/// Counts the edges of each row by slices; fails where asked to.
struct counting_program {
  template <class Tile>
  struct state {
    std::int64_t visited = 0;
    std::int64_t settled = 0;
  };

  std::int64_t* visited;  // [rows]
  std::int64_t* settled;  // [rows]
  node_id failing_row = -1;

  template <class Tile>
  state<Tile> init(const quipu::lane_position<Tile>&, const quipu::row_edges<node_id>&) const {
    return {};
  }
  template <class Tile, class Batch>
  void visit(const quipu::lane_position<Tile>&, state<Tile>& s, const Batch& batch) const {
    for (int u = 0; u < Batch::size; ++u) s.visited += batch.valid(u);
  }
  template <class Tile>
  void settle(const quipu::lane_position<Tile>&, state<Tile>& s,
              const quipu::slice_edges& edges) const {
    s.settled += edges.count;
  }
  template <class Tile>
  void merge(const quipu::lane_position<Tile>&, state<Tile>& s, const state<Tile>& next) const {
    s.visited += next.visited;
    s.settled += next.settled;
  }
  template <class Tile>
  void finish(const quipu::lane_position<Tile>&, const quipu::row_edges<node_id>& row,
              const state<Tile>& s) const {
    if (row.row == failing_row) throw std::runtime_error("as asked");
    visited[row.row] += s.visited;
    settled[row.row] += s.settled;
  }
};

/// Goes wrong in slices that have an edge from sender 3.
struct careful_program : counting_program {
  std::int64_t* careful;  // [edges], how often an edge was visited with care
  template <class Tile>
  using at = quipu::lane_position<Tile>;

  template <class Tile, class Batch>
  void visit(const at<Tile>& where, state<Tile>& s, const Batch& batch) const {
    counting_program::visit(where, s, batch);
    for (int u = 0; u < Batch::size; ++u) {
      if (batch.valid(u) && batch.columns[u] == 3) s.visited += 1'000'000;
    }
  }
  template <class Tile>
  bool start_again(const at<Tile>&, state<Tile>& s) const {
    if (s.visited < 1'000'000) return false;
    s = {};
    return true;
  }
  template <class Tile, class Batch>
  void visit_with_care(const at<Tile>&, state<Tile>& s, const Batch& batch) const {
    static_assert(Batch::size == 1);
    s.visited += 1;
    careful[batch.edge(0)] += 1;
  }
};

struct problem {
  problem(const oracle::graph& g, std::int64_t width)
      : stored(g), x(test::random_matrix(11, g.columns, width, test::filling::integers)) {}

  quipu::graph<node_id, node_id> build(std::int32_t slice_edges) const {
    return quipu::check(
        quipu::make_graph(host_context{1}, stored.view(), test::small_slices(slice_edges)));
  }

  template <int Unroll>
  std::vector<std::uint64_t> run(std::int32_t slice_edges, std::int32_t threads) const {
    const auto graph = build(slice_edges);
    // Every element must be written once: what is added twice or not at all shows.
    std::vector<std::uint64_t> y(static_cast<std::size_t>(stored.rows * x.width), 0);
    const quipu::dense_rows<float> rows(
        quipu::make_matrix_view(x.data.data(), stored.columns, x.width));
    quipu::check(quipu::traverse<Unroll>(host_context{threads}, trail_program{y.data()}, rows,
                                         graph.view().forward, x.width));
    return y;
  }

  /// The same by one loop over the graph as it was built.
  std::vector<std::uint64_t> expected() const {
    const auto graph = build(1 << 20);
    const auto csr = graph.view().forward.csr;
    std::vector<std::uint64_t> y;
    for (std::int64_t i = 0; i < csr.rows; ++i) {
      for (std::int64_t f = 0; f < x.width; ++f) {
        std::uint64_t total = 1;
        for (auto k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
          const auto position = static_cast<std::uint32_t>(k - csr.offsets[i]);
          total = 31 * total +
                  trail_program::value(x.at(csr.indices[k], f), k, position, csr.indices[k]);
        }
        y.push_back(total);
      }
    }
    return y;
  }

  test::stored_graph<node_id, node_id> stored;
  test::stored_matrix<float> x;
};

}  // namespace

TEST_CASE("split rows give what whole rows give, on any number of threads", "[engine]") {
  for (const auto& [name, graph] : test::graph_zoo()) {
    for (const std::int64_t width : {1, 7, 8, 45}) {
      CAPTURE(name, width);
      const problem p(graph, width);
      const auto want = p.expected();
      CHECK(p.run<4>(1 << 20, 1) == want);
      CHECK(p.run<4>(16, 1) == want);
      CHECK(p.run<4>(16, 3) == want);
      CHECK(p.run<1>(7, 2) == want);
      CHECK(p.run<5>(33, 0) == want);
    }
  }
}

TEST_CASE("a program sees every edge once and settles every slice", "[engine]") {
  const auto g = test::random_graph(9, 500, 400, 6, 1000);
  const test::stored_graph<node_id, node_id> stored(g);
  const auto graph =
      quipu::check(quipu::make_graph(host_context{1}, stored.view(), test::small_slices(32)));
  std::vector<std::int64_t> visited(500), settled(500), degrees;
  quipu::check(quipu::traverse<4>(host_context{2}, counting_program{visited.data(), settled.data()},
                                  quipu::no_rows{}, graph.view().forward, 1));
  for (std::size_t i = 0; i < 500; ++i) degrees.push_back(g.offsets[i + 1] - g.offsets[i]);
  CHECK(visited == degrees);
  CHECK(settled == degrees);
}

TEST_CASE("a slice that went wrong is visited again with care", "[engine]") {
  const auto g = test::random_graph(10, 300, 40, 6, 500);
  const test::stored_graph<node_id, node_id> stored(g);
  const auto graph =
      quipu::check(quipu::make_graph(host_context{1}, stored.view(), test::small_slices(16)));
  std::vector<std::int64_t> visited(300), settled(300), careful(g.indices.size()), wanted;
  quipu::check(quipu::traverse<4>(host_context{2},
                                  careful_program{{visited.data(), settled.data()}, careful.data()},
                                  quipu::no_rows{}, graph.view().forward, 1));
  for (std::size_t i = 0; i < 300; ++i) {
    const auto begin = g.offsets[i], degree = g.offsets[i + 1] - begin;
    CHECK(visited[i] == degree);
    CHECK(settled[i] == degree);
    const auto slices = degree > 16 ? quipu::count_slices(degree, 16) : 1;
    for (std::int64_t k = 0; k < slices; ++k) {
      const auto first = k * (degree / slices) + std::min(k, degree % slices);
      const auto last = first + degree / slices + (k < degree % slices ? 1 : 0);
      const auto* ids = g.indices.data() + begin;
      const bool wrong = std::find(ids + first, ids + last, 3) != ids + last;
      wanted.insert(wanted.end(), static_cast<std::size_t>(last - first), wrong);
    }
  }
  CHECK(careful == wanted);
}

TEST_CASE("a program that throws ends the call with a failure", "[engine]") {
  const test::stored_graph<node_id, node_id> stored(test::random_graph(9, 2000, 400, 3));
  const auto graph =
      quipu::check(quipu::make_graph(host_context{1}, stored.view(), test::small_slices(32)));
  std::vector<std::int64_t> visited(2000), settled(2000);
  const counting_program program{visited.data(), settled.data(), 1234};
  for (const int threads : {1, 4}) {
    const auto s = quipu::traverse<4>(host_context{threads}, program, quipu::no_rows{},
                                      graph.view().forward, 1);
    CHECK_FALSE(s.ok());
  }
}

TEST_CASE("no features, no calls", "[engine]") {
  const test::stored_graph<node_id, node_id> stored(test::random_graph(9, 20, 20, 3));
  const auto graph = quipu::check(quipu::make_graph(host_context{1}, stored.view()));
  CHECK(quipu::traverse<4>(host_context{1}, counting_program{nullptr, nullptr}, quipu::no_rows{},
                           graph.view().forward, 0)
            .ok());
}
