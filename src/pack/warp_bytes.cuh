// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace quipu::detail {

constexpr int warp_lanes = 32;

struct nothing_shared {};

/// Zeros for bytes [from, to), by a group of lanes.
template <int Lanes = warp_lanes>
__device__ inline void clear_bytes(int lane, std::byte* bytes, int from, int to) {
  for (int b = from + lane; b < to; b += Lanes) bytes[b] = std::byte{0};
}

}  // namespace quipu::detail
