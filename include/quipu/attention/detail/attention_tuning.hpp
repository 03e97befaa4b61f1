// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "quipu/engine/policy.hpp"

namespace quipu::detail {

enum class attention_kind { gat, gatv2, transformer };

/// How long rows are, by the mean degree: below 8 edges, below 64, above.
enum class row_length { few, some, many };

/// Lay-outs of a head, by its width and the length of rows. Logits are summed over the lanes for
/// each edge, so few lanes and a few edges at a time; very short rows want fewer still. Heads wider
/// than `widest` go by `wide`, part by part. Measured on an H200, 2026-11, on roads_like,
/// arxiv_like, web_like, tolokers_like, products_like and avazu_like (docs/performance.md).
template <int Width, attention_kind Kind>
struct attention_tuning {
  static constexpr bool narrow = Width > 4;  // elements of 16 bits
  static constexpr bool gatv2 = Kind == attention_kind::gatv2;
  static constexpr bool transformer = Kind == attention_kind::transformer;

  /// For heads of up to `vectors` vectors, a power of two.
  static constexpr engine_policy lay_out(int vectors, row_length rows) {
    const bool few = rows == row_length::few;
    const int two_from = !narrow ? (transformer ? 16 : 4)
                         : gatv2 ? (rows == row_length::many ? 16 : 64)
                                 : (transformer ? 64 : 16);
    const bool two = vectors >= two_from || (few && !(transformer && narrow));
    const int of_a_lane = vectors >= 128 ? 4 : two ? 2 : 1;
    const int edges = few || of_a_lane == 4 ? 2 : 4;
    int blocks = 1;
    if (edges == 2) {
      blocks = of_a_lane == 4 || (narrow && two) ? 1 : 6;
    } else if (gatv2) {
      blocks = narrow && two ? 1 : 5;
    } else if (transformer) {
      blocks = two ? 1 : narrow ? 5 : 7;
    } else {
      blocks = narrow ? 1 : two ? 5 : 7;
    }
    return {vectors / of_a_lane, of_a_lane, Width, edges, 128, vectors < 4 ? 1 : blocks};
  }

  // For every width, then where another length was measured: few from 4 to 64, many at 16.
  static constexpr std::array table{
      lay_out(1, row_length::some),  lay_out(2, row_length::some),   lay_out(4, row_length::some),
      lay_out(8, row_length::some),  lay_out(16, row_length::some),  lay_out(32, row_length::some),
      lay_out(64, row_length::some), lay_out(128, row_length::some), lay_out(4, row_length::few),
      lay_out(8, row_length::few),   lay_out(16, row_length::few),   lay_out(32, row_length::few),
      lay_out(64, row_length::few),  lay_out(16, row_length::many)};
  static constexpr std::int64_t widest = 128 * Width;
  static constexpr engine_policy wide{32, 2, Width, 1, 128, 1};
  static constexpr int choose(std::int64_t dim, std::int64_t degree) {
    const std::int64_t vectors = (dim + Width - 1) / Width;
    int index = 0;
    while ((std::int64_t{1} << index) < vectors) ++index;
    if (degree < 8 && index >= 2 && index <= 6) return index + 6;
    if (degree >= 64 && index == 4) return 13;
    return index;
  }
};
template <attention_kind Kind>
struct attention_tuning<1, Kind> {
  static constexpr std::array table{
      engine_policy{1, 1, 1, 4, 128, 1}, engine_policy{4, 1, 1, 4, 128, 1},
      engine_policy{32, 1, 1, 4, 128, 1}, engine_policy{32, 4, 1, 4, 128, 1},
      engine_policy{32, 8, 1, 2, 128, 1}};
  static constexpr std::int64_t widest = 32 * 8;
  static constexpr engine_policy wide{32, 4, 1, 1, 128, 1};
  static constexpr int choose(std::int64_t dim, std::int64_t) {
    return dim <= 1 ? 0 : dim <= 4 ? 1 : dim <= 32 ? 2 : dim <= 128 ? 3 : 4;
  }
};

/// Lay-outs of gradients: two dot products an edge, and one or two rows in flight for each. Long
/// rows want four edges at a time, short ones two. Measured as above.
template <int Width, attention_kind Kind>
struct gradient_tuning {
  static constexpr engine_policy lay_out(int vectors, bool short_rows) {
    const int two_from = Width > 4 ? 64 : Kind == attention_kind::gatv2 ? 4 : 16;
    const int of_a_lane = vectors >= 128 ? 4 : vectors >= two_from ? 2 : 1;
    const int edges = of_a_lane == 4 ? 1 : short_rows || (Width > 4 && of_a_lane == 2) ? 2 : 4;
    return {vectors / of_a_lane, of_a_lane, Width, edges, 128, 1};
  }
  static constexpr std::int64_t long_rows = Kind == attention_kind::gatv2 ? 8 : 32;
  static constexpr std::array table{lay_out(1, true),   lay_out(2, true),   lay_out(4, true),
                                    lay_out(8, true),   lay_out(16, true),  lay_out(32, true),
                                    lay_out(64, true),  lay_out(4, false),  lay_out(8, false),
                                    lay_out(16, false), lay_out(32, false), lay_out(64, false),
                                    lay_out(128, false)};
  static constexpr std::int64_t widest = 128 * Width;
  static constexpr int choose(std::int64_t dim, std::int64_t degree) {
    const std::int64_t vectors = (dim + Width - 1) / Width;
    if (vectors > 64) return 12;
    int index = 0;
    while ((std::int64_t{1} << index) < vectors) ++index;
    return index >= 2 && degree >= long_rows ? index + 5 : index;
  }
};
template <attention_kind Kind>
struct gradient_tuning<1, Kind> {
  static constexpr std::array table{
      engine_policy{1, 1, 1, 2, 128, 1}, engine_policy{4, 1, 1, 2, 128, 1},
      engine_policy{32, 1, 1, 2, 128, 1}, engine_policy{32, 4, 1, 2, 128, 1},
      engine_policy{32, 8, 1, 1, 128, 1}};
  static constexpr std::int64_t widest = 32 * 8;
  static constexpr int choose(std::int64_t dim, std::int64_t) {
    return dim <= 1 ? 0 : dim <= 4 ? 1 : dim <= 32 ? 2 : dim <= 128 ? 3 : 4;
  }
};

}  // namespace quipu::detail
