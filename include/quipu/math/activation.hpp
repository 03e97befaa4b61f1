// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/core/config.hpp"

namespace quipu {

/// x where x > 0, slope * x elsewhere.
template <class A>
QUIPU_HD inline A leaky_relu(A x, A slope) {
  return x > A{0} ? x : slope * x;
}
/// Its derivative; at 0, the slope.
template <class A>
QUIPU_HD inline A leaky_relu_derivative(A x, A slope) {
  return x > A{0} ? A{1} : slope;
}

}  // namespace quipu
