// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/capability.hpp"
#include "quipu/engine/policy.hpp"

namespace quipu::detail {

/// Which lay-outs are built: lanes x vectors, for 16-byte vectors (width 16 / sizeof(T)) and for
/// single elements (width 1: misaligned rows, and widths that fill no whole vector). A kernel takes
/// the first entry that covers the row in one tile, else the last one, tile by tile.
struct tile_shape {
  int lanes;
  int vectors;
};

/// Kinds of programs by what a lane must hold for each element.
enum class state_weight { light, heavy };  // sum: 1 register; several at once, winners: 6

template <int ElementBytes, int Width, state_weight Weight>
struct aggregate_tuning {
  static constexpr bool vectorised = Width > 1;

  static constexpr tile_shape light_vector[] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {16, 1}, {32, 1}, {32, 2}};
  static constexpr tile_shape heavy_vector[] = {{4, 1}, {16, 1}, {32, 1}};
  static constexpr tile_shape light_single[] = {{1, 1}, {8, 1}, {32, 1}, {32, 4}};
  static constexpr tile_shape heavy_single[] = {{8, 1}, {32, 1}};

  static constexpr const tile_shape* shapes() {
    if constexpr (Weight == state_weight::light) return vectorised ? light_vector : light_single;
    return vectorised ? heavy_vector : heavy_single;
  }
  static constexpr int size() {
    if constexpr (Weight == state_weight::light) return vectorised ? 7 : 4;
    return vectorised ? 3 : 2;
  }

  static constexpr engine_policy policy(int i) {
    const auto s = shapes()[i];
    const int unroll = Weight == state_weight::heavy ? 4 : s.vectors >= 2 ? 4 : 8;
    return {s.lanes, s.vectors, Width, unroll, 128};
  }

  /// Index of the policy for rows of this many features.
  static constexpr int choose(std::int64_t features) {
    const std::int64_t vectors = (features + Width - 1) / Width;
    for (int i = 0; i < size(); ++i) {
      if (shapes()[i].lanes * shapes()[i].vectors >= vectors) return i;
    }
    return size() - 1;
  }
};

}  // namespace quipu::detail
