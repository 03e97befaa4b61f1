// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

#include "quipu/core/context.hpp"
#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/packed_table.hpp"

namespace quipu::detail {

inline status wrong_argument(const char* message, std::int64_t expected = 0,
                             std::int64_t actual = 0) {
  return failure(status_code::invalid_argument, message, -1, expected, actual);
}

/// The O(1) checks of a table that rows of `p` are read from or written to. `names` are messages
/// that begin with the argument's name.
struct table_messages {
  const char *null, *rows, *width, *element, *format, *stride;
};
inline constexpr table_messages input_messages{"input: null",
                                               "input: rows are negative",
                                               "input: width is not the packing's",
                                               "input: element_bytes is not the packing's",
                                               "input: not the packing's numbers",
                                               "input: row_stride is shorter than a row"};
inline constexpr table_messages output_messages{"output: null",
                                                "output: rows are negative",
                                                "output: width is not the packing's",
                                                "output: element_bytes is not the packing's",
                                                "output: not the packing's numbers",
                                                "output: row_stride is shorter than a row"};

inline status check_table(const table_view& t, const packing& p, const table_messages& say) {
  if (t.rows < 0) return wrong_argument(say.rows, 0, t.rows);
  if (t.width != p.width) return wrong_argument(say.width, p.width, t.width);
  if (t.element_bytes != p.element_bytes) {
    return wrong_argument(say.element, p.element_bytes, t.element_bytes);
  }
  if (t.format != number_format::bits && t.format != p.format && p.format != number_format::bits) {
    return wrong_argument(say.format);
  }
  if (t.row_stride < t.row_bytes()) {
    return wrong_argument(say.stride, t.row_bytes(), t.row_stride);
  }
  if (t.data == nullptr && t.rows > 0 && t.width > 0) return wrong_argument(say.null);
  return success();
}

/// Whether packed rows take no more than the table.
inline bool is_no_longer(std::int64_t stored, const packing& p, const table_view& t) {
  return stored + p.column_bytes() <= t.rows * t.row_bytes();
}

/// Room for so many rows more has to be countable, and where records have addresses there are not
/// more of them than addresses.
inline status check_spare(const table_view& t, const packing& p, std::int64_t spare_rows) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max() / 16;
  if (spare_rows < 0) return wrong_argument("spare_rows: negative");
  if (t.rows > most / std::max<std::int64_t>(1, t.row_bytes())) {
    return wrong_argument("input: more rows than there can be", 0, t.rows);
  }
  if (spare_rows > most / std::max<std::int64_t>(1, t.row_bytes())) {
    return wrong_argument("spare_rows: more than there can be", 0, spare_rows);
  }
  const auto records = std::max<std::int64_t>(1, record_shape(p.width).records);
  if (!p.has_slots() && t.rows + spare_rows >= whole_flag / records) {
    return failure(status_code::unsupported, "input: more records than addresses can tell", -1,
                   whole_flag / records, t.rows + spare_rows);
  }
  return success();
}

/// An output may not lie in what is read for it.
inline status check_apart(const table_view& t, const packed_view& v, const char* message) {
  const auto bytes = [](const std::byte* from, std::int64_t size) {
    const auto begin = reinterpret_cast<std::uintptr_t>(from);
    return std::pair{begin, begin + static_cast<std::uintptr_t>(std::max<std::int64_t>(0, size))};
  };
  const auto table = bytes(t.data, t.rows > 0 ? (t.rows - 1) * t.row_stride + t.row_bytes() : 0);
  const auto packed = bytes(v.bytes, v.byte_count);
  const bool meet = table.first < packed.second && packed.first < table.second;
  return meet ? wrong_argument(message) : success();
}

/// Whether the device wants more of a packing than its numbers.
inline bool needs_columns(const packing& p) {
  return p.how == codec::invariant || (p.how == codec::exponent && !p.exponent.base.empty());
}

inline status check_packed(const packed_view& v) {
  if (v.how == nullptr) return wrong_argument("packed: no packing");
  if (auto s = validate(*v.how); !s.ok()) return s;
  if (v.rows < 0) return wrong_argument("packed: rows are negative", 0, v.rows);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (v.rows > most / 8 / std::max<std::int64_t>(1, v.how->width * v.how->element_bytes)) {
    return wrong_argument("packed: more rows than there can be", 0, v.rows);
  }
  const auto records = v.records();
  if (records > 0 && v.bytes == nullptr) return wrong_argument("packed: bytes are null");
  if (v.byte_count < 0) return wrong_argument("packed: byte_count is negative");
  if (v.how->has_slots()) {
    const auto wanted = v.rows * slot_bytes_of_row(*v.how);
    if (v.byte_count < wanted) {
      return wrong_argument("packed: bytes end before the last slot", wanted, v.byte_count);
    }
  }
  if (!v.how->has_slots() && records > 0 && v.addresses == nullptr) {
    return wrong_argument("packed: addresses are null");
  }
  return success();
}

/// Whether every element lies at a multiple of its size, as the device wants it.
inline bool is_aligned(const table_view& t) {
  const auto size = static_cast<std::uintptr_t>(t.element_bytes);
  return reinterpret_cast<std::uintptr_t>(t.data) % size == 0 &&
         static_cast<std::uintptr_t>(t.row_stride) % size == 0;
}

/// What the device needs of packed rows besides: memory that it can reach, where vectors begin.
inline status check_on_device(const context& ctx, const packed_view& v) {
  const bool has_columns = needs_columns(*v.how) && v.records() > 0;
  for (auto s :
       {check_device_pointer(v.bytes, v.byte_count,
                             "packed: bytes are neither on the device nor pinned", ctx.device),
        check_device_pointer(v.addresses, v.how->has_slots() ? 0 : v.records(),
                             "packed: addresses are not on the device", ctx.device),
        check_device_pointer(v.columns, has_columns ? 1 : 0,
                             "packed: columns are not on the device", ctx.device)}) {
    if (!s.ok()) return s;
  }
  if (reinterpret_cast<std::uintptr_t>(v.bytes) % 16 != 0) {
    return wrong_argument("packed: bytes do not begin at a multiple of 16");
  }
  if (v.byte_count % 4 != 0) return wrong_argument("packed: byte_count is no multiple of 4");
  return success();
}

}  // namespace quipu::detail
