// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace quipu {

/// Compute capability of a device; tuning selectors compare it with `>=`, newest chip first.
struct capability {
  std::int32_t major = 0;
  std::int32_t minor = 0;
  friend constexpr auto operator<=>(const capability&, const capability&) = default;
};

}  // namespace quipu
