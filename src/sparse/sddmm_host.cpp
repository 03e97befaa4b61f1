// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/host_types.hpp"
#include "engine/host_dot.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/engine/host_engine.hpp"
#include "quipu/sparse/detail/check_arguments.hpp"

namespace quipu {

template <class T, class I, class O>
status sddmm(const host_context& ctx, const sddmm_args<T, I, O>& a) {
  const detail::trace_range range("sddmm");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  const auto& csr = a.graph.forward.csr;
  using A = accumulator<T>;
  if (a.alpha == A{0}) {
    std::fill_n(a.output.data_handle(), csr.edges, A{0});
    return success();
  }
  constexpr std::int64_t grain = 256;
  return detail::parallel_pieces(ctx, csr.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const A row = a.scales.row == nullptr ? a.alpha : a.alpha * static_cast<A>(a.scales.row[i]);
      const T* left = a.left.data_handle() + i * a.left.stride(0);
      for (std::int64_t k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
        const std::int64_t j = csr.indices[k];
        const A f = a.scales.column == nullptr ? row : row * static_cast<A>(a.scales.column[j]);
        a.output.data_handle()[k] =
            f * detail::dot(left, a.right.data_handle() + j * a.right.stride(0), a.left.extent(1));
      }
    }
  });
}

#define QUIPU_INSTANTIATE(T, I, O) \
  template status sddmm(const host_context&, const sddmm_args<T, I, O>&);
QUIPU_FOR_HOST_TYPES(QUIPU_INSTANTIATE)

}  // namespace quipu
