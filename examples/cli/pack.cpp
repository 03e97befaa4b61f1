// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/pack.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "errors.hpp"
#include "names.hpp"
#include "output.hpp"
#include "packed_array.hpp"
#include "place.hpp"
#include "table.hpp"

namespace quipu::cli {
namespace {

/// The best packing of one codec, or of all.
packing choose_how(const pack_command_options& options, const table_array& table,
                   const host_context& host) {
  auto profile = require(options.table.path, make_profile(host, table.view(), options.table.look));
  const bool is_empty = table.view().rows == 0 || table.view().width == 0;
  if (options.how && !is_empty) {
    std::erase_if(profile.packings, [&](const auto& e) { return e.how.how != *options.how; });
  }
  if (profile.packings.empty()) {
    throw bad_input("--codec: " + std::string(name_of(*options.how)) + " is not for " +
                    table.element() + ", as which " + options.table.path + " is read");
  }
  return choose_packing(profile, options.goal).how;
}

/// What every report says of a packed table.
void add_size(json& report, const packed_table& packed) {
  report["rows"] = packed.rows();
  report["width"] = packed.how().width;
  report["element"] = element_name(packed.how().format, packed.how().element_bytes);
  report["codec"] = name_of(packed.how().how);
}

/// Ids of a vector of i4 or i8, in 64 bits. Throws bad_input unless all of them are rows.
std::vector<std::int64_t> read_ids(const std::string& path, std::int64_t rows) {
  const auto array = require(path, read_npy(path));
  if (array.kind != npy_kind::i4 && array.kind != npy_kind::i8) {
    throw bad_input(path + ": is not of type i4 or i8");
  }
  if (array.shape.size() != 1) throw bad_input(path + ": is not a vector");
  auto ids = require(path, npy_as<std::int64_t>(array));
  for (std::size_t k = 0; k < ids.size(); ++k) {
    if (ids[k] >= 0 && ids[k] < rows) continue;
    throw bad_input(path + ": element " + std::to_string(k) + " is row " + std::to_string(ids[k]) +
                    " of " + std::to_string(rows));
  }
  return ids;
}

void write_file(const std::string& path, const npy_array& array) {
  output_set files;
  require(path, write_npy(files.stage(path), array));
  files.commit();
}

}  // namespace

void run(const pack_command_options& options) {
  const host_context host{options.run.threads};
  const auto table = read_table(options.table);
  const auto& path = options.output;
  json report{{"input", options.table.path}, {"output", path}};
  packed_table packed;
  const double spent = time_once(host, [&] {
    const auto how = choose_how(options, table, host);
    packed = require(options.table.path, make_packed(host, table.view(), how));
  });
  output_set files;
  const auto staged = files.stage(path);
  require(path, write_packed(staged, packed.view(), note_of(table.array)));
  const auto file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(staged));
  files.commit();
  add_size(report, packed);
  const auto before = table.view().rows * table.view().row_bytes();
  const auto after = packed.view().stored_bytes();
  if (packed.how().how == codec::exponent) {
    report["code_bits"] = packed.how().exponent.code_bits;
  }
  report["bytes"] = before;
  report["packed_bytes"] = after;
  report["file_bytes"] = file_bytes;
  report["ratio"] = after > 0 ? static_cast<double>(before) / static_cast<double>(after) : 1.0;
  report["milliseconds"] = spent;
  print_report(report, options.run.json);
}

void run(const unpack_command_options& options) {
  const host_context host{options.run.threads};
  const auto& path = options.input;
  const auto file = require(path, packed_file::open(path));
  auto array = make_array(path, shape_of(path, file), file.rows());
  auto packed = require(path, file.read());
  json report{{"input", path}, {"output", options.output}};
  add_size(report, packed);
  report["milliseconds"] = time_once(host, [&] {
    require(path, unpack(host, {packed.view(), view_of(array, file.how()), 0}));
  });
  write_file(options.output, array);
  print_report(report, options.run.json);
}

void run(const gather_command_options& options) {
  const host_context host{options.run.threads};
  const auto& path = options.input;
  const auto file = require(path, packed_file::open(path));
  auto ids = read_ids(options.rows, file.rows());
  const auto count = static_cast<std::int64_t>(ids.size());
  auto array = make_array(path, shape_of(path, file), count);
  // Only what lies between the first row and the last one is read.
  const auto [least, most] = std::ranges::minmax_element(ids);
  const auto first = ids.empty() ? 0 : *least;
  const auto rows = ids.empty() ? 0 : *most - first + 1;
  for (auto& id : ids) id -= first;
  auto packed = require(path, file.read_rows(first, rows));
  json report{{"input", path}, {"output", options.output}, {"ids", count}};
  add_size(report, packed);
  report["rows"] = file.rows();
  report["milliseconds"] = time_once(host, [&] {
    require(path, gather_rows<std::int64_t>(
                      host, {packed.view(), make_vector_view<const std::int64_t>(ids.data(), count),
                             view_of(array, file.how())}));
  });
  write_file(options.output, array);
  print_report(report, options.run.json);
}

}  // namespace quipu::cli
