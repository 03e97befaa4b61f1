// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/view.hpp"
#include "quipu/math/activation.hpp"
#include "quipu/math/convert.hpp"

namespace quipu::detail {

template <class T>
T* head_of(const heads_view<T>& m, std::int64_t row, std::int64_t head) {
  return m.data_handle() + row * m.stride(0) + head * m.stride(1);
}
/// Numbers of nodes or edges by head.
template <class A>
A& number_at(const matrix_view<A>& m, std::int64_t row, std::int64_t head) {
  return m.data_handle()[row * m.stride(0) + head];
}

/// <attention, leaky(target + source)>
template <class T>
accumulator<T> leaky_dot(const T* attention, const T* target, const T* source, std::int64_t dim,
                         accumulator<T> slope) {
  accumulator<T> sum = 0;
  for (std::int64_t f = 0; f < dim; ++f) {
    sum += widen(attention[f]) * leaky_relu(widen(target[f]) + widen(source[f]), slope);
  }
  return sum;
}

}  // namespace quipu::detail
