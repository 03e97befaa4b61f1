// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/config.hpp"

namespace quipu {

/// Finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// 2014): a bijection.
QUIPU_HD inline std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Number `counter` of a stream: splitmix64 with random access, in integers alone, so that host and
/// device agree bit for bit.
QUIPU_HD inline std::uint64_t random_bits(std::uint64_t stream, std::uint64_t counter) {
  return mix_bits(stream + (counter + 1) * 0x9e3779b97f4a7c15ull);
}

}  // namespace quipu
