// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/device_verb.cuh"
#include "quipu/sparse/detail/product_program.hpp"

namespace quipu {

namespace detail {

template <class T, class Factor>
inline constexpr state_weight weight_of<product_program<T, Factor>> = state_weight::factored;
template <class T>
inline constexpr state_weight weight_of<product_program<T, unit_factor>> = state_weight::light;
template <class T, class I, bool Complete>
inline constexpr state_weight weight_of<product_program<T, coded_column_factor<I, Complete>>> =
    state_weight::coded;

/// On a device scales of columns without weights go by coded columns, and never by column.
template <class T, class I, class O, class Use>
auto select_device_program(const product<T, I, O>& p, const coded_columns<I>& coded, Use&& use) {
  if (coded.indices != nullptr) return use_coded_program(p, coded, use);
  if (p.weights != nullptr) return use_weighted_program(p, use);
  return use_plain_program(p, use);
}

/// The engine's product, in scratch memory that `engine_scratch_bytes` found large enough.
template <class T, class I, class O>
status engine_product(const context& ctx, const product<T, I, O>& p, const coded_columns<I>& coded,
                      workspace w) {
  const bool aligned = on_vector_border(p.input) && on_vector_border(p.output);
  arena scratch(w);
  return select_device_program(p, coded,
                               device_run<T>{ctx, p.output.extent(1), aligned, scratch, false});
}

/// Enough for views on any border.
template <class T, class I, class O>
result<std::size_t> engine_scratch_bytes(const context& ctx, const product<T, I, O>& p,
                                         const coded_columns<I>& coded) {
  std::size_t most = 0;
  for (const bool aligned : {false, true}) {
    arena counting;
    const auto s = select_device_program(
        p, coded, device_run<T>{ctx, p.output.extent(1), aligned, counting, true});
    if (!s.ok()) return s;
    most = most > counting.bytes() ? most : counting.bytes();
  }
  return most;
}

}  // namespace detail

}  // namespace quipu
