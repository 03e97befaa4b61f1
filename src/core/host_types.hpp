// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/element.hpp"

/// The pairs of index and offset types that are compiled, and with them the elements of host verbs.
#define QUIPU_FOR_INDICES(WRITE)    \
  WRITE(std::int32_t, std::int32_t) \
  WRITE(std::int32_t, std::int64_t) \
  WRITE(std::int64_t, std::int64_t)
#define QUIPU_FOR_ELEMENTS(WRITE, T)   \
  WRITE(T, std::int32_t, std::int32_t) \
  WRITE(T, std::int32_t, std::int64_t) \
  WRITE(T, std::int64_t, std::int64_t)
#define QUIPU_FOR_HOST_TYPES(WRITE)  \
  QUIPU_FOR_ELEMENTS(WRITE, float)   \
  QUIPU_FOR_ELEMENTS(WRITE, double)  \
  QUIPU_FOR_ELEMENTS(WRITE, float16) \
  QUIPU_FOR_ELEMENTS(WRITE, bfloat16)
