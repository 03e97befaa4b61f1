// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace quipu::detail {

/// Bytes [first, first + size) of packed rows that lie at `bytes` too, from a multiple of 16 on.
struct stage_window {
  const std::byte* bytes = nullptr;  // null: there is no stage
  std::int64_t first = 0, size = 0;
};

}  // namespace quipu::detail
