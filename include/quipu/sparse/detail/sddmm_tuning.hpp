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
      engine_policy{4, 1, Width, 8, 128}, engine_policy{8, 1, Width, 8, 128},
      engine_policy{16, 1, Width, 8, 128}, engine_policy{32, 1, Width, 8, 128}};
  static constexpr int choose(std::int64_t features) {
    const std::int64_t vectors = (features + Width - 1) / Width;
    return vectors <= 4 ? 0 : vectors <= 8 ? 1 : vectors <= 16 ? 2 : 3;
  }
};
template <>
struct sddmm_tuning<1> {
  static constexpr std::array table{engine_policy{4, 1, 1, 8, 128}, engine_policy{32, 1, 1, 8, 128},
                                    engine_policy{32, 4, 1, 4, 128}};
  static constexpr int choose(std::int64_t features) {
    return features <= 4 ? 0 : features <= 32 ? 1 : 2;
  }
};

}  // namespace quipu::detail
