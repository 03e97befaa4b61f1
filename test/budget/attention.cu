// SPDX-License-Identifier: Apache-2.0
// Every kernel of attention for fp32 and 32-bit ids.
#include "quipu/attention/attention_backward.cuh"

namespace quipu {
#define QUIPU_INSTANTIATE(verb)                                                               \
  template status verb(const context&, const verb##_args<float, std::int32_t, std::int32_t>&, \
                       workspace);
QUIPU_INSTANTIATE(gat_forward)
QUIPU_INSTANTIATE(gatv2_forward)
QUIPU_INSTANTIATE(transformer_forward)
QUIPU_INSTANTIATE(gat_backward)
QUIPU_INSTANTIATE(gatv2_backward)
QUIPU_INSTANTIATE(transformer_backward)
}  // namespace quipu
