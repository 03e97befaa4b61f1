// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "quipu/engine/policy.hpp"

namespace quipu::detail {

/// Lay-outs of the sampled product: as few lanes as hold the row, because what lanes hold must be
/// summed over them; the widest rows go tile by tile.
template <int Width>
struct sddmm_tuning {
  static constexpr std::array table{
      engine_policy{4, 1, Width, 8, 128},  engine_policy{8, 1, Width, 8, 128},
      engine_policy{16, 1, Width, 8, 128}, engine_policy{32, 1, Width, 8, 128},
      engine_policy{16, 2, Width, 4, 128}, engine_policy{32, 2, Width, 4, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t degree) {
    const std::int64_t vectors = (features + Width - 1) / Width;
    if (vectors <= 4) return 0;
    if (vectors <= 8) return 1;
    if (vectors <= 16) return 2;
    if (degree >= 8) return 3;
    return vectors <= 32 ? 4 : 5;
  }
};
template <>
struct sddmm_tuning<1> {
  static constexpr std::array table{engine_policy{4, 1, 1, 8, 128}, engine_policy{32, 1, 1, 8, 128},
                                    engine_policy{32, 4, 1, 4, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t) {
    return features <= 4 ? 0 : features <= 32 ? 1 : 2;
  }
};

}  // namespace quipu::detail
