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

/// What several heads share a row of: [rows, heads, dim], any stride from row to row that holds the
/// heads, any from head to head that holds a head, last stride 1. Packed query, key and value, or
/// keys and values side by side, are strides.
template <class T>
using heads_view =
    cuda::std::mdspan<T, cuda::std::dextents<std::int64_t, 3>, cuda::std::layout_stride>;

template <class T>
constexpr vector_view<T> make_vector_view(T* data, std::int64_t size) {
  return vector_view<T>(data, size);
}

/// Strides of matrices with rows that are looked up by id, in elements: bytes fit 32 bits, so that
/// with 32-bit ids an address is one widening multiply-add. Verbs refuse longer ones.
template <class T>
inline constexpr std::int64_t longest_stride = 0xffffffff / static_cast<std::int64_t>(sizeof(T));

/// `row_stride` counts elements; 0 stands for packed rows.
template <class T>
constexpr matrix_view<T> make_matrix_view(T* data, std::int64_t rows, std::int64_t features,
                                          std::int64_t row_stride = 0) {
  using mapping = typename matrix_view<T>::mapping_type;
  const cuda::std::array<std::int64_t, 2> strides{row_stride == 0 ? features : row_stride, 1};
  return matrix_view<T>(data,
                        mapping(cuda::std::dextents<std::int64_t, 2>(rows, features), strides));
}

/// Strides count elements; 0 stands for packed heads or rows.
template <class T>
constexpr heads_view<T> make_heads_view(T* data, std::int64_t rows, std::int64_t heads,
                                        std::int64_t dim, std::int64_t row_stride = 0,
                                        std::int64_t head_stride = 0) {
  using mapping = typename heads_view<T>::mapping_type;
  const auto head = head_stride == 0 ? dim : head_stride;
  const cuda::std::array<std::int64_t, 3> strides{row_stride == 0 ? heads * head : row_stride, head,
                                                  1};
  return heads_view<T>(data,
                       mapping(cuda::std::dextents<std::int64_t, 3>(rows, heads, dim), strides));
}

}  // namespace quipu
