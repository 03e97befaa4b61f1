// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "quipu/core/config.hpp"

namespace quipu {

#ifdef __CUDACC__
/// The lanes of the caller's group, which all take part.
template <int Lanes>
__device__ inline unsigned group_mask() {
  if constexpr (Lanes == 32) {
    return 0xffffffffu;
  } else {
    return ((1u << Lanes) - 1u) << (threadIdx.x % 32u / Lanes * Lanes);
  }
}

/// The value of lane `from` of the group, for all of its lanes.
template <int Lanes, class A>
__device__ inline A tell_group(A value, int from) {
  return __shfl_sync(group_mask<Lanes>(), value, from, Lanes);
}

/// Whether a condition holds in any lane of the group. Groups that are less than a warp exchange
/// it: their votes would be taken one group after the other.
template <int Lanes>
__device__ inline bool any_of_group(bool condition) {
  if constexpr (Lanes == 32) return __any_sync(0xffffffffu, condition) != 0;
  int any = condition ? 1 : 0;
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    any |= __shfl_xor_sync(group_mask<Lanes>(), any, offset);
  }
  return any != 0;
}

/// The sum over the lanes of a group, in all of them.
template <int Lanes, class A>
__device__ inline A sum_group(A x) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(group_mask<Lanes>(), x, offset);
  }
  return x;
}
#endif

/// Sums over the lanes of a group, for `Count` values at once: a tree that halves the values at
/// every step as long as there are any to halve, so that it takes Count - 1 exchanges and one for
/// each lane bit left, instead of a whole tree a value. Both are powers of two. Afterwards lane l
/// holds the sums of `held` values, the first of them value `first(l)`, in values[0 .. held).
template <int Lanes, int Count>
struct group_sum {
  static_assert(std::has_single_bit(static_cast<unsigned>(Lanes)) &&
                std::has_single_bit(static_cast<unsigned>(Count)));
  static constexpr int held = Count > Lanes ? Count / Lanes : 1;
  /// Lanes that hold the same value.
  static constexpr int copies = Count < Lanes ? Lanes / Count : 1;
  QUIPU_HD static int first(int lane) { return lane / copies * held; }

#ifdef __CUDACC__
  template <class A>
  __device__ static void apply(A (&values)[Count]) {
    const unsigned lane = threadIdx.x % 32u;
    const unsigned mask = group_mask<Lanes>();
    int left = Count;
#pragma unroll
    for (int offset = Lanes / 2; offset > 0; offset /= 2) {
      if (left > 1) {
        left /= 2;
        const bool upper = (lane & static_cast<unsigned>(offset)) != 0;
#pragma unroll
        for (int i = 0; i < left; ++i) {
          const A sent = upper ? values[i] : values[i + left];
          const A kept = upper ? values[i + left] : values[i];
          values[i] = kept + __shfl_xor_sync(mask, sent, offset);
        }
      } else {
        values[0] += __shfl_xor_sync(mask, values[0], offset);
      }
    }
  }
#endif
};

}  // namespace quipu
