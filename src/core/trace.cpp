// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/trace.hpp"

#include <atomic>
#include <mutex>

namespace quipu {

namespace {
std::mutex log_mutex;
log_callback log_function = nullptr;
void* log_user = nullptr;
std::atomic<bool> log_enabled{false};
}  // namespace

void set_log(log_callback callback, void* user) noexcept {
  const std::lock_guard lock(log_mutex);
  log_function = callback;
  log_user = user;
  log_enabled = callback != nullptr;
}

void detail::log_line(const char* line) noexcept {
  if (!log_enabled) return;
  const std::lock_guard lock(log_mutex);
  if (log_function != nullptr) log_function(line, log_user);
}

}  // namespace quipu
