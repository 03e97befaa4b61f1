// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/view.hpp"
#include "quipu/lane/vector.hpp"

namespace quipu {

/// Where a sender's row comes from. A row source has
///   element_type            what a fragment holds
///   cursor<Tile>            what a lane keeps for a whole slice
///   cursor<Tile> begin(lane_position<Tile>) const
///   fragment<T, Tile> load(cursor<Tile>, column) const
/// and is a small trivially copyable value.

/// Rows of a dense matrix in memory that the executor can read, `longest_stride` apart at most.
template <element T>
struct dense_rows {
  using element_type = T;

  const T* data = nullptr;
  std::int64_t row_stride = 0;  // elements

  dense_rows() = default;
  explicit dense_rows(const matrix_view<const T>& m)
      : data(m.data_handle()), row_stride(m.stride(0)) {}

  template <class Tile>
  struct cursor {
    const T* row0;                      // vector 0 of this lane in row 0
    std::int32_t shift[Tile::vectors];  // from vector 0 to vector v
  };

  template <class Tile>
  QUIPU_HD cursor<Tile> begin(const lane_position<Tile>& at) const {
    cursor<Tile> c;
    c.row0 = data + at.read_offset(0);
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      c.shift[v] = static_cast<std::int32_t>(at.read_offset(v) - at.read_offset(0));
    }
    return c;
  }

  template <class Tile, class I>
  QUIPU_HD fragment<T, Tile> load(const cursor<Tile>& c, I column) const {
    const T* row = c.row0 + row_start(column);
    fragment<T, Tile> f;
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) load_fragment_vector(f, v, row + c.shift[v]);
    return f;
  }

 private:
  QUIPU_HD std::int64_t row_start(std::int64_t column) const { return column * row_stride; }
  // 32-bit ids: one widening multiply.
  QUIPU_HD std::int64_t row_start(std::int32_t column) const {
    return static_cast<std::int64_t>(
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(column)) *
        static_cast<std::uint32_t>(row_stride));
  }
};

/// Rows of several heads, of which a group reads one.
template <element T>
struct head_rows {
  using element_type = T;

  const T* data = nullptr;
  std::int64_t row_stride = 0, head_stride = 0;  // elements

  head_rows() = default;
  explicit head_rows(const heads_view<const T>& m)
      : data(m.data_handle()), row_stride(m.stride(0)), head_stride(m.stride(1)) {}

  template <class Tile>
  struct cursor {
    const T* row0[Tile::vectors];  // a pointer more a vector, two instructions fewer an edge
  };

  template <class Tile>
  QUIPU_HD cursor<Tile> begin(const lane_position<Tile>& at) const {
    cursor<Tile> c;
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      c.row0[v] = data + at.head * head_stride + at.read_offset(v);
    }
    return c;
  }

  template <class Tile, class I>
  QUIPU_HD fragment<T, Tile> load(const cursor<Tile>& c, I column) const {
    fragment<T, Tile> f;
    QUIPU_UNROLL
    for (int v = 0; v < Tile::vectors; ++v) {
      load_fragment_vector(f, v, row_at(c.row0[v], column));
    }
    return f;
  }

 private:
  QUIPU_HD const T* row_at(const T* row0, std::int64_t column) const {
    return row0 + column * row_stride;
  }
  QUIPU_HD const T* row_at(const T* row0, std::int32_t column) const {
    const auto id = static_cast<std::uint32_t>(column);
#ifdef __CUDA_ARCH__
    // One instruction. As written below it takes three, which sums do not mind: the registers that
    // this takes instead cost them 2 %.
    const auto bytes = static_cast<std::uint32_t>(row_stride * std::int64_t{sizeof(T)});
    std::uint64_t address;
    asm("mad.wide.u32 %0, %1, %2, %3;"
        : "=l"(address)
        : "r"(id), "r"(bytes), "l"(reinterpret_cast<std::uint64_t>(row0)));
    return reinterpret_cast<const T*>(address);
#else
    return row0 + static_cast<std::uint64_t>(id) * static_cast<std::uint32_t>(row_stride);
#endif
  }
};

/// For programs that read what they need themselves: nothing is fetched.
struct no_rows {
  template <class Tile>
  struct cursor {};
  struct nothing {};
  template <class Tile>
  QUIPU_HD cursor<Tile> begin(const lane_position<Tile>&) const {
    return {};
  }
  template <class Tile, class I>
  QUIPU_HD nothing load(const cursor<Tile>&, I) const {
    return {};
  }
};

}  // namespace quipu
