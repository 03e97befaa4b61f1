// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quipu::detail {

/// Calls use.operator()<Word>() for the word of so many bytes, 1, 2, 4 or 8.
template <class Use>
auto with_word(std::int32_t bytes, Use&& use) {
  switch (bytes) {
    case 1:
      return use.template operator()<std::uint8_t>();
    case 2:
      return use.template operator()<std::uint16_t>();
    case 4:
      return use.template operator()<std::uint32_t>();
    default:
      return use.template operator()<std::uint64_t>();
  }
}

}  // namespace quipu::detail
