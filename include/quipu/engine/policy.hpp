// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace quipu {

/// How the device engine is laid out for one program, element and width.
struct engine_policy {
  int lanes;    // of a group
  int vectors;  // of a lane in one tile
  int width;    // elements of a vector
  int unroll;   // edges in flight in a group
  int threads;  // of a block

  friend constexpr bool operator==(const engine_policy&, const engine_policy&) = default;
};

}  // namespace quipu
