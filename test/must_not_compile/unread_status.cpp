// SPDX-License-Identifier: Apache-2.0
// expects: ignoring return(ed)? value.*unused-result
#include "quipu/core/context.hpp"

void wait(const quipu::context& ctx) {
#ifdef OFFEND
  quipu::synchronize(ctx);
#else
  quipu::check(quipu::synchronize(ctx));
#endif
}
