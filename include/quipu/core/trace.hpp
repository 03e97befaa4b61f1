// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifndef QUIPU_NVTX
#define QUIPU_NVTX 1
#endif
#if QUIPU_NVTX
#include <nvtx3/nvtx3.hpp>
#endif

namespace quipu::detail {

/// Marks a verb for the time of a scope, in the NVTX domain "quipu".
#if QUIPU_NVTX
struct nvtx_domain {
  static constexpr char const* name = "quipu";
};
using trace_range = nvtx3::scoped_range_in<nvtx_domain>;
#else
struct trace_range {
  explicit trace_range(const char*) {}
};
#endif

}  // namespace quipu::detail
