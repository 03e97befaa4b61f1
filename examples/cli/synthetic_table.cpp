// SPDX-License-Identifier: Apache-2.0
#include "synthetic_table.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "numbers.hpp"
#include "packed_array.hpp"
#include "quipu/math/random.hpp"

namespace quipu::cli {
namespace {

constexpr std::string_view prefix = "synthetic:";

/// Box and Muller's transform of two numbers in (0, 1).
float normal_of(std::uint64_t bits) {
  const double u = (static_cast<double>(bits >> 40) + 0.5) * 0x1p-24;
  const double v = (static_cast<double>(bits & 0xffffff) + 0.5) * 0x1p-24;
  return static_cast<float>(0.02 * std::sqrt(-2 * std::log(u)) *
                            std::cos(2 * std::numbers::pi * v));
}
float relu_of(std::uint64_t bits) { return std::fmax(normal_of(bits), 0.0f); }
float one_of(std::uint64_t bits) { return bits % 50 == 0 ? 1.0f : 0.0f; }

using number_of_bits = float (*)(std::uint64_t);

number_of_bits numbers_called(const std::string& text, const std::string& name) {
  static const std::vector<std::pair<std::string, number_of_bits>> all{
      {"normal", normal_of}, {"relu", relu_of}, {"ones", one_of}};
  for (const auto& [known, numbers] : all) {
    if (known == name) return numbers;
  }
  throw bad_input(text + ": no such table; there are normal, relu and ones");
}

template <class T>
void fill(npy_array& array, number_of_bits number, std::uint64_t seed) {
  const auto stream = mix_bits(seed);
  for (std::size_t k = 0; k < array.data.size() / sizeof(T); ++k) {
    const T value(number(random_bits(stream, k)));
    std::memcpy(array.data.data() + k * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

bool is_synthetic_table(const std::string& text) { return text.starts_with(prefix); }

npy_array draw_table(const table_argument& argument) {
  const auto& text = argument.path;
  const auto last = text.rfind(','), first = text.rfind(',', last - 1);
  if (last == std::string::npos || first == std::string::npos) {
    throw bad_input(text + ": is not synthetic:NAME,ROWS,WIDTH");
  }
  const auto numbers = numbers_called(text, text.substr(prefix.size(), first - prefix.size()));
  const auto rows = parse_whole<std::int64_t>(text, text.substr(first + 1, last - first - 1), 1);
  const auto width = parse_whole<std::int64_t>(text, text.substr(last + 1), 1);
  const auto seed = argument.look.seed;
  const auto make = [&](npy_kind kind) { return make_array(text, {kind, {rows, width}}, rows); };
  if (argument.as == number_format::float16) {
    auto array = make(npy_kind::f2);
    fill<float16>(array, numbers, seed);
    return array;
  }
  if (argument.as == number_format::bfloat16) {
    auto array = make(npy_kind::u2);
    fill<bfloat16>(array, numbers, seed);
    return array;
  }
  auto array = make(npy_kind::f4);
  fill<float>(array, numbers, seed);
  return array;
}

}  // namespace quipu::cli
