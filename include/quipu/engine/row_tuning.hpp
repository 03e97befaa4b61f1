// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "quipu/engine/policy.hpp"

namespace quipu::detail {

/// Kinds of programs by what a lane must hold for each element of a row: sums and winners hold one
/// or two registers, several reductions at once four to six. `factored` programs are light but for
/// a factor that takes work to find. `rare` programs are remedies for odd input: one lay-out serves
/// them all.
enum class state_weight { light, factored, heavy, rare };

/// The lay-outs that are built, and which one a row gets. Width 1 serves misaligned rows and rows
/// that fill no whole vector; all other kernels read 16 bytes a lane.
///
/// Measured on an H200, 2026-11, with `quipu_tune_sum roads_like arxiv_like reviews_like
/// tolokers_like twitch_like reddit_like products_like`; docs/performance.md has the tables. What
/// they tell:
/// - short rows want several rows a warp (two vectors a lane, half the lanes) and 4 edges in
/// flight;
///   long rows want one vector a lane and 8 edges in flight;
/// - rows of two tiles and more are quicker tile by tile than in one wide tile, because a tile's
/// slice
///   of the table is more likely to stay in L2; only very short rows lose more by the second visit.
template <int Width, state_weight Weight>
struct row_tuning;

/// A row is short if its graph has fewer edges a row than this.
constexpr std::int64_t short_degree = 32;
constexpr std::int64_t very_short_degree = 8;

template <int Width>
requires(Width > 1) struct row_tuning<Width, state_weight::light> {
  static constexpr std::array table{
      engine_policy{1, 1, Width, 4, 256},  engine_policy{2, 1, Width, 4, 256},
      engine_policy{4, 1, Width, 8, 256},  engine_policy{8, 1, Width, 8, 256},
      engine_policy{8, 2, Width, 4, 256},  engine_policy{16, 1, Width, 8, 256},
      engine_policy{16, 2, Width, 4, 128}, engine_policy{32, 1, Width, 8, 256},
      engine_policy{32, 2, Width, 4, 128}};

  static constexpr int choose(std::int64_t features, std::int64_t degree) {
    const std::int64_t vectors = (features + Width - 1) / Width;
    if (vectors <= 1) return 0;
    if (vectors <= 2) return 1;
    if (vectors <= 4) return 2;
    if (vectors <= 8) return 3;
    if (vectors <= 16) return degree < short_degree ? 4 : 5;
    if (vectors <= 32) return degree < short_degree ? 6 : 7;
    return degree < very_short_degree ? 8 : 7;
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

/// As light, in smaller blocks: a factor for each edge takes the registers beyond 64, where three
/// blocks of 256 threads fit a multiprocessor, but seven of 128.
template <int Width>
struct row_tuning<Width, state_weight::factored> {
  using light = row_tuning<Width, state_weight::light>;
  static constexpr auto table = [] {
    auto rows = light::table;
    for (auto& row : rows) row.threads = 128;
    return rows;
  }();
  static constexpr int choose(std::int64_t features, std::int64_t degree) {
    return light::choose(features, degree);
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
