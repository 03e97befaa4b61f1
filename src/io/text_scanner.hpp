// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "quipu/core/status.hpp"
#include "quipu/io/edge_data.hpp"

/// Lines, numbers and threads for the text readers. A text is cut at line ends into one chunk a
/// worker; the data lines of each chunk are counted, so that every worker then writes its edges
/// straight to their final place. Errors are kept as addresses and turned into line numbers at the
/// end, so that they name the first bad line of the text however it was cut.
namespace quipu::io_detail {

constexpr bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }
constexpr bool is_line_end(char c) { return c == '\n' || c == '\r'; }

inline const char* skip_blanks(const char* at, const char* end) {
  while (at != end && is_blank(*at)) ++at;
  return at;
}

/// First '\n' or '\r' in [at, end), or end. Eight bytes a step.
inline const char* find_line_end(const char* at, const char* end) {
  constexpr std::uint64_t ones = 0x0101010101010101u, highs = ones << 7;
  for (; end - at >= 8; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    const std::uint64_t feed = word ^ (ones * '\n'), carriage = word ^ (ones * '\r');
    const std::uint64_t hits = (((feed - ones) & ~feed) | ((carriage - ones) & ~carriage)) & highs;
    // Bits above the first hit may be false, the lowest never is (bytes are little-endian).
    if (hits != 0) return at + std::countr_zero(hits) / 8;
  }
  while (at != end && !is_line_end(*at)) ++at;
  return at;
}

/// First character of the next line that is neither blank nor a comment, from `at`, or end.
template <class IsComment>
const char* next_data_line(const char* at, const char* end, IsComment is_comment) {
  for (;;) {
    while (at != end && (is_blank(*at) || is_line_end(*at))) ++at;
    if (at == end || !is_comment(*at)) return at;
    at = find_line_end(at, end);
  }
}

/// 1-based line of `at`. CRLF is one line end.
inline std::int64_t line_of(std::string_view text, const char* at) {
  std::int64_t line = 1;
  const char* const end = text.data() + text.size();
  for (const char* c = text.data(); c != at; ++c) {
    if (*c == '\n' || (*c == '\r' && (c + 1 == end || c[1] != '\n'))) ++line;
  }
  return line;
}

inline status parse_failure(std::string_view text, const char* at, const char* message) {
  return failure(status_code::parse_error, message, line_of(text, at));
}

/// Editors of some systems put a byte order mark first.
inline std::string_view without_byte_order_mark(std::string_view text) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  return text;
}

/// Outcome of scanning one number. `error` is null when `value` is good.
template <class Value>
struct scanned {
  const char* next;
  Value value;
  const char* error;
};

/// Digits only: no sign, at most 2^63 - 1.
inline scanned<std::int64_t> scan_index(const char* at, const char* end) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const char* const first = at;
  const char* const safe = end - at > 18 ? at + 18 : end;  // 18 digits cannot overflow
  std::uint64_t value = 0;
  while (at != safe && is_digit(*at)) value = value * 10 + static_cast<std::uint64_t>(*at++ - '0');
  if (at == first) {
    const bool negative = at != end && *at == '-';
    return {at, 0, negative ? "a negative number where an index belongs" : "not an index"};
  }
  for (; at != end && is_digit(*at); ++at) {
    const std::uint64_t digit = static_cast<std::uint64_t>(*at - '0');
    if (value > (most - digit) / 10) return {at, 0, "a number does not fit 64 bits"};
    value = value * 10 + digit;
  }
  return {at, static_cast<std::int64_t>(value), nullptr};
}

