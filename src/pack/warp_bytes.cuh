// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace quipu::detail {

constexpr int warp_lanes = 32;

struct nothing_shared {};

/// Calls use.operator()<Lanes>() with as many lanes as a record of so many vectors keeps busy, one
/// each.
template <class Use>
auto with_lanes(std::int64_t vectors, Use&& use) {
  if (vectors <= 4) return use.template operator()<4>();
  if (vectors <= 8) return use.template operator()<8>();
  if (vectors <= 16) return use.template operator()<16>();
  return use.template operator()<warp_lanes>();
}

/// Zeros for bytes [from, to), by a group of lanes.
template <int Lanes = warp_lanes>
__device__ inline void clear_bytes(int lane, std::byte* bytes, int from, int to) {
  for (int b = from + lane; b < to; b += Lanes) bytes[b] = std::byte{0};
}

}  // namespace quipu::detail
