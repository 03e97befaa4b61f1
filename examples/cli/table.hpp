// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quipu::cli {

using json = nlohmann::ordered_json;

enum class align : std::uint8_t { left, right };

/// Text of an object; bytes of names that are no UTF-8 become U+FFFD instead of an error.
inline std::string dumped(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

/// 1234567 as "1,234,567".
inline std::string grouped(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t k = 0; k < digits.size(); ++k) {
    const bool after_a_digit = k > 0 && digits[k - 1] != '-';
    if (after_a_digit && (digits.size() - k) % 3 == 0) text += ',';
    text += digits[k];
  }
  return text;
}

/// A number with as many digits as a reader compares: "0.0123", "4.56", "12,345".
inline std::string rounded(double value) {
  if (value >= 10'000) return grouped(static_cast<std::int64_t>(value + 0.5));
  return value >= 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.4g}", value);
}

/// A bar of eighth blocks, `width` cells for the whole.
inline std::string bar(double share, int width) {
  static constexpr const char* parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::clamp(static_cast<int>(share * width * 8 + 0.5), 0, width * 8);
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + parts[eighths % 8];
}

/// Columns as wide as their widest cell, under a line.
class table {
 public:
  struct column {
    std::string title;
    align side = align::right;
  };
  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string text() const {
    std::vector<std::size_t> widths;
    std::vector<std::string> titles, lines;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      widths.push_back(width(columns_[c].title));
      for (const auto& row : rows_) widths[c] = std::max(widths[c], width(row[c]));
      titles.push_back(columns_[c].title);
      lines.push_back(repeat("─", widths[c]));
    }
    std::string out = line(titles, widths) + line(lines, widths);
    for (const auto& row : rows_) out += line(row, widths);
    return out;
  }

 private:
  // Terminal cells: UTF-8 bytes that start a character.
  static std::size_t width(std::string_view s) {
    return static_cast<std::size_t>(
        std::ranges::count_if(s, [](char c) { return (c & 0xc0) != 0x80; }));
  }
  static std::string repeat(std::string_view s, std::size_t times) {
    std::string out;
    while (times-- > 0) out += s;
    return out;
  }
  std::string line(const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths) const {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string gap(widths[c] - width(cells[c]), ' ');
      out += c == 0 ? "" : "  ";
      out += columns_[c].side == align::right ? gap + cells[c] : cells[c] + gap;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  }

  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Names and values below each other.
inline std::string facts(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::size_t widest = 0;
  for (const auto& [name, value] : lines) widest = std::max(widest, name.size());
  std::string out;
  for (const auto& [name, value] : lines) out += fmt::format("{:<{}}  {}\n", name, widest, value);
  return out;
}

/// A verb's report: the object, or a line a field; fields named `milliseconds` are times.
inline void print_report(const json& r, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", dumped(r));
    return;
  }
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& [key, value] : r.items()) {
    const bool time = key.ends_with("milliseconds");
    const std::string name = key == "milliseconds"            ? "time"
                             : key == "backward_milliseconds" ? "backward"
                                                              : key;
    lines.emplace_back(name, value.is_string()         ? value.get<std::string>()
                             : time                    ? rounded(value.get<double>()) + " ms"
                             : value.is_number_float() ? rounded(value.get<double>())
                                                       : grouped(value.get<std::int64_t>()));
  }
  fmt::print("{}", facts(lines));
}

}  // namespace quipu::cli
