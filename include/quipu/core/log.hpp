// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace quipu {

/// Where the library says what it decided and why: one line a call, only from make_* functions. The
/// text lives until `write` returns. Null by default: nothing is said.
struct log_sink {
  void (*write)(void* user, const char* line) = nullptr;
  void* user = nullptr;
};

}  // namespace quipu