/// True when the decimal [at, end), which from_chars found outside the range of double, is nearer
/// to 0 than to infinity.
inline bool underflows(const char* at, const char* end) {
  std::int64_t magnitude = 0;  // decimal position of the first digit that is not 0
  bool behind_point = false, counting = false;
  for (; at != end && (is_digit(*at) || *at == '.' || *at == '-'); ++at) {
    if (*at == '-') continue;
    if (*at == '.') {
      behind_point = true;
      continue;
    }
    if (!behind_point) magnitude += counting || *at != '0' ? 1 : 0;
    if (behind_point && !counting && *at == '0') --magnitude;
    counting = counting || *at != '0';
  }
  std::int64_t exponent = 0;
  if (at != end) {
    ++at;  // the letter e
    const bool negative = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    for (; at != end && is_digit(*at) && exponent < (std::int64_t{1} << 58); ++at) {
      exponent = exponent * 10 + (*at - '0');
    }
    if (negative) exponent = -exponent;
  }
  return magnitude + exponent < 0;
}

/// Any decimal, "inf" or "nan", correctly rounded.
inline scanned<double> scan_real_slowly(const char* at, const char* end) {
  constexpr const char* bad = "not a number";
  if (at != end && *at == '+') {
    ++at;
    if (at != end && *at == '-') return {at, 0, bad};
  }
  double value = 0;
  const auto [next, code] = std::from_chars(at, end, value);
  if (code == std::errc::result_out_of_range) {
    if (underflows(at, next)) return {next, *at == '-' ? -0.0 : 0.0, nullptr};
    return {next, 0, "a number is too large for a double"};
  }
  if (code != std::errc()) return {at, 0, bad};
  return {next, value, nullptr};
}

/// Optional sign and digits; rounded to the nearest double beyond 2^53.
inline scanned<double> scan_integer(const char* at, const char* end) {
  const char* const start = at;
  const bool negative = at != end && *at == '-';
  if (at != end && (*at == '-' || *at == '+')) ++at;
  const char* const first = at;
  std::uint64_t value = 0;
  while (at != end && is_digit(*at)) value = value * 10 + static_cast<std::uint64_t>(*at++ - '0');
  if (at == first) return {at, 0, "not an integer"};
  if (at - first > 19) return scan_real_slowly(start, at);
  const double magnitude = static_cast<double>(value);
  return {at, negative ? -magnitude : magnitude, nullptr};
}

/// A decimal with an optional sign, fraction and exponent; "inf" and "nan" too. Correctly rounded.
inline scanned<double> scan_real(const char* at, const char* end) {
  static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char* const start = at;
  const bool negative = at != end && *at == '-';
  if (at != end && (*at == '-' || *at == '+')) ++at;
  std::uint64_t mantissa = 0;
  const auto take_digits = [&] {
    const char* const first = at;
    while (at != end && is_digit(*at)) {
      mantissa = mantissa * 10 + static_cast<std::uint64_t>(*at++ - '0');
    }
    return at - first;
  };
  std::int64_t digits = take_digits(), exponent = 0;
  if (at != end && *at == '.') {
    ++at;
    const std::int64_t fraction = take_digits();
    digits += fraction;
    exponent = -fraction;
  }
  if (digits == 0 || digits > 19) return scan_real_slowly(start, end);
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool below = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    const char* const first = at;
    std::int64_t written = 0;
    while (at != end && is_digit(*at) && written < 10000) written = written * 10 + (*at++ - '0');
    if (at == first || written >= 10000) return scan_real_slowly(start, end);
    exponent += below ? -written : written;
  }
  // Both factors are exact doubles here, so the one rounding of the product is the right one.
  if (mantissa > (std::uint64_t{1} << 53) || exponent < -22 || exponent > 22) {
    return scan_real_slowly(start, end);
  }
  double value = static_cast<double>(mantissa);
  value = exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
  return {at, negative ? -value : value, nullptr};
}

/// What one worker reads, and what came of it.
struct chunk {
  const char* begin = nullptr;
  const char* end = nullptr;
  std::int64_t lines = 0;              ///< data lines inside
  std::int64_t first = 0;              ///< data lines before
  std::int64_t emitted = 0;            ///< edges written
  std::int64_t largest = -1;           ///< largest id seen, for those who need it
  const char* failed_at = nullptr;     ///< start of the first bad line
  const char* failure_text = nullptr;  ///< what is wrong there
};

