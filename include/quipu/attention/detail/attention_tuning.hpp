// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "quipu/engine/policy.hpp"

namespace quipu::detail {

enum class attention_kind { gat, gatv2, transformer };

/// Lay-outs of a head, by its width and the mean degree. Logits are summed over the lanes for each
/// edge, so few lanes and a few edges at a time; very short rows want fewer still. Heads wider than
/// `widest` go by `wide`, part by part. Measured on an H200, 2026-11, on roads_like, arxiv_like,
/// web_like, tolokers_like, products_like and avazu_like (docs/performance.md).
template <int Width, attention_kind Kind>
struct attention_tuning {
  static constexpr bool narrow = Width > 4;  // elements of 16 bits
  static constexpr bool gatv2 = Kind == attention_kind::gatv2;
  static constexpr bool transformer = Kind == attention_kind::transformer;

  /// For heads of up to `vectors` vectors, a power of two.
  static constexpr engine_policy lay_out(int vectors, bool short_rows) {
    const int two_from = gatv2 && !narrow ? 4 : (gatv2 || transformer) && narrow ? 64 : 16;
    const bool two = vectors >= two_from || (short_rows && !(transformer && narrow));
    const int of_a_lane = vectors >= 128 ? 4 : two ? 2 : 1;
    const int edges = short_rows || of_a_lane == 4 ? 2 : 4;
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

  static constexpr std::array table{lay_out(1, false),  lay_out(2, false),  lay_out(4, false),
                                    lay_out(8, false),  lay_out(16, false), lay_out(32, false),
                                    lay_out(64, false), lay_out(16, true),  lay_out(32, true),
                                    lay_out(64, true),  lay_out(128, false)};
  static constexpr std::int64_t widest = 128 * Width;
  static constexpr engine_policy wide{32, 2, Width, 1, 128, 1};
  static constexpr int choose(std::int64_t dim, std::int64_t degree) {
    const std::int64_t vectors = (dim + Width - 1) / Width;
    if (vectors > 64) return 10;
    int index = 0;
    while ((std::int64_t{1} << index) < vectors) ++index;
    return index >= 4 && degree < 8 ? index + 3 : index;
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
/// rows want four edges at a time, short ones two; gatv2, which holds most, four only where a lane
/// has one vector. Measured as above.
template <int Width, attention_kind Kind>
struct gradient_tuning {
  static constexpr engine_policy lay_out(int vectors, bool short_rows) {
    const bool gatv2 = Kind == attention_kind::gatv2;
    const bool one = gatv2 && Width == 4 && vectors == 32 && !short_rows;
    const int of_a_lane = vectors >= 128 ? 4 : vectors >= (Width == 4 ? 16 : 64) && !one ? 2 : 1;
    const bool two = short_rows || (gatv2 && Width == 4 && of_a_lane == 2);
    const int edges = of_a_lane == 4 ? 1 : two ? 2 : 4;
    return {vectors / of_a_lane, of_a_lane, Width, edges, 128, 1};
  }
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
    return index >= 2 && degree >= 32 ? index + 5 : index;
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
