// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "pack/tables.hpp"
#include "support/device.hpp"

namespace quipu_test {

/// A table in device memory, with room around it that must stay as it was.
struct device_table {
  device_table(const context& ctx, const stored_table& like, std::int64_t rows, std::int64_t gap)
      : shape(like), stride((like.width + gap) * like.element_bytes) {
    shape.rows = rows;
    memory = check(make_device_buffer<std::byte>(ctx, rows * stride + 64));
  }
  mutable_table_view view() {
    return {memory.data(), shape.rows, shape.width, shape.element_bytes, stride, shape.format};
  }
  void poison(const context& ctx) {
    check(from_cuda(cudaMemsetAsync(memory.data(), 0xa5, memory.bytes(), ctx.stream), "poison"));
  }
  /// The rows, after a look at what lies between and behind them.
  std::vector<std::byte> rows(const context& ctx) const {
    const auto all = check(to_host(ctx, memory));
    std::vector<std::byte> rows;
    bool intact = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / stride;
      const auto at = static_cast<std::int64_t>(i) % stride;
      if (row < shape.rows && at < shape.row_bytes()) {
        rows.push_back(all[i]);
      } else {
        intact = intact && all[i] == std::byte{0xa5};
      }
    }
    CHECK(intact);
    return rows;
  }

  stored_table shape;
  std::int64_t stride;
  buffer<std::byte> memory;
};

inline buffer<row_faults> make_faults(const context& ctx) {
  return check(make_device_buffer<row_faults>(ctx, 1));
}
inline row_faults read_faults(const context& ctx, const buffer<row_faults>& b) {
  return check(to_host(ctx, b)).front();
}

}  // namespace quipu_test
