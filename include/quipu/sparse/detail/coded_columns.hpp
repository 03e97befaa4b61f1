// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "quipu/engine/row_source.hpp"

namespace quipu::detail {

/// Column ids whose spare upper bits name the column's scale: a code into a short table, or the
/// last code, which sends the reader to the scales themselves. The scale of a gathered row then
/// costs no traffic: looked up by column it costs a 32-byte sector an edge, 6 % of a row of 128
/// fp32 features.
template <node_index I>
struct column_code {
  using bits_type = std::make_unsigned_t<I>;
  int id_bits = 0;
  bits_type elsewhere = 0;  // the code that stands in no table

  QUIPU_HD I id(I coded) const {
    return static_cast<I>(static_cast<bits_type>(coded) & ((bits_type{1} << id_bits) - 1));
  }
  QUIPU_HD bits_type code(I coded) const { return static_cast<bits_type>(coded) >> id_bits; }
};

/// Dense rows, found by coded columns.
template <element T, node_index I>
struct coded_rows {
  using element_type = T;
  template <class Tile>
  using cursor = typename dense_rows<T>::template cursor<Tile>;

  dense_rows<T> rows;
  column_code<I> columns;

  template <class Tile>
  QUIPU_HD cursor<Tile> begin(const lane_position<Tile>& at) const {
    return rows.template begin<Tile>(at);
  }
  template <class Tile>
  QUIPU_HD fragment<T, Tile> load(const cursor<Tile>& c, I coded) const {
    return rows.template load<Tile>(c, columns.id(coded));
  }
};

/// The factor that a coded column carries. If the table holds every scale of the graph, nobody
/// looks elsewhere, which short rows would feel.
template <node_index I, bool Complete>
struct coded_column_factor {
  column_code<I> columns;
  const float* table;
  const float* scales;
  template <class A>
  QUIPU_HD A at(std::int64_t, I coded) const {
    const auto code = columns.code(coded);
    if constexpr (Complete) {
      return static_cast<A>(table[code]);
    } else {
      return static_cast<A>(code == columns.elsewhere ? scales[columns.id(coded)] : table[code]);
    }
  }
};

}  // namespace quipu::detail
