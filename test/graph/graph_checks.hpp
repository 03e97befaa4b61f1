// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <set>

#include "quipu/graph/make_graph.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"
#include "support/random_graph.hpp"

namespace test {

/// An edge list in input order.
struct edge_list {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int32_t> row, column;
  std::vector<float> weight = {};

  quipu::coo_view<std::int32_t> view() const {
    return {rows,       columns,       static_cast<std::int64_t>(row.size()),
            row.data(), column.data(), weight.empty() ? nullptr : weight.data()};
  }
};

/// Everything of a built graph, on the host, in plain vectors.
template <class O>
struct built {
  quipu::graph<std::int32_t, O> graph;  // host memory
  std::vector<std::int64_t> offsets, indices, edge_ids, edge_map, reverse_offsets, reverse_indices;
  std::vector<float> weights;

  explicit built(quipu::graph<std::int32_t, O> g) : graph(std::move(g)) {
    const auto v = graph.view();
    const auto& f = v.forward.csr;
    offsets.assign(f.offsets, f.offsets + f.rows + 1);
    if (f.edges > 0) indices.assign(f.indices, f.indices + f.edges);
    if (f.weights != nullptr) weights.assign(f.weights, f.weights + f.edges);
    for (std::int64_t k = 0; k < f.edges; ++k) {
      edge_ids.push_back(graph.edge_ids() != nullptr ? graph.edge_ids()[k] : k);
    }
    if (!v.has_reverse()) return;
    const auto& r = v.reverse.csr;
    reverse_offsets.assign(r.offsets, r.offsets + r.rows + 1);
    for (std::int64_t k = 0; k < r.edges; ++k) {
      reverse_indices.push_back(r.indices[k]);
      edge_map.push_back(v.edge_map[k]);
    }
  }
};

/// Builds on the host.
struct host_builder {
  template <class O>
  quipu::result<quipu::graph<std::int32_t, O>> make(const edge_list& e,
                                                    const quipu::graph_options& o) const {
    return quipu::make_graph<std::int32_t, O>(quipu::host_context{1}, e.view(), o);
  }
};

/// Builds on the device and brings the graph home.
struct device_builder {
  template <class O>
  quipu::result<quipu::graph<std::int32_t, O>> make(const edge_list& e,
                                                    const quipu::graph_options& o) const {
    using namespace quipu;
    const auto ctx = device_context();
    const auto row = check(to_device(ctx, e.row));
    const auto column = check(to_device(ctx, e.column));
    const auto weight = check(to_device(ctx, e.weight));
    auto view = e.view();
    view.row = row.data();
    view.column = column.data();
    view.weights = weight.data();
    auto made = make_graph<std::int32_t, O>(ctx, view, o);
    if (!made) return made.error();
    return to_host(ctx, *made);
  }
};

/// Every edge lies in exactly one slice, every row is visited, split rows come first, by length.
template <class O>
void require_schedule(const quipu::direction_view<std::int32_t, O>& d) {
  const auto& s = d.schedule;
  std::vector<int> seen(static_cast<std::size_t>(d.csr.edges), 0);
  std::vector<int> rows(static_cast<std::size_t>(d.csr.rows), 0);
  bool sound = true;
  std::int64_t longest = 0, empty = 0;
  std::vector<std::int64_t> shortest(static_cast<std::size_t>(s.split_row_count()), s.slice_edges);
  std::vector<std::int64_t> longest_slice(shortest.size(), 0);
  for (std::int64_t i = 0; i < s.slice_count; ++i) {
    const auto& slice = s.slices[i];
    sound &= slice.begin >= d.csr.offsets[slice.row];
    sound &= slice.begin + slice.count <= d.csr.offsets[slice.row + 1];
    sound &= slice.count <= s.slice_edges;
    for (std::int64_t k = 0; k < slice.count; ++k) ++seen[slice.begin + k];
    if (i < s.split_slice_count()) {
      const auto number = s.split_of[i];
      const auto& split = s.split_rows[number];
      const auto first = i == split.first, last = i + 1 == split.first + s.slices_of(split);
      sound &= split.row == slice.row && i >= split.first && i < split.first + s.slices_of(split);
      sound &= slice.begin == (first ? split.begin : s.slices[i - 1].begin + s.slices[i - 1].count);
      sound &= !last || slice.begin + slice.count == split.begin + split.degree;
      shortest[number] = std::min<std::int64_t>(shortest[number], slice.count);
      longest_slice[number] = std::max<std::int64_t>(longest_slice[number], slice.count);
    } else {
      ++rows[slice.row];
      sound &= slice.count == d.csr.offsets[slice.row + 1] - d.csr.offsets[slice.row];
    }
  }
  // Rows of more than 8 slices, of 8, of 4 and of 2 follow each other, on borders of their lengths.
  std::int64_t most = -1, next = 0;
  for (std::int64_t r = 0; r < s.split_row_count(); ++r) {
    const auto& split = s.split_rows[r];
    const auto slices = s.slices_of(split), length = std::min<std::int64_t>(slices, 16);
    ++rows[split.row];
    sound &= slices == 2 || slices == 4 || slices % 8 == 0;
    sound &= split.first == next && split.first % std::min<std::int64_t>(slices, 8) == 0;
    sound &= r == 0 || length <= most;
    sound &= longest_slice[r] - shortest[r] <= 1;
    for (const int span : {1, 2, 4, 8}) {
      sound &= (r < s.longer_than(span).rows) == (slices > span);
      sound &= (split.first < s.longer_than(span).slices) == (slices > span);
    }
    most = length;
    next += slices;
  }
  sound &= next == s.split_slice_count();
  for (std::int64_t r = 0; r < d.csr.rows; ++r) {
    const std::int64_t degree = d.csr.offsets[r + 1] - d.csr.offsets[r];
    longest = std::max(longest, degree);
    empty += degree == 0;
  }
  REQUIRE(sound);
  REQUIRE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
  REQUIRE(std::all_of(rows.begin(), rows.end(), [](int n) { return n == 1; }));
  REQUIRE(d.degrees.max_degree == longest);
  REQUIRE(d.degrees.empty_rows == empty);
}

/// The reverse holds the same edges: each once, sorted by sender, mapped to its forward position.
template <class O>
void require_reverse(const built<O>& b) {
  const auto v = b.graph.view();
  std::vector<int> mapped(b.indices.size(), 0);
  bool sound = true;
  for (std::int64_t j = 0; j < v.columns(); ++j) {
    for (auto k = b.reverse_offsets[j]; k < b.reverse_offsets[j + 1]; ++k) {
      const auto edge = b.edge_map[k];
      ++mapped[edge];
      sound &= b.indices[edge] == j;
      const auto row = b.reverse_indices[k];
      sound &= edge >= b.offsets[row] && edge < b.offsets[row + 1];
      sound &= k == b.reverse_offsets[j] || b.edge_map[k - 1] < edge;
    }
  }
  REQUIRE(sound);
  REQUIRE(std::all_of(mapped.begin(), mapped.end(), [](int n) { return n == 1; }));
}

using ids = std::vector<std::int64_t>;

template <class Builder>
void check_public_graphs(const Builder& builder) {
  using quipu::edge_option;
  const auto build = [&](const edge_list& e, const quipu::graph_options& o = {}) {
    built<std::int32_t> b(quipu::check(builder.template make<std::int32_t>(e, o)));
    require_schedule(b.graph.view().forward);
    if (b.graph.view().has_reverse()) {
      require_schedule(b.graph.view().reverse);
      require_reverse(b);
    }
    return b;
  };
  {  // C01: parallel edges stay, in input order, with their ids
    const edge_list e{3, 4, {2, 0, 2, 2, 1}, {1, 3, 1, 0, 1}, {1, 2, 4, 8, 16}};
    const auto b = build(e);
    REQUIRE(b.offsets == ids{0, 1, 2, 5});
    REQUIRE(b.indices == ids{3, 1, 0, 1, 1});
    REQUIRE(b.edge_ids == ids{1, 4, 3, 0, 2});
    REQUIRE(b.weights == std::vector<float>{2, 16, 8, 1, 4});
    REQUIRE(b.reverse_offsets == ids{0, 1, 4, 4, 5});
    REQUIRE(b.reverse_indices == ids{2, 1, 2, 2, 0});
    REQUIRE(b.edge_map == ids{2, 1, 3, 4, 0});
    quipu::graph_options o;
    o.coalesce = edge_option::apply;
    const auto c = build(e, o);
    REQUIRE(c.offsets == ids{0, 1, 2, 4});
    REQUIRE(c.indices == ids{3, 1, 0, 1});
    REQUIRE(c.weights == std::vector<float>{2, 16, 8, 5});
  }
  {  // C07: input sorted by column
    const edge_list e{3, 3, {0, 0, 1, 0, 1, 2}, {0, 1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6}};
    const auto b = build(e);
    REQUIRE(b.offsets == ids{0, 3, 5, 6});
    REQUIRE(b.weights == std::vector<float>{1, 2, 4, 3, 5, 6});
    REQUIRE(b.edge_ids == ids{0, 1, 3, 2, 4, 5});
  }
  {  // C09: row * columns + column passes 2^32
    const edge_list e{100000, 100000, {99999, 42949, 0, 50000, 0}, {99999, 67297, 1, 3, 0}};
    REQUIRE(build(e).edge_ids == ids{4, 2, 1, 3, 0});
    quipu::graph_options o;
    o.coalesce = edge_option::apply;
    REQUIRE(build(e, o).indices.size() == 5);
  }
  {  // C25: isolated nodes stay
    const auto b = build({6, 6, {5, 2}, {0, 5}});
    REQUIRE(b.offsets == ids{0, 0, 0, 1, 1, 1, 2});
    REQUIRE(b.indices == ids{5, 0});
  }
  {  // C27: nothing is removed unasked
    const edge_list e{2, 2, {1, 1, 1, 0}, {1, 0, 0, 1}};
    REQUIRE(build(e).indices.size() == 4);
    quipu::graph_options loops, doubles, both;
    loops.remove_self_loops = both.remove_self_loops = edge_option::apply;
    doubles.coalesce = both.coalesce = edge_option::apply;
    REQUIRE(build(e, loops).indices.size() == 3);
    REQUIRE(build(e, doubles).indices.size() == 3);
    REQUIRE(build(e, both).indices.size() == 2);
  }
  {  // A13: self loops of a bipartite graph reach the shorter side only
    quipu::graph_options o;
    o.add_self_loops = edge_option::apply;
    const auto b = build({7, 3, {6, 0, 3}, {0, 2, 1}}, o);
    REQUIRE(b.indices.size() == 6);
    REQUIRE(b.offsets == ids{0, 2, 3, 4, 5, 5, 5, 6});
    REQUIRE(std::count(b.edge_ids.begin(), b.edge_ids.end(), -1) == 3);
    const auto again = build({3, 3, {1, 0}, {1, 2}}, o);  // (1, 1) is there already
    REQUIRE(again.indices == ids{0, 2, 1, 2});
  }
  {  // symmetrise mirrors each edge once, loops not at all
    quipu::graph_options o;
    o.symmetrise = edge_option::apply;
    const auto b = build({3, 3, {0, 1, 2}, {1, 1, 0}, {3, 5, 7}}, o);
    REQUIRE(b.indices == ids{1, 2, 0, 1, 0});
    REQUIRE(b.weights == std::vector<float>{3, 7, 3, 5, 7});
  }
  {  // nothing at all
    REQUIRE(build({0, 0, {}, {}}).offsets == ids{0});
    REQUIRE(build({5, 0, {}, {}}).offsets == ids(6, 0));
    REQUIRE(build({0, 5, {}, {}}).reverse_offsets == ids(6, 0));
  }
}

template <class Builder>
void check_bad_edges(const Builder& builder) {  // C11, C13, K55
  const auto refused = [&](const edge_list& e, std::int64_t position, const char* word) {
    const auto made = builder.template make<std::int32_t>(e, {});
    REQUIRE(!made);
    INFO(made.error().message);
    REQUIRE(made.error().position == position);
    REQUIRE(std::string(made.error().message).find(word) != std::string::npos);
    REQUIRE(builder.template make<std::int32_t>({1, 1, {0}, {0}}, {}).ok());
  };
  edge_list e{4, 5, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}};
  e.row[9] = 46;
  refused(e, 9, "row");
  e.row[9] = 1;
  e.column[3] = 5;
  refused(e, 3, "column");
  e.column[3] = 3;
  e.row[0] = 4;
  refused(e, 0, "row");
  refused({4, 4, {0, -7, 3}, {1, 2, -1}}, 1, "negative");
  REQUIRE(!builder.template make<std::int32_t>({-1, 4, {}, {}}, {}));
  quipu::graph_options o;
  o.symmetrise = quipu::edge_option::apply;
  REQUIRE(!builder.template make<std::int32_t>({3, 4, {}, {}}, o));
}

}  // namespace test
