// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

// What the graph library leaves to others: dense layers, and numbers to start from.
namespace gcn {

/// Row-major [rows, columns].
struct dense {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;

  dense(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  float& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
  float at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
};

/// Small numbers of both signs, the same on every machine.
inline dense drawn(std::int64_t rows, std::int64_t columns, std::uint32_t seed, float scale) {
  dense m(rows, columns);
  std::uint32_t state = seed;
  for (float& v : m.values) {
    state = state * 1664525u + 1013904223u;
    v = scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
  return m;
}

/// Bag-of-words features as Cora has them: about one word in eighty is there, rows sum to 1.
inline dense words(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  dense m(rows, columns);
  std::uint32_t state = seed;
  for (std::int64_t r = 0; r < rows; ++r) {
    float count = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      state = state * 1664525u + 1013904223u;
      m.at(r, c) = (state >> 8) % 80 == 0 ? 1.0f : 0.0f;
      count += m.at(r, c);
    }
    for (std::int64_t c = 0; c < columns && count > 0; ++c) m.at(r, c) /= count;
  }
  return m;
}

/// a times b, in plain loops.
inline dense multiply(const dense& a, const dense& b) {
  dense out(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const float f = a.at(i, k);
      if (f == 0) continue;
      for (std::int64_t j = 0; j < b.columns; ++j) out.at(i, j) += f * b.at(k, j);
    }
  }
  return out;
}

inline void relu(dense& m) {
  for (float& v : m.values) v = v < 0 ? 0 : v;
}

}  // namespace gcn
