// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace quipu::detail {

/// Entry k of an array of ids or positions, 4 or 8 bytes each.
__device__ inline std::int64_t id_at(const void* ids, std::int32_t id_bytes, std::int64_t k) {
  return id_bytes == 4 ? static_cast<const std::int32_t*>(ids)[k]
                       : static_cast<const std::int64_t*>(ids)[k];
}

/// Notes a position of which the lowest counts; -1 is none.
__device__ inline void note(std::int64_t* lowest, std::int64_t position) {
  atomicMin(reinterpret_cast<unsigned long long*>(lowest),
            static_cast<unsigned long long>(position));
}

}  // namespace quipu::detail
