// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/config.hpp"

namespace quipu {

/// How the features of a row are dealt to a group of lanes: vector v of lane l starts at feature
/// (v * lanes + l) * width, so neighbouring lanes read neighbouring vectors. A row wider than one
/// tile is walked tile by tile. On the host a group has one lane.
template <int Lanes, int Vectors, int Width>
struct tile {
  static_assert(Lanes >= 1 && Lanes <= 32 && (Lanes & (Lanes - 1)) == 0, "a part of a warp");
  static constexpr int lanes = Lanes;
  static constexpr int vectors = Vectors;
  static constexpr int width = Width;                // elements of one vector
  static constexpr int elements = Vectors * Width;   // of one lane
  static constexpr int features = Lanes * elements;  // of the group
};

/// Where one lane stands in the row: which features it owns. Row widths are multiples of the vector
/// width (kernels with width 1 take all others), so a vector is owned whole or not at all.
template <class Tile>
struct lane_position {
  std::int64_t origin = 0;    // first feature of vector 0
  std::int64_t features = 0;  // of the whole row

  QUIPU_HD static lane_position at(int lane, std::int64_t tile_index, std::int64_t features) {
    return {tile_index * Tile::features + lane * Tile::width, features};
  }
  QUIPU_HD std::int64_t feature(int vector) const {
    return origin + static_cast<std::int64_t>(vector) * (Tile::lanes * Tile::width);
  }
  QUIPU_HD bool active(int vector) const { return feature(vector) < features; }

  /// Where to read: lanes without a vector read feature 0 along with lane 0, which costs no traffic
  /// and spares the inner loop every mask. What they compute is never stored.
  QUIPU_HD std::int64_t read_offset(int vector) const {
    return active(vector) ? feature(vector) : 0;
  }
};

}  // namespace quipu