/// Cuts [begin, end) behind line ends. `threads` = 0: one chunk a core, none smaller than pays for
/// a thread.
inline std::vector<chunk> split_lines(const char* begin, const char* end, int threads) {
  constexpr std::size_t worth_a_thread = 256 * 1024, most = 1024;
  const std::size_t bytes = static_cast<std::size_t>(end - begin);
  const std::size_t wanted =
      threads > 0
          ? std::min<std::size_t>(static_cast<std::size_t>(threads), bytes)
          : std::min<std::size_t>(std::thread::hardware_concurrency(), bytes / worth_a_thread);
  const std::size_t count = std::clamp<std::size_t>(wanted, 1, most);
  std::vector<chunk> chunks(count);
  const char* at = begin;
  for (std::size_t i = 0; i < count; ++i) {
    chunks[i].begin = at;
    const char* const target = std::max(at, begin + bytes / count * (i + 1));
    at = i + 1 == count ? end : find_line_end(target, end);
    if (at != end) ++at;
    chunks[i].end = at;
  }
  return chunks;
}

/// Runs `work(chunk&)`, which must not throw, for every chunk, one thread each.
template <class Work>
void for_each_chunk(std::vector<chunk>& chunks, Work work) {
  std::vector<std::jthread> workers;
  workers.reserve(chunks.size());
  for (std::size_t i = 1; i < chunks.size(); ++i) {
    chunk& mine = chunks[i];
    try {
      workers.emplace_back([&work, &mine] { work(mine); });
    } catch (const std::system_error&) {
      work(mine);  // no more threads to be had
    }
  }
  work(chunks.front());
}

/// Sets `lines` and `first` of every chunk; returns the number of data lines.
template <class IsComment>
std::int64_t count_data_lines(std::vector<chunk>& chunks, IsComment is_comment) {
  for_each_chunk(chunks, [is_comment](chunk& c) {
    std::int64_t lines = 0;
    const char* at = next_data_line(c.begin, c.end, is_comment);
    for (; at != c.end; ++lines) {
      at = next_data_line(find_line_end(at, c.end), c.end, is_comment);
    }
    c.lines = lines;
  });
  std::int64_t total = 0;
  for (chunk& c : chunks) {
    c.first = total;
    total += c.lines;
  }
  return total;
}

/// The first chunk's failure, which is the first of the text.
inline status first_failure(std::string_view text, const std::vector<chunk>& chunks) {
  for (const chunk& c : chunks) {
    if (c.failed_at != nullptr) return parse_failure(text, c.failed_at, c.failure_text);
  }
  return success();
}

/// Where a worker writes its edges.
class edge_writer {
 public:
  edge_writer(edge_data& edges, std::int64_t slot)
      : row_(edges.row.data() + slot),
        column_(edges.column.data() + slot),
        value_(edges.value.empty() ? nullptr : edges.value.data() + slot) {}

  void put(std::int64_t row, std::int64_t column, double value) {
    row_[count_] = row;
    column_[count_] = column;
    if (value_ != nullptr) value_[count_] = value;
    ++count_;
  }
  std::int64_t count() const { return count_; }

 private:
  std::int64_t* row_;
  std::int64_t* column_;
  double* value_;
  std::int64_t count_ = 0;
};

/// Closes the gaps that chunks leave when they write fewer than `slots` edges a line.
inline void close_gaps(edge_data& edges, const std::vector<chunk>& chunks, std::int64_t slots) {
  std::int64_t total = 0;
  for (const chunk& c : chunks) {
    const auto move_down = [from = c.first * slots, to = total, n = c.emitted](auto& array) {
      if (!array.empty() && from != to) {
        std::copy(array.begin() + from, array.begin() + from + n, array.begin() + to);
      }
    };
    move_down(edges.row);
    move_down(edges.column);
    move_down(edges.value);
    total += c.emitted;
  }
  edges.row.resize(static_cast<std::size_t>(total));
  edges.column.resize(static_cast<std::size_t>(total));
  if (!edges.value.empty()) edges.value.resize(static_cast<std::size_t>(total));
}

}  // namespace quipu::io_detail
