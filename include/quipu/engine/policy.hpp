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
  // What the compiler must leave registers for on a multiprocessor; 0: it chooses. With a bound it
  // puts all loads of a batch before their first use, without one it sometimes does not.
  int least_blocks = 0;

  friend constexpr bool operator==(const engine_policy&, const engine_policy&) = default;
};

}  // namespace quipu
