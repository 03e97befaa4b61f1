// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "load_graph.hpp"
#include "options.hpp"
#include "output.hpp"
#include "quipu/io/matrix_market.hpp"
#include "quipu/io/npy.hpp"
#include "scipy_file.hpp"
#include "table.hpp"

namespace quipu::cli {
namespace {

namespace fs = std::filesystem;

enum class output_format { matrix_market, scipy, folder };

output_format format_of(const std::string& output) {
  const auto extension = lower_extension(output);
  if (extension == ".mtx") return output_format::matrix_market;
  if (extension == ".npz") return output_format::scipy;
  if (extension.empty() && fs::exists(output) && !fs::is_directory(output)) {
    throw bad_input("--output: " + output + " is no folder, and no extension names another format");
  }
  if (extension.empty() || fs::is_directory(output)) return output_format::folder;
  throw bad_input("--output: ends in neither .mtx nor .npz, and a folder has no extension");
}

/// The arrays of a built graph as 64-bit compressed rows.
template <class Graph>
edge_source to_source(const Graph& g, const std::string& name) {
  const auto csr = g.view().forward.csr;
  edge_source s;
  s.name = name;
  s.rows = csr.rows;
  s.columns = csr.columns;
  s.edges = csr.edges;
  s.offsets.assign(csr.offsets, csr.offsets + csr.rows + 1);
  s.column.assign(csr.indices, csr.indices + csr.edges);
  if (csr.weights != nullptr) s.weights.assign(csr.weights, csr.weights + csr.edges);
  return s;
}

edge_source build_source(const edge_source& from, const run_options& run,
                         const graph_options& options) {
  edge_source built;
  with_graph(from, run, options, [&](const auto& ctx, const std::string&, auto& g) {
    built = to_source(fetch(ctx, g), from.name);
  });
  return built;
}

void write_matrix_file(const std::string& output, edge_source s, output_set& files) {
  edge_data edges;
  edges.rows = s.rows;
  edges.columns = s.columns;
  edges.row = expand_rows(s);
  edges.column = std::move(s.column);
  edges.value.assign(s.weights.begin(), s.weights.end());
  require(output, write_matrix_market(files.stage(output), edges));
}

template <class T>
void write_vector(const fs::path& path, npy_kind kind, const std::vector<T>& values,
                  output_set& files) {
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(values.size())};
  require(path.string(), write_npy(files.stage(path), kind, shape, values.data()));
}

void write_folder(const fs::path& folder, const edge_source& s, output_set& files) {
  files.folder(folder);
  write_vector(folder / "indptr.npy", npy_kind::i8, s.offsets, files);
  write_vector(folder / "indices.npy", npy_kind::i8, s.column, files);
  if (s.weights.empty()) {
    files.replace_by_nothing(folder / "data.npy");
  } else {
    write_vector(folder / "data.npy", npy_kind::f4, s.weights, files);
  }
  if (s.rows == s.columns) {
    files.replace_by_nothing(folder / "shape.npy");
  } else {
    write_vector(folder / "shape.npy", npy_kind::i8, std::vector{s.rows, s.columns}, files);
  }
}

void print_summary(const convert_options& options, const edge_source& s) {
  if (options.run.json) {
    const json out{{"output", options.output},
                   {"rows", s.rows},
                   {"columns", s.columns},
                   {"edges", s.edges},
                   {"weighted", !s.weights.empty()}};
    fmt::print("{}\n", dumped(out));
    return;
  }
  fmt::print("{}", facts({{"output", options.output},
                          {"rows", grouped(s.rows)},
                          {"columns", grouped(s.columns)},
                          {"edges", grouped(s.edges)},
                          {"weighted", s.weights.empty() ? "no" : "yes"}}));
}

}  // namespace

void run(const convert_options& options) {
  const auto format = format_of(options.output);
  auto source = load_graph(options.graph);
  auto edges = options.edges;
  edges.reverse = edge_option::keep;
  if (options.transpose) {
    if (source.synthetic) {
      graph_options plain;
      plain.reverse = edge_option::keep;
      source = build_source(source, options.run, plain);
    }
    transpose(source);
  }
  auto built = build_source(source, options.run, edges);
  output_set files;
  if (format == output_format::scipy) {
    write_scipy_npz(files.stage(options.output), options.output, built);
  } else if (format == output_format::folder) {
    write_folder(options.output, built, files);
  } else {
    write_matrix_file(options.output, built, files);
  }
  files.commit();
  print_summary(options, built);
}

}  // namespace quipu::cli
