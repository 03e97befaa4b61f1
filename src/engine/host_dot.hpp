// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/math/convert.hpp"

namespace quipu::detail {

/// In lanes that the compiler can keep in a vector register; their sums meet in a fixed order.
template <class T>
accumulator<T> dot(const T* a, const T* b, std::int64_t features) {
  constexpr std::int64_t lanes = 16;
  accumulator<T> part[lanes] = {};
  std::int64_t f = 0;
  for (; f + lanes <= features; f += lanes) {
    for (std::int64_t l = 0; l < lanes; ++l) part[l] += widen(a[f + l]) * widen(b[f + l]);
  }
  for (std::int64_t l = 0; f < features; ++f, ++l) part[l] += widen(a[f]) * widen(b[f]);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) part[l] += part[l + half];
  }
  return part[0];
}

}  // namespace quipu::detail
