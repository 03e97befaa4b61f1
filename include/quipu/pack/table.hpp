// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "quipu/core/element.hpp"

namespace quipu {

/// How the bits of an element are read. Whatever is none of the three floats is bits.
enum class number_format : std::uint8_t { bits, float16, bfloat16, float32 };

template <class T>
inline constexpr number_format number_format_of =
    std::is_same_v<T, float16>    ? number_format::float16
    : std::is_same_v<T, bfloat16> ? number_format::bfloat16
    : std::is_same_v<T, float>    ? number_format::float32
                                  : number_format::bits;

/// A table of rows of elements that does not own them: [rows, width], elements of 1, 2, 4 or 8
/// bytes at any address, any row stride that holds a row.
template <class Byte>
struct basic_table_view {
  Byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;  ///< elements of a row
  std::int32_t element_bytes = 4;
  std::int64_t row_stride = 0;  ///< bytes from row to row
  number_format format = number_format::bits;

  constexpr std::int64_t row_bytes() const noexcept { return width * element_bytes; }
  constexpr Byte* row(std::int64_t i) const noexcept { return data + i * row_stride; }
  template <class Other>
  requires(std::is_same_v<Other, const Byte> && !std::is_const_v<Byte>) constexpr
  operator basic_table_view<Other>() const noexcept {
    return {data, rows, width, element_bytes, row_stride, format};
  }
};
using table_view = basic_table_view<const std::byte>;
using mutable_table_view = basic_table_view<std::byte>;

/// `row_stride` counts elements; 0 stands for packed rows.
template <class T>
auto make_table_view(T* data, std::int64_t rows, std::int64_t width, std::int64_t row_stride = 0) {
  using byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  return basic_table_view<byte>{reinterpret_cast<byte*>(data),
                                rows,
                                width,
                                static_cast<std::int32_t>(bytes),
                                (row_stride == 0 ? width : row_stride) * bytes,
                                number_format_of<std::remove_const_t<T>>};
}

}  // namespace quipu
