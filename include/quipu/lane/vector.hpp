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

/// The same of memory that the kernel writes as well: past the read-only cache.
template <class T, int Width>
QUIPU_HD inline raw_vector<T, Width> load_written_vector(const T* from) {
  raw_vector<T, Width> v;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) * Width == 16) {
    const uint4 bits = *reinterpret_cast<const uint4*>(from);
    memcpy(&v, &bits, sizeof v);
  } else {
    for (int i = 0; i < Width; ++i) v.data[i] = from[i];
  }
#else
  memcpy(static_cast<void*>(&v), from, sizeof v);
#endif
  return v;
}

/// What becomes of a written row in the device's cache: kept, when inputs and outputs fit it
/// together and someone may read it soon; or streamed, so that it does not push gathered rows out.
enum class store_hint : std::uint8_t { keep, stream };

template <class T, int Width>
QUIPU_HD inline void store_vector(T* to, const raw_vector<T, Width>& v,
                                  [[maybe_unused]] store_hint hint) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) * Width == 16) {
    uint4 bits;
    memcpy(&bits, &v, sizeof v);
    if (hint == store_hint::stream) {
      __stcs(reinterpret_cast<uint4*>(to), bits);
    } else {
      *reinterpret_cast<uint4*>(to) = bits;
    }
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

  QUIPU_HD accumulator<T> value(int i) const {
    if constexpr (std::is_same_v<T, bfloat16> && Tile::width % 2 == 0) {
      // Two to a word: one shift or one mask each, where element by element it takes two steps.
      const auto& v = vectors[i / Tile::width];
      std::uint32_t word;
      memcpy(&word, &v.data[i % Tile::width / 2 * 2], sizeof word);
      const std::uint32_t bits = i % 2 == 0 ? word << 16 : word & 0xffff0000u;
      float x;
      memcpy(&x, &bits, sizeof x);
      return x;
    } else {
      return widen(vectors[i / Tile::width].data[i % Tile::width]);
    }
  }
};

/// On the host a lane's vector is long, and is read where it lies instead of being copied first.
template <class T, class Tile>
requires(sizeof(T) * Tile::width > 16) struct fragment<T, Tile> {
  using element_type = T;
  const T* vectors[Tile::vectors];

  QUIPU_HD accumulator<T> value(int i) const {
    return widen(vectors[i / Tile::width][i % Tile::width]);
  }
};

template <class T, class Tile>
QUIPU_HD inline void load_fragment_vector(fragment<T, Tile>& f, int vector, const T* from) {
  if constexpr (sizeof(T) * Tile::width > 16) {
    f.vectors[vector] = from;
  } else {
    f.vectors[vector] = load_vector<T, Tile::width>(from);
  }
}

/// Writes a lane's part of an output row, converting `values` to T.
template <class T, class Tile>
QUIPU_HD inline void store_fragment(const lane_position<Tile>& at, T* row,
                                    const accumulator<T> (&values)[Tile::elements],
                                    store_hint hint = store_hint::keep) {
  QUIPU_UNROLL
  for (int v = 0; v < Tile::vectors; ++v) {
    if (!at.active(v)) continue;
    raw_vector<T, Tile::width> out;
    QUIPU_UNROLL
    for (int e = 0; e < Tile::width; ++e) out.data[e] = narrow<T>(values[v * Tile::width + e]);
    store_vector(row + at.feature(v), out, hint);
  }
}

}  // namespace quipu
