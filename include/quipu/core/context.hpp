// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "quipu/core/capability.hpp"
#include "quipu/core/log.hpp"
#include "quipu/core/status.hpp"

namespace quipu {

/// What a caller asks of repeated runs. `any` allows float atomics where they are quicker.
enum class determinism : std::uint8_t { run_to_run, any };

/// Where and how device work runs: a small value, copied freely. There is no default stream.
struct context {
  std::int32_t device = 0;
  cudaStream_t stream = nullptr;
  capability arch{};
  std::int32_t multiprocessors = 0;
  std::int64_t l2_bytes = 0;
  determinism repeat = determinism::run_to_run;
  log_sink log{};

  context on(cudaStream_t s) const noexcept {
    context c = *this;
    c.stream = s;
    return c;
  }
  context with(determinism d) const noexcept {
    context c = *this;
    c.repeat = d;
    return c;
  }
  context with(log_sink l) const noexcept {
    context c = *this;
    c.log = l;
    return c;
  }
};

/// Where host work runs: on this many threads (0: one for each core).
struct host_context {
  std::int32_t threads = 0;
};

/// Reads the device's properties. `device` < 0 means the current one. `stream` is one that the
/// caller made: null, the legacy default stream, is refused, because it waits for all other
/// streams. Errors: invalid_argument, no_device, cuda_error.
result<context> make_context(cudaStream_t stream, std::int32_t device = -1);

/// Refuses null and the legacy default stream: they wait for all other streams.
status check_stream(cudaStream_t stream) noexcept;
inline status check_stream(const context& ctx) noexcept { return check_stream(ctx.stream); }

/// Waits for all work on the context's stream.
status synchronize(const context&);

/// Makes a device current for a scope and restores the former one. Costs nothing when it is
/// current.
class device_guard {
 public:
  explicit device_guard(std::int32_t device) noexcept;
  ~device_guard();
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;

 private:
  std::int32_t former_ = -1;
};

/// Turns a runtime error into a status and clears it, so that the next call starts clean.
status from_cuda(cudaError_t error, const char* what) noexcept;

/// Checks in O(1) that a device may read `data`. Null is allowed when `count` is 0.
/// Memory of another device than `device` counts as unreadable; with `device` < 0 any will do.
/// Errors: invalid_argument with `what` for null, ordinary host memory or another device's, then
/// with both devices' numbers in `expected` and `actual`.
status check_device_pointer(const void* data, std::int64_t count, const char* what,
                            std::int32_t device = -1) noexcept;

}  // namespace quipu
