// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/matrix_market.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "file.hpp"
#include "text_scanner.hpp"

namespace quipu {
namespace {

using namespace io_detail;

enum class layout { coordinate, array };
enum class field { real, integer, pattern };
enum class symmetry { general, symmetric, skew };

constexpr const char* count_mismatch =
    "the size line and the file disagree on the number of entries";

struct header {
  layout form = layout::coordinate;
  field kind = field::real;
  symmetry mirror = symmetry::general;
  std::int64_t rows = 0, columns = 0;
  std::int64_t entries = 0;         // lines that must follow
  const char* size_line = nullptr;  // where errors about counts point
  const char* body = nullptr;       // behind the size line

  std::int64_t slots() const { return mirror == symmetry::general ? 1 : 2; }
};

constexpr auto is_comment = [](char c) { return c == '%'; };

bool at_field_end(const char* at, const char* end) {
  return at == end || is_blank(*at) || is_line_end(*at);
}
bool at_line_end(const char* at, const char* end) { return at == end || is_line_end(*at); }

bool same_word(std::string_view word, std::string_view lower) {
  if (word.size() != lower.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i] >= 'A' && word[i] <= 'Z' ? static_cast<char>(word[i] + 32) : word[i];
    if (c != lower[i]) return false;
  }
  return true;
}

/// Reads the banner's four words into `h`; a failure carries no line yet.
status read_banner_words(const std::array<std::string_view, 6>& word, header& h) {
  const auto bad = [](const char* text) { return failure(status_code::parse_error, text); };
  const auto refuse = [](const char* text) { return failure(status_code::unsupported, text); };
  if (!same_word(word[1], "matrix")) return bad("the banner's object is not 'matrix'");
  if (same_word(word[2], "array")) {
    h.form = layout::array;
  } else if (!same_word(word[2], "coordinate")) {
    return bad("the banner's format is neither 'coordinate' nor 'array'");
  }
  if (same_word(word[3], "complex")) return refuse("complex Matrix Market files are not supported");
  if (same_word(word[3], "integer")) {
    h.kind = field::integer;
  } else if (same_word(word[3], "pattern")) {
    h.kind = field::pattern;
  } else if (!same_word(word[3], "real")) {
    return bad("the banner's field is not 'real', 'integer' or 'pattern'");
  }
  if (same_word(word[4], "hermitian")) {
    return refuse("hermitian Matrix Market files are not supported");
  }
  if (same_word(word[4], "symmetric")) {
    h.mirror = symmetry::symmetric;
  } else if (same_word(word[4], "skew-symmetric")) {
    h.mirror = symmetry::skew;
  } else if (!same_word(word[4], "general")) {
    return bad("the banner's symmetry is not 'general', 'symmetric' or 'skew-symmetric'");
  }
  if (!word[5].empty()) return bad("the banner has more than five words");
  if (h.kind == field::pattern && h.form == layout::array) {
    return bad("an array file cannot be a pattern");
  }
  if (h.kind == field::pattern && h.mirror == symmetry::skew) {
    return bad("a pattern cannot be skew-symmetric");
  }
  return success();
}

/// Reads the banner from the first line that is not blank; leaves `at` at its end.
status read_banner(std::string_view text, const char*& at, header& h) {
  const char* const end = text.data() + text.size();
  at = next_data_line(at, end, [](char) { return false; });
  const char* const line = at;
  std::array<std::string_view, 6> words;
  for (auto& word : words) {
    at = skip_blanks(at, end);
    const char* const first = at;
    while (!at_field_end(at, end)) ++at;
    word = {first, static_cast<std::size_t>(at - first)};
  }
  // One percent sign is wrong by the letter, but files of large collections start so.
  if (!same_word(words[0], "%%matrixmarket") && !same_word(words[0], "%matrixmarket")) {
    return parse_failure(text, line, "the file does not start with a Matrix Market banner");
  }
  status s = read_banner_words(words, h);
  if (!s.ok()) s.position = line_of(text, line);
  return s;
}

/// Lines an array file must have, or -1 when they are beyond counting.
std::int64_t array_entries(const header& h) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (h.rows == 0 || h.columns == 0) return 0;
  if (h.mirror == symmetry::general) {
    return h.rows > most / h.columns ? -1 : h.rows * h.columns;
  }
  if (h.rows >= std::int64_t{1} << 31) return -1;
  return h.mirror == symmetry::symmetric ? h.rows * (h.rows + 1) / 2 : h.rows * (h.rows - 1) / 2;
}

