// SPDX-License-Identifier: Apache-2.0
// expects: use of deleted function
#include <utility>

#include "quipu/core/buffer.hpp"

quipu::buffer<float> hand_over(quipu::buffer<float>& b) {
#ifdef OFFEND
  return quipu::buffer<float>(b);
#else
  return quipu::buffer<float>(std::move(b));
#endif
}
