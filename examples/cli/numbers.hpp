// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "errors.hpp"

namespace quipu::cli {

/// Decimal digits and nothing else: CLI11 takes 010 for 8 and -1 for the largest unsigned number.
template <class Number>
Number parse_whole(const std::string& option, const std::string& text, std::int64_t lowest) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (whole && value >= static_cast<Number>(lowest)) return value;
  throw bad_input(option + ": " + text + " is not a whole number from " + std::to_string(lowest) +
                  " to " + std::to_string(std::numeric_limits<Number>::max()));
}

/// A number that fp32 holds: neither so large that it becomes infinite nor so small that it
/// becomes 0. `inf` and `nan` are what they say.
inline double parse_real(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    throw bad_input(option + ": " + text + " is not a number");
  }
  const auto kept = static_cast<float>(value);
  if (error == std::errc{} && std::isinf(kept) == std::isinf(value) &&
      (kept == 0) == (value == 0)) {
    return value;
  }
  throw bad_input(option + ": " + text + " is out of the range of fp32");
}

}  // namespace quipu::cli