/// Reads the size line behind `at` and checks what it promises against the rest of the text.
status read_size_line(std::string_view text, const char* at, header& h) {
  const char* const end = text.data() + text.size();
  at = next_data_line(at, end, is_comment);
  h.size_line = at;
  const bool is_array = h.form == layout::array;
  const auto bad = [&](const char* message) { return parse_failure(text, h.size_line, message); };
  if (at == end) return bad("the size line is missing");
  for (std::int64_t* number : {&h.rows, &h.columns, &h.entries}) {
    if (is_array && number == &h.entries) break;
    at = skip_blanks(at, end);
    if (at_line_end(at, end)) return bad("the size line has too few numbers");
    const auto scanned_size = scan_index(at, end);
    if (scanned_size.error != nullptr) return bad(scanned_size.error);
    at = scanned_size.next;
    if (!at_field_end(at, end)) return bad("the size line holds something that is not a number");
    *number = scanned_size.value;
  }
  at = skip_blanks(at, end);
  if (!at_line_end(at, end)) return bad("the size line has too many numbers");
  if (h.mirror != symmetry::general && h.rows != h.columns) {
    return bad("a symmetric matrix must be square");
  }
  if (is_array) h.entries = array_entries(h);
  h.body = at;
  // No line is shorter than a digit and its end, which the last may lack. The lines are counted
  // before anything is allocated; this refuses a lying header without reading on.
  if (h.entries < 0 || h.entries > (end - at + 1) / 2) {
    return bad("the size line announces more entries than the file can hold");
  }
  return success();
}

result<header> read_header(std::string_view text) {
  header h;
  const char* at = text.data();
  if (status s = read_banner(text, at, h); !s.ok()) return s;
  if (status s = read_size_line(text, at, h); !s.ok()) return s;
  return h;
}

/// A value field and the end of its line.
scanned<double> scan_last_value(const header& h, const char* at, const char* end) {
  if (at_line_end(at, end)) return {at, 0, "the line has too few fields"};
  scanned<double> value = h.kind == field::integer ? scan_integer(at, end) : scan_real(at, end);
  if (value.error != nullptr) return value;
  if (!at_field_end(value.next, end)) {
    value.error = h.kind == field::integer ? "not an integer" : "not a number";
    return value;
  }
  value.next = skip_blanks(value.next, end);
  if (!at_line_end(value.next, end)) value.error = "the line has too many fields";
  return value;
}

/// A 1-based index of a coordinate line and the blanks behind it; `value` is 0-based.
scanned<std::int64_t> scan_coordinate(const char* at, const char* end, std::int64_t size,
                                      const char* outside) {
  if (at_line_end(at, end)) return {at, 0, "the line has too few fields"};
  auto index = scan_index(at, end);
  if (index.error != nullptr) return index;
  if (!at_field_end(index.next, end)) return {at, 0, "not an index"};
  if (index.value < 1 || index.value > size) return {at, 0, outside};
  return {skip_blanks(index.next, end), index.value - 1, nullptr};
}

