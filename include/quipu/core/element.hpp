// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "quipu/core/config.hpp"

namespace quipu {

using float16 = __half;
using bfloat16 = __nv_bfloat16;

/// Storage type of a feature: fp32, fp16, bf16, and fp64 on the host and for header users.
template <class T>
concept element = std::is_same_v<T, float> || std::is_same_v<T, double> ||
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// Type of a node id.
template <class I>
concept node_index = std::is_same_v<I, std::int32_t> || std::is_same_v<I, std::int64_t>;

/// Type of a row offset (an edge position). Pairs in use: (i32, i32), (i32, i64), (i64, i64).
template <class O, class I>
concept edge_offset = node_index<O> && node_index<I> && sizeof(O) >= sizeof(I);

/// Sums and logits are kept in fp32 for 16-bit and fp32 storage, in fp64 for fp64.
template <element T>
using accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Run-time name of an element type.
enum class element_kind : std::uint8_t { f32, f16, bf16, f64 };

template <element T>
inline constexpr element_kind element_kind_of = std::is_same_v<T, float>      ? element_kind::f32
                                                : std::is_same_v<T, float16>  ? element_kind::f16
                                                : std::is_same_v<T, bfloat16> ? element_kind::bf16
                                                                              : element_kind::f64;

}  // namespace quipu
