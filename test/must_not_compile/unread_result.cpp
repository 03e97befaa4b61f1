// SPDX-License-Identifier: Apache-2.0
// expects: ignoring return(ed)? value.*unused-result
#include "quipu/core/buffer.hpp"

void allocate() {
#ifdef OFFEND
  quipu::make_host_buffer<float>(3);
#else
  quipu::check(quipu::make_host_buffer<float>(3));
#endif
}
