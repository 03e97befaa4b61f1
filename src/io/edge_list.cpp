// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/edge_list.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "file.hpp"
#include "text_scanner.hpp"

namespace quipu {
namespace {

using namespace io_detail;

constexpr char blanks = ' ';  // separator: any run of spaces and tabs

constexpr auto is_comment = [](char c) { return c == '#' || c == '%'; };

bool at_line_end(const char* at, const char* end) {
  return at == end || is_line_end(*at) || is_comment(*at);
}

/// What every line of a list must look like.
struct list_format {
  char separator = blanks;
  int fields = 0;  // 2 or 3; 0 while the first line is still to say
  std::int64_t base = 0;
  std::int64_t limit = 0;  // 0-based ids lie below
};

struct edge_line {
  const char* next = nullptr;
  const char* error = nullptr;
  int fields = 2;
  std::int64_t from = 0, to = 0;
  double weight = 1;
};

/// What follows a field: another one at `at`, the end of the line, or something else.
struct field_step {
  enum { another, line_end, garbage } found;
  const char* at;
};

field_step step_behind(const list_format& f, const char* at, const char* end) {
  const char* const next = skip_blanks(at, end);
  if (at_line_end(next, end)) return {field_step::line_end, next};
  if (f.separator == blanks) {
    return {next != at ? field_step::another : field_step::garbage, next};
  }
  if (*next != f.separator) return {field_step::garbage, next};
  return {field_step::another, skip_blanks(next + 1, end)};
}

/// One id, 0-based.
inline scanned<std::int64_t> scan_id(const list_format& f, const char* at, const char* end) {
  auto id = scan_index(at, end);
  if (id.error != nullptr) return id;
  id.value -= f.base;
  if (id.value < 0) id.error = "id 0 in a list whose ids start at 1";
  if (id.value >= f.limit) id.error = "an id is not below the number of nodes";
  return id;
}

inline edge_line scan_edge(const list_format& f, const char* at, const char* end) {
  edge_line edge;
  const auto bad = [&edge](const char* message) {
    edge.error = message;
    return edge;
  };
  const auto from = scan_id(f, at, end);
  if (from.error != nullptr) return bad(from.error);
  const field_step second = step_behind(f, from.next, end);
  if (second.found == field_step::line_end) return bad("the line has fewer than two fields");
  if (second.found == field_step::garbage) return bad("a field is not a node id");
  const auto to = scan_id(f, second.at, end);
  if (to.error != nullptr) return bad(to.error);
  field_step last = step_behind(f, to.next, end);
  if (last.found == field_step::garbage) return bad("a field is not a node id");
  if (last.found == field_step::another) {
    const auto weight = scan_real(last.at, end);
    if (weight.error != nullptr) return bad(weight.error);
    edge.weight = weight.value;
    edge.fields = 3;
    last = step_behind(f, weight.next, end);
    if (last.found == field_step::garbage) return bad("a weight is not a number");
    if (last.found == field_step::another) return bad("the line has more than three fields");
  }
  if (f.fields != 0 && f.fields != edge.fields) {
    return bad(edge.fields == 3 ? "a weight, where the lines before have none"
                                : "a weight is missing, where the lines before have one");
  }
  edge.from = from.value;
  edge.to = to.value;
  edge.next = last.at;
  return edge;
}

void read_edges(const list_format& f, chunk& c, edge_writer edges) {
  const char* at = c.begin;
  std::int64_t largest = -1;
  for (;;) {
    at = next_data_line(at, c.end, is_comment);
    if (at == c.end) break;
    const edge_line edge = scan_edge(f, at, c.end);
    if (edge.error != nullptr) {
      c.failed_at = at;
      c.failure_text = edge.error;
      return;
    }
    edges.put(edge.to, edge.from, edge.weight);
    largest = std::max(largest, std::max(edge.from, edge.to));
    at = edge.next;
  }
  c.emitted = edges.count();
  c.largest = largest;
}

bool is_separator(char c) { return std::string_view(" \t,;|:").find(c) != std::string_view::npos; }

status check_options(const edge_list_options& options, int threads) {
  const auto bad = [](const char* text) { return failure(status_code::invalid_argument, text); };
  if (threads < 0) return bad("threads must be >= 0");
  if (options.nodes < 0) return bad("options.nodes must be >= 0");
  if (options.base != id_base::zero && options.base != id_base::one) {
    return bad("options.base must be zero or one");
  }
  if (options.separator != 0 && !is_separator(options.separator)) {
    return bad("options.separator must be a blank, a tab or one of , ; | :");
  }
  return success();
}

/// The separator and the number of fields, from the first line that holds an edge. A bad line
/// settles nothing here: the pass over all lines reports it.
list_format settle_format(std::string_view text, const edge_list_options& options) {
  list_format f;
  f.base = options.base == id_base::one ? 1 : 0;
  // Without a node count the largest id must leave room for max id + 1.
  f.limit = options.nodes > 0 ? options.nodes : std::numeric_limits<std::int64_t>::max();
  const char* const end = text.data() + text.size();
  const char* const line = next_data_line(text.data(), end, is_comment);
  if (options.separator == 0) {
    const char* at = line;
    while (!at_line_end(at, end) && *at != ',') ++at;
    if (at != end && *at == ',') f.separator = ',';
  } else if (options.separator != '\t') {
    f.separator = options.separator;
  }
  if (line != end) f.fields = scan_edge(f, line, end).fields;
  return f;
}

result<edge_data> parse_lines(std::string_view text, const edge_list_options& options,
                              int threads) {
  const list_format f = settle_format(text, options);
  std::vector<chunk> chunks = split_lines(text.data(), text.data() + text.size(), threads);
  const std::size_t lines = static_cast<std::size_t>(count_data_lines(chunks, is_comment));
  edge_data edges;
  edges.row.resize(lines);
  edges.column.resize(lines);
  if (f.fields == 3) edges.value.resize(lines);
  for_each_chunk(chunks, [&](chunk& c) { read_edges(f, c, edge_writer(edges, c.first)); });
  if (status s = first_failure(text, chunks); !s.ok()) return s;
  std::int64_t largest = -1;
  for (const chunk& c : chunks) largest = std::max(largest, c.largest);
  edges.rows = edges.columns = options.nodes > 0 ? options.nodes : largest + 1;
  return edges;
}

}  // namespace

result<edge_data> parse_edge_list(std::string_view text, const edge_list_options& options,
                                  int threads) {
  if (status s = check_options(options, threads); !s.ok()) return s;
  return catch_out_of_memory([&]() -> result<edge_data> {
    return parse_lines(without_byte_order_mark(text), options, threads);
  });
}

result<edge_data> read_edge_list(const std::filesystem::path& path,
                                 const edge_list_options& options) {
  return catch_out_of_memory([&]() -> result<edge_data> {
    const auto content = load(path);
    if (!content) return content.error();
    return parse_edge_list(content->text(), options);
  });
}

}  // namespace quipu
