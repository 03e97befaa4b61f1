// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "quipu/core/element.hpp"
#include "quipu/lane/tile.hpp"
#include "quipu/math/convert.hpp"

namespace quipu {

/// `Width` neighbouring elements as they lie in memory; one 16-byte access on the device when they
/// fill 16 bytes.
template <class T, int Width>
struct alignas(sizeof(T) * Width == 16 ? 16 : sizeof(T)) raw_vector {
  T data[Width];
};

template <class T, int Width>
QUIPU_HD inline raw_vector<T, Width> load_vector(const T* from) {
  raw_vector<T, Width> v;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) * Width == 16) {
    const uint4 bits = __ldg(reinterpret_cast<const uint4*>(from));
    memcpy(&v, &bits, sizeof v);
  } else if constexpr (Width == 1) {
    v.data[0] = __ldg(from);
  } else {
    for (int i = 0; i < Width; ++i) v.data[i] = __ldg(from + i);
  }
#else
  memcpy(static_cast<void*>(&v), from, sizeof v);
#endif
  return v;
}

template <class T, int Width>
QUIPU_HD inline void store_vector(T* to, const raw_vector<T, Width>& v) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) * Width == 16) {
    uint4 bits;
    memcpy(&bits, &v, sizeof v);
    __stcs(reinterpret_cast<uint4*>(to), bits);  // written once: let it leave the cache early
  } else {
    QUIPU_UNROLL
    for (int i = 0; i < Width; ++i) to[i] = v.data[i];
  }
#else
  memcpy(static_cast<void*>(to), &v, sizeof v);
#endif
}

/// The features of one row that one lane holds, unconverted.
template <class T, class Tile>
struct fragment {
  using element_type = T;
  raw_vector<T, Tile::width> vectors[Tile::vectors];

  QUIPU_HD T raw(int i) const { return vectors[i / Tile::width].data[i % Tile::width]; }
  QUIPU_HD accumulator<T> value(int i) const { return widen(raw(i)); }
};

/// Writes a lane's part of an output row, converting `values` to T.
template <class T, class Tile>
QUIPU_HD inline void store_fragment(const lane_position<Tile>& at, T* row,
                                    const accumulator<T> (&values)[Tile::elements]) {
  QUIPU_UNROLL
  for (int v = 0; v < Tile::vectors; ++v) {
    if (!at.active(v)) continue;
    raw_vector<T, Tile::width> out;
    QUIPU_UNROLL
    for (int e = 0; e < Tile::width; ++e) out.data[e] = narrow<T>(values[v * Tile::width + e]);
    store_vector(row + at.feature(v), out);
  }
}

}  // namespace quipu
