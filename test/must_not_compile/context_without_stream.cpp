// SPDX-License-Identifier: Apache-2.0
// expects: (too few arguments|no matching function)
#include "quipu/core/context.hpp"

quipu::context begin(cudaStream_t stream) {
#ifdef OFFEND  // there is no default stream
  return quipu::check(quipu::make_context());
#else
  return quipu::check(quipu::make_context(stream));
#endif
}
