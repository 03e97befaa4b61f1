// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda/std/array>
#include <cuda/std/mdspan>

#include "quipu/core/config.hpp"

namespace quipu {

/// Contiguous vector that does not own its elements.
template <class T>
using vector_view = cuda::std::mdspan<T, cuda::std::dextents<std::int64_t, 1>>;

/// Row-major matrix that does not own its elements: [rows, features], any row stride, last
/// stride 1.
template <class T>
using matrix_view =
    cuda::std::mdspan<T, cuda::std::dextents<std::int64_t, 2>, cuda::std::layout_stride>;

template <class T>
constexpr vector_view<T> make_vector_view(T* data, std::int64_t size) {
  return vector_view<T>(data, size);
}

/// `row_stride` counts elements; 0 stands for packed rows.
template <class T>
constexpr matrix_view<T> make_matrix_view(T* data, std::int64_t rows, std::int64_t features,
                                          std::int64_t row_stride = 0) {
  using mapping = typename matrix_view<T>::mapping_type;
  const cuda::std::array<std::int64_t, 2> strides{row_stride == 0 ? features : row_stride, 1};
  return matrix_view<T>(data,
                        mapping(cuda::std::dextents<std::int64_t, 2>(rows, features), strides));
}

}  // namespace quipu
