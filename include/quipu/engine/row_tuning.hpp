// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "quipu/engine/policy.hpp"

namespace quipu::detail {

/// Kinds of programs by what a lane must hold for each element of a row: sums and winners hold one
/// or two registers, several reductions at once four to six. `factored` programs are light but for
/// a factor that is read for each edge, `coded` ones for a factor that is looked up by a code in
/// the edge's id. `rare` programs are remedies for odd input: one lay-out serves them all.
enum class state_weight { light, factored, coded, heavy, rare };

/// The lay-outs that are built, and which one a row gets. Width 1 serves misaligned rows and rows
/// that fill no whole vector; all other kernels read 16 bytes a lane.
///
/// Measured on an H200, 2026-11, over the graphs of docs/performance.md, which has the figures.
/// What they tell:
/// - short rows want several rows a warp (two vectors a lane, half the lanes) and three or four
///   edges in flight; long rows want one vector a lane and six or eight;
/// - rows of two tiles and more are quicker tile by tile than in one wide tile, because a tile's
///   slice of the table is more likely to stay in L2; only very short rows lose more by the second
///   visit;
/// - rows of 16 bits and short rows of 128 fp32 features want blocks of 128 threads, others of 256.
template <int Width, state_weight Weight>
struct row_tuning;

/// A row is short if its graph has fewer edges a row than this.
constexpr std::int64_t short_degree = 32;
constexpr std::int64_t very_short_degree = 8;

/// Lay-outs by width and degree, where each kind of program has the same ones to choose from.
struct by_degree {
  /// Index of the lay-out for rows of this many vectors. Rows of 9 to 16 vectors are taken for
  /// short below `short_16` edges.
  static constexpr int choose(std::int64_t vectors, std::int64_t degree, std::int64_t short_16) {
    if (vectors <= 1) return 0;
    if (vectors <= 2) return 1;
    if (vectors <= 4) return 2;
    if (vectors <= 8) return 3;
    if (vectors <= 16) return degree < short_16 ? 4 : 5;
    if (degree >= short_degree) return 7;
    if (vectors <= 32) return 6;
    return degree < very_short_degree ? 8 : 9;
  }
};

template <int Width>
requires(Width > 1) struct row_tuning<Width, state_weight::light> {
  static constexpr bool narrow = Width > 4;  // elements of 16 bits: more registers a vector
  static constexpr std::array table{
      engine_policy{1, 1, Width, 4, 128},
      engine_policy{2, 1, Width, 4, 128},
      engine_policy{4, 1, Width, 8, 128},
      engine_policy{8, 1, Width, 8, 128},
      engine_policy{8, 2, Width, 4, narrow ? 128 : 256, narrow ? 7 : 0},
      engine_policy{16, 1, Width, narrow ? 6 : 8, 256},
      engine_policy{16, 2, Width, 4, 128, narrow ? 7 : 0},
      engine_policy{32, 1, Width, narrow ? 6 : 8, 256},
      engine_policy{32, 2, Width, 4, 128, narrow ? 7 : 0},
      engine_policy{32, 1, Width, narrow ? 6 : 8, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t degree) {
    return by_degree::choose((features + Width - 1) / Width, degree, short_degree);
  }
};

template <>
struct row_tuning<1, state_weight::light> {
  static constexpr std::array table{engine_policy{1, 1, 1, 8, 128}, engine_policy{8, 1, 1, 8, 128},
                                    engine_policy{32, 1, 1, 8, 128},
                                    engine_policy{32, 4, 1, 4, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t) {
    return features <= 1 ? 0 : features <= 8 ? 1 : features <= 32 ? 2 : 3;
  }
};

template <int Width>
requires(Width > 1) struct row_tuning<Width, state_weight::factored> {
  static constexpr bool narrow = Width > 4;
  static constexpr std::array table{
      engine_policy{1, 1, Width, 4, 128},
      engine_policy{2, 1, Width, 4, 128},
      engine_policy{4, 1, Width, 8, 128},
      engine_policy{8, 1, Width, 8, 128},
      engine_policy{8, 2, Width, 4, 128, 7},
      engine_policy{16, 1, Width, narrow ? 6 : 8, 256, narrow ? 0 : 3},
      engine_policy{16, 2, Width, 4, 128, 7},
      engine_policy{32, 1, Width, 8, 256},
      engine_policy{32, 2, Width, 4, 128},
      engine_policy{32, 1, Width, 8, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t degree) {
    return by_degree::choose((features + Width - 1) / Width, degree, 2 * short_degree);
  }
};

template <int Width>
requires(Width > 1) struct row_tuning<Width, state_weight::coded> {
  static constexpr bool narrow = Width > 4;
  static constexpr std::array table{engine_policy{1, 1, Width, 4, 128},
                                    engine_policy{2, 1, Width, 4, 128},
                                    engine_policy{4, 1, Width, 8, 128},
                                    engine_policy{8, 1, Width, 8, 128},
                                    engine_policy{8, 2, Width, 3, narrow ? 128 : 256},
                                    engine_policy{16, 1, Width, 6, 256},
                                    engine_policy{16, 2, Width, 3, 128},
                                    engine_policy{32, 1, Width, 8, 256},
                                    engine_policy{32, 2, Width, 3, 128},
                                    engine_policy{32, 1, Width, 8, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t degree) {
    return by_degree::choose((features + Width - 1) / Width, degree, 2 * short_degree);
  }
};

template <>
struct row_tuning<1, state_weight::factored> : row_tuning<1, state_weight::light> {};
template <>
struct row_tuning<1, state_weight::coded> {
  // Eight edges of one feature, each with a look-up, spill, and so they do of eight lanes unless a
  // block may have all registers that it asks for.
  static constexpr std::array table{
      engine_policy{1, 1, 1, 4, 128}, engine_policy{8, 1, 1, 8, 128, 1},
      engine_policy{32, 1, 1, 8, 128}, engine_policy{32, 4, 1, 4, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t degree) {
    return row_tuning<1, state_weight::light>::choose(features, degree);
  }
};

template <int Width>
requires(Width > 1) struct row_tuning<Width, state_weight::heavy> {
  static constexpr std::array table{engine_policy{4, 1, Width, 4, 128},
                                    engine_policy{16, 1, Width, 4, 128},
                                    engine_policy{32, 1, Width, 4, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t) {
    const std::int64_t vectors = (features + Width - 1) / Width;
    return vectors <= 4 ? 0 : vectors <= 16 ? 1 : 2;
  }
};

template <>
struct row_tuning<1, state_weight::heavy> {
  static constexpr std::array table{engine_policy{8, 1, 1, 4, 128},
                                    engine_policy{32, 1, 1, 4, 128}};
  static constexpr int choose(std::int64_t features, std::int64_t) { return features <= 8 ? 0 : 1; }
};

template <int Width>
struct row_tuning<Width, state_weight::rare> {
  static constexpr std::array table{engine_policy{32, 1, Width, 4, 128}};
  static constexpr int choose(std::int64_t, std::int64_t) { return 0; }
};

}  // namespace quipu::detail
