// SPDX-License-Identifier: Apache-2.0
// expects: cannot convert
#include "quipu/core/status.hpp"

#ifdef OFFEND  // 0 must not be read as "done" in one place and as "false" in another
int code(const quipu::status& s) { return s; }
#else
bool code(const quipu::status& s) { return static_cast<bool>(s); }
#endif
