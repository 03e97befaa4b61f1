// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "quipu/engine/policy.hpp"

namespace quipu::detail {

enum class attention_kind { gat, gatv2, transformer };

/// How long rows are, by the mean degree: below 8 edges, below 32, below 64, above.
enum class row_length { few, some, more, many };
inline constexpr int row_lengths = 4;
constexpr row_length row_length_of(std::int64_t degree) {
  return degree < 8    ? row_length::few
         : degree < 32 ? row_length::some
         : degree < 64 ? row_length::more
                       : row_length::many;
}

/// Lay-outs of heads of 1, 2, 4 .. 128 vectors, for every length of rows. Tuning::lay_out makes
/// one; the same ones may come up again, as one kernel.
template <class Tuning>
struct head_lay_outs {
  static constexpr int widths = 8;
  static constexpr auto make() {
    std::array<engine_policy, row_lengths * widths> made{};
    for (int r = 0; r < row_lengths; ++r) {
      for (int w = 0; w < widths; ++w) {
        made[static_cast<std::size_t>(r * widths + w)] =
            Tuning::lay_out(1 << w, static_cast<row_length>(r));
      }
    }
    return made;
  }
  static constexpr int choose(std::int64_t vectors, std::int64_t degree) {
    int w = 0;
    while ((std::int64_t{1} << w) < vectors) ++w;
    return static_cast<int>(row_length_of(degree)) * widths + w;
  }
};

/// Lay-outs of a head, by its width and the length of rows. Logits are summed over the lanes for
/// each edge, so few lanes and a few edges at a time; very short rows want fewer still. Heads wider
/// than `widest` go by `wide`, part by part. Measured on an H200, 2026-11, on roads_like,
/// arxiv_like, web_like, tolokers_like, products_like and avazu_like (docs/performance.md).
template <int Width, attention_kind Kind>
struct attention_tuning {
  static constexpr bool narrow = Width > 4;  // elements of 16 bits
  static constexpr bool gat = Kind == attention_kind::gat;
  static constexpr bool gatv2 = Kind == attention_kind::gatv2;
  static constexpr bool transformer = Kind == attention_kind::transformer;

  /// For heads of up to `vectors` vectors, a power of two.
  static constexpr engine_policy lay_out(int vectors, row_length rows) {
    if (vectors < 4) return {vectors, 1, Width, 4, 128, 1};
    if (vectors == 128) return {32, 4, Width, 2, 128, 1};
    // Small heads of GAT have a weight to make for every few elements.
    const bool small_gat = gat && !narrow && vectors <= 8;
    if (small_gat && rows == row_length::many) return {vectors, 1, Width, 8, 128, 5};
    const bool few = rows == row_length::few;
    if (gatv2 && narrow && few && vectors == 16) return {16, 1, Width, 2, 128, 8};
    const int two_from = !narrow ? (transformer ? 16 : 4)
                         : gatv2 ? (rows == row_length::many ? 16 : 64)
                                 : (transformer ? 64 : 16);
    const bool two = vectors >= two_from || (few && !(transformer && narrow));
    const int edges = few || (small_gat && rows == row_length::some) ? 2 : 4;
    int blocks = 1;
    if (edges == 2) {
      blocks = narrow && two ? 1 : transformer && !narrow ? 6 : 7;
    } else if (gatv2) {
      blocks = narrow && two ? 1 : 5;
    } else if (transformer) {
      blocks = two ? 1 : narrow ? 5 : 7;
    } else {
      blocks = narrow ? 1 : two ? 5 : 7;
    }
    return {two ? vectors / 2 : vectors, two ? 2 : 1, Width, edges, 128, blocks};
  }

  using lay_outs = head_lay_outs<attention_tuning>;
  static constexpr auto table = lay_outs::make();
  static constexpr std::int64_t widest = 128 * Width;
  static constexpr engine_policy wide{32, 2, Width, 1, 128, 1};
  static constexpr int choose(std::int64_t dim, std::int64_t degree) {
    return lay_outs::choose((dim + Width - 1) / Width, degree);
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

enum class gradient_side { receivers, senders };

/// Records of receivers, for the senders' half, take 8 bytes a head, which shows beside heads of so
/// many bytes. From so many heads on, whose numbers fill a sector by themselves, 4 do: an edge
/// fetches no more for it. What a backward pass keeps falls from 3 to 2 parts in a hundred (8 heads
/// of 16 floats).
inline constexpr std::int64_t narrow_head_bytes = 64, many_heads = 8;

/// Lay-outs of gradients: two dot products an edge, and one or two rows in flight for each. Long
/// rows want four edges at a time, short ones two. Measured as above.
template <int Width, attention_kind Kind, gradient_side Side>
struct gradient_tuning {
  static constexpr bool narrow = Width > 4;
  static constexpr bool gat = Kind == attention_kind::gat;
  static constexpr bool gatv2 = Kind == attention_kind::gatv2;

  static constexpr bool of_receivers = Side == gradient_side::receivers;

  /// Edges at a time, for heads of 4 vectors and more.
  static constexpr int edges(int vectors, row_length rows) {
    switch (rows) {
      case row_length::few:
        return gatv2 && Width == 4 && of_receivers ? 4 : 2;
      case row_length::some:
        if (gatv2) return 4;
        if (narrow) return 2;
        return !gat || (of_receivers && vectors <= 8) ? 4 : 2;
      default:
        return 4;
    }
  }
  static constexpr engine_policy lay_out(int vectors, row_length rows) {
    if (vectors < 4) return {vectors, 1, Width, 2, 128, 1};
    if (vectors == 128) return {32, 4, Width, 1, 128, 1};
    const bool small_gat = gat && !narrow && vectors <= 8;
    if (small_gat && rows == row_length::many) return {vectors, 1, Width, 8, 128, 1};
    const int two_from = narrow ? 64 : gatv2 || (small_gat && rows <= row_length::some) ? 4 : 16;
    const bool two = vectors >= two_from;
    const int at_once = narrow && two ? 2 : edges(vectors, rows);
    const bool bounded = gatv2 && Width == 4;
    const int threads = bounded && vectors == 16 && rows == row_length::few ? 64 : 128;
    // As many as take no local memory.
    const int blocks = bounded ? 32 * (of_receivers || at_once == 2 ? 16 : 12) / threads : 1;
    return {two ? vectors / 2 : vectors, two ? 2 : 1, Width, at_once, threads, blocks};
  }

  using lay_outs = head_lay_outs<gradient_tuning>;
  static constexpr auto table = lay_outs::make();
  static constexpr std::int64_t widest = 128 * Width;
  static constexpr int choose(std::int64_t dim, std::int64_t degree) {
    return lay_outs::choose((dim + Width - 1) / Width, degree);
  }
};
template <attention_kind Kind, gradient_side Side>
struct gradient_tuning<1, Kind, Side> {
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
