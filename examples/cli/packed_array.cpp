// SPDX-License-Identifier: Apache-2.0
#include "packed_array.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "errors.hpp"
#include "names.hpp"
#include "synthetic_table.hpp"

namespace quipu::cli {
namespace {

constexpr const char* kind_names[] = {"f2", "f4", "f8", "i1", "i2", "i4",
                                      "i8", "u1", "u2", "u4", "u8", "b1"};

/// Elements of one row, -1 if they cannot be counted.
std::int64_t width_of(const std::vector<std::int64_t>& shape, npy_kind kind) {
  return npy_count(std::span(shape).subspan(1), kind);
}

std::int32_t bytes_of(number_format format) {
  return format == number_format::bits ? 0 : format == number_format::float32 ? 4 : 2;
}

number_format format_of(npy_kind kind) {
  return kind == npy_kind::f4   ? number_format::float32
         : kind == npy_kind::f2 ? number_format::float16
                                : number_format::bits;
}

/// The type of an array that nothing is known of but its packing.
npy_kind kind_for(const packing& how) {
  if (how.format == number_format::float32) return npy_kind::f4;
  if (how.format == number_format::float16) return npy_kind::f2;
  return how.element_bytes == 1   ? npy_kind::u1
         : how.element_bytes == 2 ? npy_kind::u2
         : how.element_bytes == 4 ? npy_kind::u4
                                  : npy_kind::u8;
}

/// What a note says that `note_of` has made; nothing if another program has made it.
std::optional<array_shape> parse_note(const std::string& path, const std::string& note) {
  const auto said = nlohmann::json::parse(note, nullptr, false);
  if (!said.is_object() || !said.contains("npy")) return std::nullopt;
  const bad_input damaged(path + ": its note describes no array");
  if (!said["npy"].is_string() || !said.contains("shape") || !said["shape"].is_array()) {
    throw damaged;
  }
  const auto* kind = std::ranges::find(kind_names, said["npy"].get<std::string>());
  if (kind == std::end(kind_names)) throw damaged;
  array_shape array{static_cast<npy_kind>(kind - kind_names), {}};
  for (const auto& axis : said["shape"]) {
    if (!axis.is_number_integer()) throw damaged;
    array.shape.push_back(axis.get<std::int64_t>());
  }
  return array;
}

}  // namespace

table_view table_array::view() const {
  const auto item = static_cast<std::int32_t>(npy_item_bytes(array.kind));
  const auto width = width_of(array.shape, array.kind);
  return {array.data.data(), array.shape[0], width, item, width * item, format};
}

std::string table_array::element() const {
  return element_name(format, static_cast<std::int32_t>(npy_item_bytes(array.kind)));
}

table_array read_table(const table_argument& argument) {
  const auto& path = argument.path;
  table_array table{is_synthetic_table(path) ? draw_table(argument) : require(path, read_npy(path)),
                    number_format::bits};
  const auto& array = table.array;
  if (array.shape.empty()) throw bad_input(path + ": has no axes, a table needs one");
  constexpr std::int64_t widest = std::int64_t{1} << 40;
  const auto width = width_of(array.shape, array.kind);
  if (width < 0 || width > widest) throw bad_input(path + ": has rows of more than 2^40 elements");
  table.format = argument.as.value_or(format_of(array.kind));
  const auto item = static_cast<std::int32_t>(npy_item_bytes(array.kind));
  if (const auto wanted = bytes_of(table.format); wanted != 0 && wanted != item) {
    throw bad_input("--as: " + name_of(table.format) + " has " + std::to_string(wanted) +
                    " bytes, an element of " + path + " has " + std::to_string(item));
  }
  return table;
}

std::string element_name(number_format format, std::int32_t element_bytes) {
  if (format != number_format::bits) return name_of(format);
  return std::to_string(8 * element_bytes) + " bits";
}

std::string codec_text(const packing& how) {
  const std::string name = name_of(how.how);
  if (how.how != codec::exponent) return name;
  return name + ", " + std::to_string(how.exponent.code_bits) + " bits";
}

std::string note_of(const npy_array& array) {
  const nlohmann::ordered_json note{{"npy", kind_names[static_cast<std::size_t>(array.kind)]},
                                    {"shape", array.shape}};
  return note.dump();
}

array_shape shape_of(const std::string& path, const packed_file& file) {
  const auto& how = file.how();
  const auto said = parse_note(path, file.note());
  if (!said) return {kind_for(how), {file.rows(), how.width}};
  const auto item = static_cast<std::int32_t>(npy_item_bytes(said->kind));
  const bool same = !said->shape.empty() && npy_count(said->shape, said->kind) >= 0 &&
                    said->shape[0] == file.rows() && item == how.element_bytes &&
                    width_of(said->shape, said->kind) == how.width;
  if (!same) throw bad_input(path + ": its note describes another table");
  return *said;
}

npy_array make_array(const std::string& path, array_shape like, std::int64_t rows) {
  like.shape[0] = rows;
  const auto count = npy_count(like.shape, like.kind);
  const auto item = static_cast<std::int64_t>(npy_item_bytes(like.kind));
  const auto memory = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  if (count < 0 || count > memory / item) {
    throw bad_input(path + ": its rows are more than this machine's memory holds");
  }
  return {like.kind, std::move(like.shape),
          std::vector<std::byte>(static_cast<std::size_t>(count * item))};
}

mutable_table_view view_of(npy_array& array, const packing& how) {
  return {array.data.data(),
          array.shape[0],
          how.width,
          how.element_bytes,
          how.width * how.element_bytes,
          how.format};
}

}  // namespace quipu::cli
