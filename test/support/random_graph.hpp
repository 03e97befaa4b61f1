// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/oracle.hpp"

namespace test {

/// Seeded; the same graph in every run. `hub` > 0 gives row 1 that many edges.
inline oracle::graph random_graph(std::uint64_t seed, std::int64_t rows, std::int64_t columns,
                                  double mean_degree, std::int64_t hub = 0, bool weighted = false) {
  std::mt19937_64 random(seed);
  oracle::graph g;
  g.rows = rows;
  g.columns = columns;
  std::geometric_distribution<std::int64_t> degree(1.0 / (1.0 + mean_degree));
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto edges = columns == 0 ? 0 : hub > 0 && i == 1 ? hub : degree(random);
    for (std::int64_t k = 0; k < edges; ++k) {
      g.indices.push_back(
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(columns)));
    }
    g.offsets.push_back(static_cast<std::int64_t>(g.indices.size()));
  }
  if (weighted) {
    for (std::size_t k = 0; k < g.indices.size(); ++k) {
      g.weights.push_back(static_cast<double>(static_cast<float>(random() % 1000) / 250.0f - 2.0f));
    }
  }
  return g;
}

/// Standard normal values, or small integers that every type holds exactly.
enum class filling { normal, integers };
inline oracle::matrix random_matrix(std::uint64_t seed, std::int64_t rows, std::int64_t width,
                                    filling how = filling::normal) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  oracle::matrix m(rows, width);
  for (double& v : m.values) {
    v = how == filling::normal ? normal(random) : static_cast<double>(random() % 13) - 6.0;
  }
  return m;
}

struct named_graph {
  std::string name;
  oracle::graph graph;
};

/// Shapes that break things: nothing, one row, empty rows, a hub, bipartite both ways.
inline std::vector<named_graph> graph_zoo() {
  std::vector<named_graph> zoo;
  zoo.push_back({"no rows", random_graph(1, 0, 3, 2)});
  zoo.push_back({"no edges", random_graph(1, 4, 0, 2)});
  zoo.push_back({"one isolated row", random_graph(1, 1, 1, 0)});
  zoo.push_back({"one row with all edges", random_graph(2, 2, 50, 0, 3001)});
  zoo.push_back({"low degrees", random_graph(3, 700, 500, 3)});
  zoo.push_back({"hub among many", random_graph(4, 300, 400, 9, 1500)});
  zoo.push_back({"more senders", random_graph(5, 40, 900, 40)});
  zoo.push_back({"more receivers", random_graph(6, 900, 7, 2)});
  // Lengths around the longest row whose winners fit a byte; some senders twice.
  oracle::graph border;
  border.rows = 8;
  border.columns = 600;
  for (std::int64_t i = 0; i < border.rows; ++i) {
    for (std::int64_t k = 0; k < 252 + i; ++k) {
      border.indices.push_back((i * 71 + k * k * 13 + 300) % 600);
    }
    border.offsets.push_back(static_cast<std::int64_t>(border.indices.size()));
  }
  zoo.push_back({"rows of 252 to 259 edges", border});
  zoo.push_back({"weighted", random_graph(7, 200, 180, 12, 600, true)});
  return zoo;
}

}  // namespace test
