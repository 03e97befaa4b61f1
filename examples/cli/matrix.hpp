// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "errors.hpp"
#include "output.hpp"
#include "quipu/core/element.hpp"
#include "quipu/io/npy.hpp"

namespace quipu::cli {

template <class T>
struct matrix {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  std::vector<T> values;  // row-major
};

/// Throws bad_input unless [rows, features] of T can be drawn: engines count the elements of a row
/// in 32 bits, and what the machine's memory cannot hold would end the program, not raise an error.
template <class T>
void check_width(std::int64_t rows, std::int64_t features) {
  const auto wanted = std::to_string(features);
  if (features >= std::numeric_limits<std::int32_t>::max()) {
    throw bad_input("--features: " + wanted + " is above 2147483646");
  }
  constexpr int copies = 2;  // as drawn, and where the verb reads it
  const double bytes =
      static_cast<double>(rows) * static_cast<double>(features) * sizeof(T) * copies;
  const double memory =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes > memory) {
    throw bad_input("--features: " + wanted + " for " + std::to_string(rows) +
                    " nodes are more than this machine's memory holds");
  }
}

/// Numbers in [-1, 1), the same on every machine: 24 bits of a hash of (seed, stream, position).
template <class T>
matrix<T> draw_matrix(std::int64_t rows, std::int64_t features, std::uint64_t seed,
                      std::uint64_t stream) {
  check_width<T>(rows, features);
  matrix<T> m{rows, features, std::vector<T>(static_cast<std::size_t>(rows * features))};
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + (stream << 56);
  for (auto& value : m.values) {
    std::uint64_t x = state += 0x9e3779b97f4a7c15ull;  // splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    value = T(static_cast<float>(static_cast<std::int32_t>(x >> 40) - (1 << 23)) * 0x1p-23f);
  }
  return m;
}

/// The numbers of an array of f2, f4 or f8 with so many rows, as T.
template <class T>
std::vector<T> numbers_of(const std::string& path, const npy_array& array, std::int64_t rows) {
  if (array.shape[0] != rows) {
    throw bad_input(path + ": has " + std::to_string(array.shape[0]) + " rows, the graph needs " +
                    std::to_string(rows));
  }
  if (array.kind != npy_kind::f2 && array.kind != npy_kind::f4 && array.kind != npy_kind::f8) {
    throw bad_input(path + ": is not of type f2, f4 or f8");
  }
  const auto numbers = require(path, npy_as<float>(array));
  std::vector<T> values(numbers.size());
  for (std::size_t k = 0; k < numbers.size(); ++k) values[k] = T(numbers[k]);
  return values;
}

/// Reads [rows, features].
template <class T>
matrix<T> read_matrix(const std::string& path, std::int64_t rows) {
  const auto array = require(path, read_npy(path));
  if (array.shape.size() != 2) throw bad_input(path + ": is not a matrix");
  return {rows, array.shape[1], numbers_of<T>(path, array, rows)};
}

/// The file's matrix, or a drawn one where no file is named. `features` is what other matrices have
/// settled, or what --features says; throws bad_input where the file disagrees.
template <class T>
matrix<T> read_or_draw(const std::string& path, std::int64_t rows,
                       std::optional<std::int64_t> features, std::uint64_t seed,
                       std::uint64_t stream) {
  if (path.empty()) return draw_matrix<T>(rows, features.value_or(64), seed, stream);
  auto m = read_matrix<T>(path, rows);
  if (!features || *features == m.features) return m;
  throw bad_input(path + ": has " + std::to_string(m.features) + " features, not " +
                  std::to_string(*features));
}

/// Writes fp16 as f2 and all else as f4, which holds it exactly.
template <class T, std::size_t Rank>
void write_array(const std::string& path, const std::array<std::int64_t, Rank>& shape,
                 const std::vector<T>& values, output_set& files) {
  if constexpr (std::is_same_v<T, float16>) {
    require(path, write_npy(files.stage(path), npy_kind::f2, shape, values.data()));
  } else {
    const std::vector<float> numbers(values.begin(), values.end());
    require(path, write_npy(files.stage(path), npy_kind::f4, shape, numbers.data()));
  }
}
template <class T>
void write_matrix(const std::string& path, const matrix<T>& m, output_set& files) {
  write_array(path, std::array{m.rows, m.features}, m.values, files);
}

}  // namespace quipu::cli