/// Writes one entry and its mirror; returns the error, or null.
inline const char* read_entry(const header& h, const char*& at, const char* end,
                              edge_writer& edges) {
  const auto row = scan_coordinate(at, end, h.rows, "the row index is outside the matrix");
  if (row.error != nullptr) return row.error;
  const auto column =
      scan_coordinate(row.next, end, h.columns, "the column index is outside the matrix");
  if (column.error != nullptr) return column.error;
  double value = 1;
  at = column.next;
  if (h.kind != field::pattern) {
    const auto last = scan_last_value(h, at, end);
    if (last.error != nullptr) return last.error;
    value = last.value;
    at = last.next;
  } else if (!at_line_end(at, end)) {
    return "the line has too many fields";
  }
  const bool diagonal = row.value == column.value;
  if (diagonal && h.mirror == symmetry::skew) {
    return "a skew-symmetric matrix has no diagonal entries";
  }
  edges.put(row.value, column.value, value);
  if (h.mirror != symmetry::general && !diagonal) {
    edges.put(column.value, row.value, h.mirror == symmetry::skew ? -value : value);
  }
  return nullptr;
}

void read_coordinates(const header& h, chunk& c, edge_writer edges) {
  const char* at = c.begin;
  for (;;) {
    const char* const line = at = next_data_line(at, c.end, is_comment);
    if (at == c.end) break;
    if (const char* error = read_entry(h, at, c.end, edges)) {
      c.failed_at = line;
      c.failure_text = error;
      return;
    }
  }
  c.emitted = edges.count();
}

/// Walks a dense matrix column by column, or the triangle of it that a symmetric file stores.
class array_walk {
 public:
  array_walk(const header& h, std::int64_t skipped)
      : rows_(h.rows), below_(h.mirror == symmetry::skew), full_(h.mirror == symmetry::general) {
    if (full_) {
      column_ = skipped / rows_;
      row_ = skipped % rows_;
      return;
    }
    // The whole triangle is in the text, so this loop is short beside reading it.
    for (; skipped >= rows_ - first_row(); ++column_) skipped -= rows_ - first_row();
    row_ = first_row() + skipped;
  }
  void step() {
    if (++row_ < rows_) return;
    ++column_;
    row_ = first_row();
  }
  std::int64_t row() const { return row_; }
  std::int64_t column() const { return column_; }

 private:
  std::int64_t first_row() const { return full_ ? 0 : column_ + (below_ ? 1 : 0); }
  std::int64_t rows_, row_ = 0, column_ = 0;
  bool below_, full_;
};

void read_array(const header& h, chunk& c, edge_writer edges) {
  if (c.lines == 0) return;
  array_walk place(h, c.first);
  const char* at = c.begin;
  for (;; place.step()) {
    const char* const line = at = next_data_line(at, c.end, is_comment);
    if (at == c.end) break;
    const auto value = scan_last_value(h, at, c.end);
    if (value.error != nullptr) {
      c.failed_at = line;
      c.failure_text = value.error;
      return;
    }
    at = value.next;
    if (value.value == 0) continue;
    edges.put(place.row(), place.column(), value.value);
    if (h.mirror != symmetry::general && place.row() != place.column()) {
      edges.put(place.column(), place.row(),
                h.mirror == symmetry::skew ? -value.value : value.value);
    }
  }
  c.emitted = edges.count();
}

result<edge_data> parse_body(std::string_view text, const header& h, int threads) {
  const char* const end = text.data() + text.size();
  std::vector<chunk> chunks = split_lines(h.body, end, threads);
  const std::int64_t lines = count_data_lines(chunks, is_comment);
  if (lines != h.entries) {
    status s = parse_failure(text, h.size_line, count_mismatch);
    s.expected = h.entries;
    s.actual = lines;
    return s;
  }
  edge_data edges;
  edges.rows = h.rows;
  edges.columns = h.columns;
  const std::size_t slots = static_cast<std::size_t>(lines * h.slots());
  edges.row.resize(slots);
  edges.column.resize(slots);
  if (h.kind != field::pattern) edges.value.resize(slots);
  for_each_chunk(chunks, [&](chunk& c) {
    const edge_writer writer(edges, c.first * h.slots());
    h.form == layout::array ? read_array(h, c, writer) : read_coordinates(h, c, writer);
  });
  if (status s = first_failure(text, chunks); !s.ok()) return s;
  close_gaps(edges, chunks, h.slots());
  return edges;
}

