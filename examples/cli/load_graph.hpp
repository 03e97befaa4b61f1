// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "errors.hpp"
#include "options.hpp"
#include "place.hpp"
#include "quipu/io/synthetic.hpp"

namespace quipu::cli {

/// What GRAPH names, read but not yet built. Compressed rows keep their edge order in the graph.
struct edge_source {
  std::string name;  // for messages
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t edges = 0;
  std::vector<std::int64_t> offsets;           // [rows + 1] of compressed rows, else empty
  std::vector<std::int64_t> row;               // [edges] of an edge list, else empty
  std::vector<std::int64_t> column;            // [edges]
  std::vector<float> weights;                  // [edges], or empty
  std::optional<synthetic_request> synthetic;  // then all arrays are empty
};

/// GRAPH: .mtx | .txt .tsv .csv | .npz (scipy CSR) | folder with indptr.npy and indices.npy |
/// synthetic:NAME[,seed=N][,flat]. Throws bad_input.
edge_source load_graph(const graph_argument& argument);

/// Throws bad_input for a weight that only a double can hold; `line` is 0 where there is none.
[[noreturn]] void refuse_weight(const std::string& name, std::int64_t edge, std::int64_t line = 0);

/// ".MTX" and ".mtx" are one.
std::string lower_extension(const std::filesystem::path& path);

/// The same edges with senders as receivers; not for synthetic sources.
void transpose(edge_source& source);

/// Row of each edge.
std::vector<std::int64_t> expand_rows(const edge_source& source);

/// An id of a file as the graph's type. What does not fit becomes -1, which `make_graph` refuses.
template <class I>
std::vector<I> narrow(const std::vector<std::int64_t>& values) {
  std::vector<I> out(values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    const bool fits = values[k] >= 0 && values[k] <= std::numeric_limits<I>::max();
    out[k] = fits ? static_cast<I>(values[k]) : I{-1};
  }
  return out;
}

template <class I, class Context>
graph<I, I> build_graph(const Context& ctx, const edge_source& s, const graph_options& options) {
  const auto column = place(ctx, narrow<I>(s.column));
  const auto weights = place(ctx, s.weights);
  if (!s.offsets.empty()) {
    const auto offsets = place(ctx, narrow<I>(s.offsets));
    const csr_view<I, I> csr{s.rows,         s.columns,     s.edges,
                             offsets.data(), column.data(), weights.data()};
    return require(s.name, make_graph(ctx, csr, options));
  }
  const auto row = place(ctx, narrow<I>(s.row));
  const coo_view<I> coo{s.rows, s.columns, s.edges, row.data(), column.data(), weights.data()};
  return require(s.name, make_graph<I, I>(ctx, coo, options));
}

/// Ids and offsets of 32 bits hold the built graph, whatever the options add to it.
inline bool fits_32_bits(const edge_source& s, const graph_options& o) {
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  const std::int64_t stored = s.edges * (o.symmetrise == edge_option::apply ? 2 : 1);
  const std::int64_t loops = o.add_self_loops == edge_option::apply ? s.rows : 0;
  return s.rows <= largest && s.columns <= largest && stored + loops <= largest;
}

/// Builds the graph on the chosen device with the narrowest ids and calls `work(executor, device
/// name, graph)`.
template <class Work>
void with_graph(const edge_source& s, const run_options& run, const graph_options& options,
                Work&& work) {
  on_chosen_device(run, [&](const auto& ctx, const std::string& device) {
    if (s.synthetic) {
      auto made = require(s.name, make_synthetic(ctx, *s.synthetic, options));
      return work(ctx, device, made);
    }
    if (fits_32_bits(s, options)) {
      auto made = build_graph<std::int32_t>(ctx, s, options);
      return work(ctx, device, made);
    }
    auto made = build_graph<std::int64_t>(ctx, s, options);
    work(ctx, device, made);
  });
}

}  // namespace quipu::cli
