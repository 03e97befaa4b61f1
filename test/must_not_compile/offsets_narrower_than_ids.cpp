// SPDX-License-Identifier: Apache-2.0
// expects: constraints? (not satisfied|failure)
#include "quipu/graph/csr.hpp"

#ifdef OFFEND
using offset = std::int32_t;
#else
using offset = std::int64_t;
#endif

quipu::csr_view<std::int64_t, offset> view;
