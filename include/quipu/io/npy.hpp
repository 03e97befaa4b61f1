// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "quipu/core/element.hpp"
#include "quipu/core/status.hpp"

namespace quipu {

/// Element types of a .npy file, by NumPy's names: float, signed, unsigned, bool; bytes each.
enum class npy_kind : std::uint8_t { f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8, b1 };

/// Bytes of one element.
constexpr std::size_t npy_item_bytes(npy_kind kind) noexcept {
  constexpr std::uint8_t bytes[] = {2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  return bytes[static_cast<std::size_t>(kind)];
}

/// An array in memory: C order and little-endian, whatever the file was.
struct npy_array {
  npy_kind kind = npy_kind::f4;
  std::vector<std::int64_t> shape;  ///< empty: one element without axes
  std::vector<std::byte> data;      ///< product of `shape` elements
};

/// Elements of a shape, or -1: a negative axis, more than 64 axes, or 2^63 bytes and more.
std::int64_t npy_count(std::span<const std::int64_t> shape, npy_kind kind) noexcept;

/// Parses a whole .npy file: versions 1 to 3, both byte orders, C and Fortran order, any rank up to
/// 64 (NumPy's limit), shapes as Python 2 wrote them.
/// Errors: parse_error for a malformed header and for data that is shorter or longer than the shape
/// says (both byte counts in `expected` and `actual`); unsupported, with the dtype in the message,
/// for structured, object, string, complex and time data. Nothing of the announced size is
/// allocated before it has been checked against the bytes there.
result<npy_array> parse_npy(std::span<const std::byte> bytes);

/// Reads a file, straight into the array where its size is known. Same results as `parse_npy`.
/// Errors: also io_error with errno in `native`, and out_of_memory.
result<npy_array> read_npy(const std::filesystem::path& path);

/// Writes version 1, C order, little-endian, data at a multiple of 64 bytes. The file appears
/// complete or not at all. `data` holds the shape's elements in C order.
/// Errors: invalid_argument for a bad shape, null data, or `array.data` of another size; io_error.
status write_npy(const std::filesystem::path& path, npy_kind kind,
                 std::span<const std::int64_t> shape, const void* data);
status write_npy(const std::filesystem::path& path, const npy_array& array);

namespace npy_detail {

/// Converts one number; false when `To` cannot hold it. Integers become the nearest float; floats
/// become integers only if they are whole.
template <class To, class From>
bool convert(From from, To& to) noexcept {
  if constexpr (std::is_floating_point_v<To>) {
    to = static_cast<To>(from);
    if constexpr (sizeof(From) > sizeof(To) && std::is_floating_point_v<From>) {
      return std::isinf(to) == std::isinf(from);
    }
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    // -min is 2^31 or 2^63: exact as a float, where max is not. NaN fails both comparisons.
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    if (!(from >= low && from < -low) || from != std::trunc(from)) return false;
    to = static_cast<To>(from);
    return true;
  } else {
    if (!std::in_range<To>(from)) return false;
    to = static_cast<To>(from);
    return true;
  }
}

/// `Stored` is how the bytes lie in memory, `Number` how they are understood.
template <class Stored, class Number, class To>
status convert_all(const std::byte* data, std::vector<To>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, data + i * sizeof(Stored), sizeof(Stored));
    if (!convert(static_cast<Number>(stored), out[i])) {
      return failure(status_code::out_of_range,
                     "a number of the array does not fit the type, element",
                     static_cast<std::int64_t>(i));
    }
  }
  return success();
}

}  // namespace npy_detail

/// The numbers of an array as T, in C order. Bytes of kind b1 count as 0 or 1.
/// Errors: out_of_range with the element in `position`: an integer, or a float that is not whole,
/// that T cannot hold, or a finite double beyond float; invalid_argument when data and shape
/// differ.
template <class T>
requires std::same_as<T, double> || std::same_as<T, float> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::int32_t>
        result<std::vector<T>> npy_as(const npy_array& array) {
  using namespace npy_detail;
  const std::int64_t count = npy_count(array.shape, array.kind);
  if (count < 0 ||
      static_cast<std::size_t>(count) * npy_item_bytes(array.kind) != array.data.size()) {
    return failure(status_code::invalid_argument, "array.data does not match array.shape");
  }
  std::vector<T> out(static_cast<std::size_t>(count));
  const std::byte* const data = array.data.data();
  const auto run = [&]() -> status {
    switch (array.kind) {
      case npy_kind::f2:
        return convert_all<float16, float>(data, out);
      case npy_kind::f4:
        return convert_all<float, float>(data, out);
      case npy_kind::f8:
        return convert_all<double, double>(data, out);
      case npy_kind::i1:
        return convert_all<std::int8_t, std::int8_t>(data, out);
      case npy_kind::i2:
        return convert_all<std::int16_t, std::int16_t>(data, out);
      case npy_kind::i4:
        return convert_all<std::int32_t, std::int32_t>(data, out);
      case npy_kind::i8:
        return convert_all<std::int64_t, std::int64_t>(data, out);
      case npy_kind::u1:
        return convert_all<std::uint8_t, std::uint8_t>(data, out);
      case npy_kind::u2:
        return convert_all<std::uint16_t, std::uint16_t>(data, out);
      case npy_kind::u4:
        return convert_all<std::uint32_t, std::uint32_t>(data, out);
      case npy_kind::u8:
        return convert_all<std::uint64_t, std::uint64_t>(data, out);
      case npy_kind::b1:
        break;
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = data[i] != std::byte{0} ? T(1) : T(0);
    return success();
  };
  if (status s = run(); !s.ok()) return s;
  return out;
}

}  // namespace quipu