status check_edges(const edge_data& edges) {
  const auto bad = [](const char* text) { return failure(status_code::invalid_argument, text); };
  if (edges.rows < 0 || edges.columns < 0) return bad("edges: rows and columns must be >= 0");
  if (edges.row.size() != edges.column.size()) return bad("edges: row and column differ in length");
  if (!edges.value.empty() && edges.value.size() != edges.row.size()) {
    return bad("edges: value must be empty or as long as row");
  }
  for (std::size_t k = 0; k < edges.row.size(); ++k) {
    if (edges.row[k] < 0 || edges.row[k] >= edges.rows || edges.column[k] < 0 ||
        edges.column[k] >= edges.columns) {
      return failure(status_code::out_of_range, "edges: an id is outside the matrix",
                     static_cast<std::int64_t>(k));
    }
  }
  return success();
}

/// Collects numbers and hands full blocks to the file.
class number_writer {
 public:
  explicit number_writer(output_file& file) : file_(file), block_(std::size_t{1} << 18) {}

  template <class Number>
  status put(Number number, char behind) {
    constexpr std::size_t longest = 32;  // no int64 and no shortest double needs more
    if (block_.size() - used_ < longest) {
      if (status s = flush(); !s.ok()) return s;
    }
    char* const first = block_.data() + used_;
    char* const last = std::to_chars(first, block_.data() + block_.size(), number).ptr;
    *last = behind;
    used_ += static_cast<std::size_t>(last - first) + 1;
    return success();
  }
  status flush() {
    const std::size_t bytes = std::exchange(used_, 0);
    return file_.write(block_.data(), bytes);
  }

 private:
  output_file& file_;
  std::vector<char> block_;
  std::size_t used_ = 0;
};

status write_entries(const edge_data& edges, output_file& file) {
  number_writer out(file);
  const bool pattern = edges.value.empty();
  const std::size_t count = edges.row.size();
  status s = out.put(edges.rows, ' ');
  if (s.ok()) s = out.put(edges.columns, ' ');
  if (s.ok()) s = out.put(count, '\n');
  for (std::size_t k = 0; k < count && s.ok(); ++k) {
    s = out.put(edges.row[k] + 1, ' ');
    if (s.ok()) s = out.put(edges.column[k] + 1, pattern ? '\n' : ' ');
    if (s.ok() && !pattern) s = out.put(edges.value[k], '\n');
  }
  return s.ok() ? out.flush() : s;
}

}  // namespace

result<edge_data> parse_matrix_market(std::string_view text, int threads) {
  if (threads < 0) return failure(status_code::invalid_argument, "threads must be >= 0");
  return catch_out_of_memory([&]() -> result<edge_data> {
    const std::string_view content = without_byte_order_mark(text);
    const auto h = read_header(content);
    if (!h) return h.error();
    return parse_body(content, *h, threads);
  });
}

result<edge_data> read_matrix_market(const std::filesystem::path& path) {
  return catch_out_of_memory([&]() -> result<edge_data> {
    const auto content = load(path);
    if (!content) return content.error();
    return parse_matrix_market(content->text());
  });
}

status write_matrix_market(const std::filesystem::path& path, const edge_data& edges) {
  if (status s = check_edges(edges); !s.ok()) return s;
  return catch_out_of_memory([&]() -> status {
    auto file = output_file::create(path);
    if (!file) return file.error();
    const std::string banner = std::string("%%MatrixMarket matrix coordinate ") +
                               (edges.value.empty() ? "pattern" : "real") + " general\n";
    if (status s = file->write(banner.data(), banner.size()); !s.ok()) return s;
    if (status s = write_entries(edges, *file); !s.ok()) return s;
    return file->commit();
  });
}

}  // namespace quipu
