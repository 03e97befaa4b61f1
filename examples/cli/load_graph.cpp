// SPDX-License-Identifier: Apache-2.0
#include "load_graph.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "quipu/io/edge_list.hpp"
#include "quipu/io/matrix_market.hpp"
#include "scipy_file.hpp"

namespace quipu::cli {
namespace {

namespace fs = std::filesystem;

edge_source from_edges(const std::string& name, edge_data edges) {
  edge_source s;
  s.name = name;
  s.rows = edges.rows;
  s.columns = edges.columns;
  s.edges = static_cast<std::int64_t>(edges.row.size());
  s.row = std::move(edges.row);
  s.column = std::move(edges.column);
  s.weights.reserve(edges.value.size());
  for (const double value : edges.value) s.weights.push_back(static_cast<float>(value));
  return s;
}

edge_source read_list(const graph_argument& argument) {
  edge_list_options options;
  options.base = argument.one_based ? id_base::one : id_base::zero;
  options.nodes = argument.nodes;
  options.separator = argument.separator.empty() ? '\0' : argument.separator[0];
  auto s =
      from_edges(argument.text, require(argument.text, read_edge_list(argument.text, options)));
  // Hashed ids would ask for memory in proportion to the largest one.
  constexpr std::int64_t plausible = 1 << 26;
  if (argument.nodes == 0 && s.rows > plausible && s.rows / 1000 > s.edges) {
    throw bad_input(argument.text + ": the largest id is " + std::to_string(s.rows - 1) +
                    "; number the nodes from 0, or state --nodes");
  }
  return s;
}

edge_source load_synthetic(const std::string& text) {
  edge_source s;
  s.name = text;
  auto request = parse_synthetic(std::string_view(text).substr(text.find(':') + 1));
  s.synthetic = require(text, std::move(request));
  s.rows = s.columns = s.synthetic->shape.nodes;
  s.edges = s.synthetic->shape.edges;
  return s;
}

std::string lower_extension(const fs::path& path) {
  auto extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

edge_source read_source(const graph_argument& argument) {
  if (argument.text.starts_with("synthetic:")) return load_synthetic(argument.text);
  const fs::path path = argument.text;
  if (!fs::exists(path)) throw bad_input(argument.text + ": no such file");
  if (fs::is_directory(path)) return read_npy_folder(path);
  const auto extension = lower_extension(path);
  if (extension == ".npz") return read_scipy_npz(path);
  if (extension == ".mtx") {
    return from_edges(argument.text, require(argument.text, read_matrix_market(path)));
  }
  if (extension == ".txt" || extension == ".tsv" || extension == ".csv") return read_list(argument);
  throw bad_input(argument.text + ": not .mtx, .txt, .tsv, .csv, .npz, a folder or synthetic:NAME");
}

}  // namespace

edge_source load_graph(const graph_argument& argument) {
  auto s = read_source(argument);
  if (argument.unweighted) s.weights.clear();
  return s;
}

std::vector<std::int64_t> expand_rows(const edge_source& s) {
  if (s.offsets.front() != 0 || s.offsets.back() != s.edges) {
    throw bad_input(s.name + ": indptr does not run from 0 to the number of edges");
  }
  std::vector<std::int64_t> row(s.column.size());
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const auto begin = s.offsets[static_cast<std::size_t>(i)];
    const auto end = s.offsets[static_cast<std::size_t>(i) + 1];
    if (begin < 0 || end < begin || end > s.edges) {
      throw bad_input(s.name + ": indptr falls or overruns at row " + std::to_string(i));
    }
    std::fill(row.begin() + begin, row.begin() + end, i);
  }
  return row;
}

void transpose(edge_source& s) {
  if (!s.offsets.empty()) {
    s.row = expand_rows(s);
    s.offsets.clear();
  }
  std::swap(s.row, s.column);
  std::swap(s.rows, s.columns);
}

}  // namespace quipu::cli
