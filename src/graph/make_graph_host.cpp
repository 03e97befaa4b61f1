// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include "graph/limits.hpp"
#include "graph/radix_sort.hpp"
#include "graph/scratch.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/graph/make_graph.hpp"

namespace quipu {

namespace detail {
namespace {

template <class T>
buffer<T> host_copy(const T* from, std::int64_t size) {
  auto b = require(make_host_buffer<T>(size));
  if (size > 0) std::memcpy(b.data(), from, b.bytes());
  return b;
}
template <class T>
buffer<T> host_copy(const std::vector<T>& v) {
  return host_copy(v.data(), static_cast<std::int64_t>(v.size()));
}

template <class I>
status inspect_edges(const coo_view<I>& coo) {
  if (coo.edges > 0 && coo.row == nullptr) {
    return failure(status_code::invalid_argument, "row: null");
  }
  if (coo.edges > 0 && coo.column == nullptr) {
    return failure(status_code::invalid_argument, "column: null");
  }
  for (std::int64_t k = 0; k < coo.edges; ++k) {
    if (coo.row[k] < 0 || coo.row[k] >= coo.rows) {
      return failure(status_code::out_of_range, "row: negative id or not below rows, edge", k);
    }
    if (coo.column[k] < 0 || coo.column[k] >= coo.columns) {
      return failure(status_code::out_of_range, "column: negative id or not below columns, edge",
                     k);
    }
  }
  return success();
}

/// Sorted, cleaned edges of a build: keys, the input edge of each, weights if there are any.
template <class O>
struct sorted_edges {
  std::vector<std::uint64_t> keys;
  std::vector<O> ids;
  std::vector<float> weights;
  bool reordered = false;
};

template <class I, class O>
sorted_edges<O> candidates(const coo_view<I>& coo, const graph_options& o,
                           const key_layout& layout) {
  const bool symmetrise = o.symmetrise == edge_option::apply;
  const bool drop_loops = o.remove_self_loops == edge_option::apply;
  sorted_edges<O> s;
  const auto count = static_cast<std::size_t>(candidate_edges(o, coo.rows, coo.columns, coo.edges));
  s.keys.reserve(count);
  s.ids.reserve(count);
  const auto add = [&](std::uint64_t key, std::int64_t id) {
    s.keys.push_back(key);
    s.ids.push_back(static_cast<O>(id));
  };
  for (int image = 0; image < (symmetrise ? 2 : 1); ++image) {
    for (std::int64_t k = 0; k < coo.edges; ++k) {
      auto row = static_cast<std::uint64_t>(coo.row[k]);
      auto column = static_cast<std::uint64_t>(coo.column[k]);
      if (row == column && (image == 1 || drop_loops)) continue;
      if (image == 1) std::swap(row, column);
      add(layout.key(row, column), k);
    }
  }
  if (o.add_self_loops == edge_option::apply) {
    for (std::int64_t i = 0; i < std::min(coo.rows, coo.columns); ++i) {
      const auto node = static_cast<std::uint64_t>(i);
      add(layout.key(node, node), -1);
    }
  }
  return s;
}

/// Drops repeated edges (when coalescing) and added loops that were there already, in place.
template <class O>
void drop_repeats(sorted_edges<O>& s, const float* weights, bool coalesce) {
  const auto weight = [&](O id) { return id < 0 || weights == nullptr ? 1.0f : weights[id]; };
  std::size_t to = 0;
  for (std::size_t k = 0; k < s.keys.size(); ++k) {
    const bool repeats = to > 0 && s.keys[to - 1] == s.keys[k];
    if (repeats && s.ids[k] < 0) continue;
    if (repeats && coalesce) {
      if (weights != nullptr) s.weights[to - 1] += weight(s.ids[k]);
      continue;
    }
    s.keys[to] = s.keys[k];
    s.ids[to] = s.ids[k];
    if (weights != nullptr) s.weights.push_back(weight(s.ids[k]));
    ++to;
  }
  s.keys.resize(to);
  s.ids.resize(to);
}

enum class edge_order { by_column, as_given };

template <class I, class O>
sorted_edges<O> sort_edges(const coo_view<I>& coo, const graph_options& o, const key_layout& layout,
                           edge_order order) {
  auto s = candidates<I, O>(coo, o, layout);
  const bool in_order = (order == edge_order::as_given && !drops_edges(o)) ||
                        std::is_sorted(s.keys.begin(), s.keys.end());
  if (!in_order) radix_sort_pairs(s.keys, s.ids, layout.bits);
  s.reordered = !in_order || drops_edges(o);
  if (drops_edges(o)) {
    drop_repeats(s, coo.weights, o.coalesce == edge_option::apply);
  } else if (coo.weights != nullptr) {
    s.weights.resize(s.ids.size());
    for (std::size_t k = 0; k < s.ids.size(); ++k) s.weights[k] = coo.weights[s.ids[k]];
  }
  return s;
}

/// The rows in the order of their visits.
template <class I, class O>
std::vector<I> visit_list(const csr_view<I, O>& csr, visit_order wanted) {
  std::vector<I> order(static_cast<std::size_t>(csr.rows));
  std::iota(order.begin(), order.end(), I{0});
  if (wanted == visit_order::natural) return order;
  std::vector<std::uint64_t> keys(order.size());
  for (std::size_t r = 0; r < keys.size(); ++r) {
    keys[r] = visit_key(static_cast<std::int64_t>(r), csr.offsets[r + 1] - csr.offsets[r]);
  }
  radix_sort_pairs(keys, order, 10 + id_bits(csr.rows / visit_window + 1));
  return order;
}

template <class I, class O>
void make_schedule(direction_storage<I, O>& d, const schedule_options& options) {
  constexpr std::int32_t pretended_multiprocessors = 8;
  const auto& csr = d.view.csr;
  auto& schedule = d.view.schedule;
  schedule.slice_edges = options.slice_edges > 0
                             ? options.slice_edges
                             : choose_slice_edges(csr.edges, csr.rows, pretended_multiprocessors);
  std::vector<split_row<I>> by_class[split_classes], split_rows;
  std::vector<slice<I>> slices, whole;
  std::vector<std::int32_t> split_of;
  whole.reserve(static_cast<std::size_t>(csr.rows));
  for (const I r : visit_list(csr, options.order)) {
    const std::int64_t begin = csr.offsets[r];
    const std::int64_t edges = csr.offsets[r + 1] - begin;
    d.view.degrees.max_degree = std::max(d.view.degrees.max_degree, edges);
    d.view.degrees.empty_rows += edges == 0;
    if (edges > schedule.slice_edges) {
      const auto count = count_slices(edges, schedule.slice_edges);
      by_class[split_class_of(count)].push_back({begin, edges, 0, r});
    } else {
      whole.push_back({begin, r, static_cast<std::int32_t>(edges)});
    }
  }
  for (int c = 0; c < split_classes; ++c) {
    for (auto row : by_class[c]) {
      row.first = static_cast<std::int64_t>(slices.size());
      const auto count = schedule.slices_of(row);
      for (std::int64_t k = 0; k < count; ++k) slices.push_back(cut_slice(row, k, count));
      split_of.insert(split_of.end(), static_cast<std::size_t>(count),
                      static_cast<std::int32_t>(split_rows.size()));
      split_rows.push_back(row);
    }
    schedule.split[c] = {static_cast<std::int64_t>(split_rows.size()),
                         static_cast<std::int64_t>(slices.size())};
  }
  slices.insert(slices.end(), whole.begin(), whole.end());
  schedule.slice_count = static_cast<std::int64_t>(slices.size());
  d.slices = host_copy(slices);
  d.split_rows = host_copy(split_rows);
  d.split_of = host_copy(split_of);
  schedule.slices = d.slices.data();
  schedule.split_rows = d.split_rows.data();
  schedule.split_of = d.split_of.data();
}

/// Numbers the rows that are longer than a byte can count.
template <class I, class O>
void number_wide_rows(direction_storage<I, O>& d) {
  if (!wide_rows_view::is_wide(d.view.degrees.max_degree)) return;
  const auto& csr = d.view.csr;
  d.wide_rank = require(make_host_buffer<std::int32_t>(csr.rows));
  std::int32_t count = 0;
  for (std::int64_t r = 0; r < csr.rows; ++r) {
    d.wide_rank.data()[r] = count;
    count += wide_rows_view::is_wide(csr.offsets[r + 1] - csr.offsets[r]);
  }
  d.view.wide_rows = {d.wide_rank.data(), count};
}

template <class I, class O>
direction_storage<I, O> direction(std::int64_t rows, std::int64_t columns,
                                  const std::vector<I>& row_of, buffer<I> indices,
                                  const std::vector<float>& weights,
                                  const schedule_options& options) {
  direction_storage<I, O> d;
  const auto edges = static_cast<std::int64_t>(row_of.size());
  d.offsets = require(make_host_buffer<O>(rows + 1));
  std::fill_n(d.offsets.data(), rows + 1, O{0});
  for (const I r : row_of) ++d.offsets.data()[r + 1];
  std::partial_sum(d.offsets.data(), d.offsets.data() + rows + 1, d.offsets.data());
  d.indices = std::move(indices);
  if (!weights.empty()) d.weights = host_copy(weights);
  d.view.csr = {rows, columns, edges, d.offsets.data(), d.indices.data(), d.weights.data()};
  make_schedule(d, options);
  number_wide_rows(d);
  return d;
}

template <class I, class O>
graph<I, O> build(const coo_view<I>& coo, const graph_options& o, edge_order order) {
  const int column_bits = id_bits(coo.columns);
  const key_layout layout{column_bits, id_bits(coo.rows) + column_bits};
  const auto s = sort_edges<I, O>(coo, o, layout, order);
  const auto edges = static_cast<std::int64_t>(s.keys.size());
  std::vector<I> rows(s.keys.size());
  auto columns = require(make_host_buffer<I>(edges));
  for (std::size_t k = 0; k < s.keys.size(); ++k) {
    rows[k] = static_cast<I>(layout.row(s.keys[k]));
    columns.data()[k] = static_cast<I>(layout.column(s.keys[k]));
  }
  direction_storage<I, O> reverse;
  buffer<O> edge_map;
  if (o.reverse == edge_option::apply) {
    std::vector<std::make_unsigned_t<I>> senders(columns.data(), columns.data() + edges);
    std::vector<O> positions(s.keys.size());
    std::iota(positions.begin(), positions.end(), O{0});
    radix_sort_pairs(senders, positions, column_bits);
    auto receivers = require(make_host_buffer<I>(edges));
    for (std::size_t k = 0; k < positions.size(); ++k) receivers.data()[k] = rows[positions[k]];
    const std::vector<I> sorted(senders.begin(), senders.end());
    reverse = direction<I, O>(coo.columns, coo.rows, sorted, std::move(receivers), {}, o.schedule);
    edge_map = host_copy(positions);
  }
  auto forward =
      direction<I, O>(coo.rows, coo.columns, rows, std::move(columns), s.weights, o.schedule);
  return graph<I, O>(std::move(forward), std::move(reverse), std::move(edge_map),
                     s.reordered ? host_copy(s.ids) : buffer<O>{});
}

}  // namespace
}  // namespace detail

template <class I, class O>
result<graph<I, O>> make_graph(const host_context&, const coo_view<I>& coo,
                               const graph_options& o) {
  using namespace detail;
  const trace_range range("make_graph");
  return as_result<result<graph<I, O>>>([&]() -> result<graph<I, O>> {
    require(check_build<I, O>(o, coo.rows, coo.columns, coo.edges));
    require(inspect_edges(coo));
    return build<I, O>(coo, o, edge_order::by_column);
  });
}

template <class I, class O>
result<graph<I, O>> make_graph(const host_context& ctx, const csr_view<I, O>& csr,
                               const graph_options& o) {
  using namespace detail;
  const trace_range range("make_graph");
  return as_result<result<graph<I, O>>>([&]() -> result<graph<I, O>> {
    require(validate(ctx, csr));
    require(check_build<I, O>(o, csr.rows, csr.columns, csr.edges));
    std::vector<I> rows(static_cast<std::size_t>(csr.edges));
    for (std::int64_t r = 0; r < csr.rows; ++r) {
      std::fill(rows.begin() + csr.offsets[r], rows.begin() + csr.offsets[r + 1],
                static_cast<I>(r));
    }
    const coo_view<I> coo{csr.rows, csr.columns, csr.edges, rows.data(), csr.indices, csr.weights};
    return build<I, O>(coo, o, edge_order::as_given);
  });
}

template <class I, class O>
status validate(const host_context&, const csr_view<I, O>& csr) {
  using namespace detail;
  const trace_range range("validate");
  if (auto s = check_sizes<I, O>(csr.rows, csr.columns, csr.edges); !s.ok()) return s;
  if (csr.offsets == nullptr) return failure(status_code::invalid_argument, "offsets: null");
  if (csr.edges > 0 && csr.indices == nullptr) {
    return failure(status_code::invalid_argument, "indices: null");
  }
  for (std::int64_t r = 0; r <= csr.rows; ++r) {
    const bool wrong = (r == 0 && csr.offsets[r] != 0) ||
                       (r == csr.rows && csr.offsets[r] != csr.edges) ||
                       (r < csr.rows && csr.offsets[r + 1] < csr.offsets[r]);
    if (wrong) {
      return failure(status_code::out_of_range,
                     "offsets: must start at 0, never fall, and end at the number of edges", r);
    }
  }
  for (std::int64_t k = 0; k < csr.edges; ++k) {
    if (csr.indices[k] < 0 || csr.indices[k] >= csr.columns) {
      return failure(status_code::out_of_range, "column: negative id or not below columns, edge",
                     k);
    }
  }
  return success();
}

#define QUIPU_INSTANTIATE(I, O)                                                             \
  template result<graph<I, O>> make_graph<I, O>(const host_context&, const coo_view<I>&,    \
                                                const graph_options&);                      \
  template result<graph<I, O>> make_graph<I, O>(const host_context&, const csr_view<I, O>&, \
                                                const graph_options&);                      \
  template status validate<I, O>(const host_context&, const csr_view<I, O>&);
QUIPU_INSTANTIATE(std::int32_t, std::int32_t)
QUIPU_INSTANTIATE(std::int32_t, std::int64_t)
QUIPU_INSTANTIATE(std::int64_t, std::int64_t)
#undef QUIPU_INSTANTIATE

}  // namespace quipu
