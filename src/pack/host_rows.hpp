// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>

#include "pack/check_pack.hpp"
#include "pack/coders.hpp"
#include "quipu/core/view.hpp"
#include "quipu/engine/host_engine.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu::detail {

/// Rows that a thread takes at once.
inline std::int64_t grain_of(std::int64_t row_bytes) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 16) / std::max<std::int64_t>(1, row_bytes));
}

template <class Body>
status for_rows(const host_context& ctx, std::int64_t rows, std::int64_t row_bytes, Body body) {
  if (row_bytes == 0) return success();  // however many there are
  return parallel_pieces(ctx, rows, grain_of(row_bytes), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) body(i);
  });
}

/// The lowest row that something is said of, by any thread.
class first_row {
 public:
  void note(std::int64_t row) {
    auto seen = row_.load(std::memory_order_relaxed);
    while (row < seen && !row_.compare_exchange_weak(seen, row, std::memory_order_relaxed)) {
    }
  }
  bool is_noted() const { return row_ != none; }
  std::int64_t get() const { return row_; }

 private:
  static constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> row_{none};
};

inline status malformed(const first_row& row) {
  if (!row.is_noted()) return success();
  return failure(status_code::parse_error, "packed: a row is malformed", row.get());
}

template <class Body>
auto catch_no_memory(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failure(status_code::out_of_memory, "not enough host memory for a packing's columns");
  }
}

inline const std::byte* part_of(const table_view& t, const record_shape& shape, std::int64_t row,
                                std::int64_t part) {
  return t.row(row) + shape.begin(part) * t.element_bytes;
}
inline std::byte* part_of(const mutable_table_view& t, const record_shape& shape, std::int64_t row,
                          std::int64_t part) {
  return t.row(row) + shape.begin(part) * t.element_bytes;
}

/// Writes a record as its address says: packed, or as it is.
template <class Coder>
void write_addressed(const Coder& coder, const record_places& places, std::int64_t record,
                     const std::byte* from, std::int64_t part, std::byte* to) {
  const auto& shape = places.shape();
  if (places.is_whole(record)) {
    std::memcpy(to, from, static_cast<std::size_t>(places.bytes_of(part)));
  } else {
    coder.encode(from, shape.begin(part), shape.count(part), to);
  }
}

/// Under `id_policy::clamp` any number is an id.
template <class I>
status check_ids(const vector_view<const I>& ids, std::int64_t rows, id_policy policy) {
  if (ids.extent(0) > 0 && ids.data_handle() == nullptr) {
    return wrong_argument("ids: null");
  }
  if (policy == id_policy::clamp) return success();
  for (std::int64_t k = 0; k < ids.extent(0); ++k) {
    if (ids[k] < 0 || ids[k] >= rows) {
      return failure(status_code::out_of_range, "ids: no such row", k, rows, ids[k]);
    }
  }
  return success();
}

}  // namespace quipu::detail
