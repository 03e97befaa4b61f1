// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/view.hpp"

namespace quipu::detail {

template <class T>
T* head_of(const heads_view<T>& m, std::int64_t row, std::int64_t head) {
  return m.data_handle() + row * m.stride(0) + head * m.stride(1);
}

}  // namespace quipu::detail
