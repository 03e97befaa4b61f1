// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/engine/device_verb.cuh"
#include "quipu/sparse/detail/product_program.hpp"

namespace quipu {

namespace detail {

template <class T, class Factor>
inline constexpr state_weight weight_of<product_program<T, Factor>> = state_weight::light;

/// The engine's product, in scratch memory that `engine_scratch_bytes` found large enough.
template <class T, class I, class O>
status engine_product(const context& ctx, const product<T, I, O>& p, workspace w) {
  const bool aligned = on_vector_border(p.input) && on_vector_border(p.output);
  arena scratch(w);
  return select_program(p, device_run<T>{ctx, p.output.extent(1), aligned, scratch, false});
}

/// Enough for views on any border.
template <class T, class I, class O>
result<std::size_t> engine_scratch_bytes(const context& ctx, const product<T, I, O>& p) {
  std::size_t most = 0;
  for (const bool aligned : {false, true}) {
    arena counting;
    const auto s =
        select_program(p, device_run<T>{ctx, p.output.extent(1), aligned, counting, true});
    if (!s.ok()) return s;
    most = most > counting.bytes() ? most : counting.bytes();
  }
  return most;
}

}  // namespace detail

}  // namespace quipu
