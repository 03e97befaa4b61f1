// SPDX-License-Identifier: Apache-2.0
#include "load_graph.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "quipu/io/edge_list.hpp"
#include "quipu/io/matrix_market.hpp"
#include "scipy_file.hpp"

namespace quipu::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto no_line = std::int64_t{0};

/// The line of the k-th entry, if entries lie one a line behind `leading` other lines that are
/// neither blank nor comments.
std::int64_t line_of_entry(const std::string& path, std::size_t k, std::size_t leading) {
  std::ifstream file(path);
  std::string text;
  std::size_t seen = 0;
  for (std::int64_t line = 1; std::getline(file, text); ++line) {
    const auto first = text.find_first_not_of(" \t\v\f\r");
    if (first == std::string::npos || text[first] == '%' || text[first] == '#') continue;
    if (seen++ == k + leading) return line;
  }
  return no_line;
}

/// Entries of a mirrored or dense Matrix Market file do not stand one a line.
std::int64_t line_of_matrix_entry(const std::string& path, std::size_t k) {
  std::ifstream file(path);
  std::string banner;
  std::getline(file, banner);
  std::ranges::transform(banner, banner.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool one_a_line =
      banner.find("coordinate") != std::string::npos && banner.find("general") != std::string::npos;
  constexpr std::size_t size_line = 1;
  return one_a_line ? line_of_entry(path, k, size_line) : no_line;
}

/// `find_line(k)` says in which line edge k stands, if one can say.
template <class FindLine>
edge_source from_edges(const graph_argument& argument, edge_data edges, FindLine find_line) {
  edge_source s;
  s.name = argument.text;
  s.rows = edges.rows;
  s.columns = edges.columns;
  s.edges = static_cast<std::int64_t>(edges.row.size());
  s.row = std::move(edges.row);
  s.column = std::move(edges.column);
  if (argument.unweighted) return s;
  s.weights.reserve(edges.value.size());
  for (std::size_t k = 0; k < edges.value.size(); ++k) {
    const double value = edges.value[k];
    if (std::isfinite(value) && std::fabs(value) > std::numeric_limits<float>::max()) {
      refuse_weight(s.name, static_cast<std::int64_t>(k), find_line(k));
    }
    s.weights.push_back(static_cast<float>(value));
  }
  return s;
}

edge_source read_list(const graph_argument& argument) {
  edge_list_options options;
  options.base = argument.one_based ? id_base::one : id_base::zero;
  options.nodes = argument.nodes;
  options.separator = argument.separator.empty() ? '\0' : argument.separator[0];
  auto s = from_edges(argument, require(argument.text, read_edge_list(argument.text, options)),
                      [&](std::size_t k) { return line_of_entry(argument.text, k, 0); });
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

edge_source read_source(const graph_argument& argument) {
  if (argument.text.starts_with("synthetic:")) return load_synthetic(argument.text);
  const fs::path path = argument.text;
  if (!fs::exists(path)) throw bad_input(argument.text + ": no such file");
  if (fs::is_directory(path)) return read_npy_folder(path);
  const auto extension = lower_extension(path);
  if (extension == ".npz") return read_scipy_npz(path);
  if (extension == ".mtx") {
    return from_edges(argument, require(argument.text, read_matrix_market(path)),
                      [&](std::size_t k) { return line_of_matrix_entry(argument.text, k); });
  }
  if (extension == ".txt" || extension == ".tsv" || extension == ".csv") return read_list(argument);
  throw bad_input(argument.text + ": not .mtx, .txt, .tsv, .csv, .npz, a folder or synthetic:NAME");
}

}  // namespace

void refuse_weight(const std::string& name, std::int64_t edge, std::int64_t line) {
  const auto where = line > 0 ? ":" + std::to_string(line) + ": the weight"
                              : ": the weight of edge " + std::to_string(edge);
  throw bad_input(name + where + " is finite, but too large for fp32");
}

std::string lower_extension(const fs::path& path) {
  auto extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

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
