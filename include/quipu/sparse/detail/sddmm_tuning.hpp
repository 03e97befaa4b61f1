// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "quipu/engine/policy.hpp"

namespace quipu::detail {

/// Lay-outs of the sampled product: few lanes, because what lanes hold must be summed over them,
/// and few edges at a time, because each adds its sums to those that wait; the widest rows go tile
/// by tile. Measured on an H200 (docs/performance.md): eight edges at a time took 1.2 to 1.9 times
/// as long in rows of one vector a lane.
template <int Width>
struct sddmm_tuning {
  static constexpr std::array table{
      engine_policy{4, 1, Width, 4, 128}, engine_policy{8, 1, Width, 4, 128},
      engine_policy{16, 1, Width, 4, 128}, engine_policy{16, 2, Width, 2, 128},
      engine_policy{32, 2, Width, 2, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t) {
    const std::int64_t vectors = (features + Width - 1) / Width;
    return vectors <= 4 ? 0 : vectors <= 8 ? 1 : vectors <= 16 ? 2 : vectors <= 32 ? 3 : 4;
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
