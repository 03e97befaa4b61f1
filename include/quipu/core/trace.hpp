// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifndef QUIPU_NVTX
#define QUIPU_NVTX 1
#endif
#if QUIPU_NVTX
#include <nvtx3/nvtx3.hpp>
#endif

namespace quipu {

/// Called with one line when the library takes a decision worth knowing. Null (the default): silent.
using log_callback = void (*)(const char* line, void* user);
void set_log(log_callback callback, void* user = nullptr) noexcept;

namespace detail {

void log_line(const char* line) noexcept;

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

}  // namespace detail
}  // namespace quipu
