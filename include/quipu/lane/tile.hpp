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
  static constexpr bool side_by_side = false;
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

/// A tile that holds the features of one head, or a part of them. Tile indices count the parts of
/// all heads, and the groups of a slice's tiles lie side by side, so that neighbouring groups read
/// neighbouring heads of the same rows.
template <int Lanes, int Vectors, int Width>
struct head_tile : tile<Lanes, Vectors, Width> {
  static constexpr bool side_by_side = true;
  /// Tiles that a head takes.
  QUIPU_HD static std::int64_t parts(std::int64_t dim) {
    constexpr std::int64_t features = tile<Lanes, Vectors, Width>::features;
    return dim <= features ? 1 : (dim + features - 1) / features;
  }
};

template <int Lanes, int Vectors, int Width>
struct lane_position<head_tile<Lanes, Vectors, Width>> {
  std::int64_t head = 0;
  std::int64_t origin = 0;    // first feature of vector 0 in the head
  std::int64_t features = 0;  // of the head

  QUIPU_HD static lane_position at(int lane, std::int64_t tile_index, std::int64_t features) {
    using tile_type = head_tile<Lanes, Vectors, Width>;
    if (features <= tile_type::features) return {tile_index, lane * Width, features};
    const auto parts = tile_type::parts(features);
    return {tile_index / parts, tile_index % parts * tile_type::features + lane * Width, features};
  }
  QUIPU_HD std::int64_t feature(int vector) const {
    return origin + static_cast<std::int64_t>(vector) * (Lanes * Width);
  }
  QUIPU_HD bool active(int vector) const { return feature(vector) < features; }
  QUIPU_HD std::int64_t read_offset(int vector) const {
    return active(vector) ? feature(vector) : 0;
  }
};

}  // namespace quipu
