// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "quipu/core/config.hpp"
#include "quipu/core/element.hpp"

namespace quipu {

/// Storage to accumulator: exact.
QUIPU_HD inline float widen(float x) { return x; }
QUIPU_HD inline double widen(double x) { return x; }
QUIPU_HD inline float widen(float16 x) { return __half2float(x); }
QUIPU_HD inline float widen(bfloat16 x) {
  // bf16 is the upper half of an fp32, so widening is a shift; this form keeps NaN payloads.
  unsigned short bits;
  memcpy(&bits, &x, sizeof bits);
  const unsigned wide = static_cast<unsigned>(bits) << 16;
  float y;
  memcpy(&y, &wide, sizeof y);
  return y;
}

/// Accumulator to storage: rounds to nearest, ties to even; too large becomes infinity.
template <element T>
QUIPU_HD inline T narrow(accumulator<T> x) {
  if constexpr (std::is_same_v<T, float16>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

}  // namespace quipu
