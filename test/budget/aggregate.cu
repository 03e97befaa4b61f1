// SPDX-License-Identifier: Apache-2.0
// The kernels of `aggregate` for fp32 and 32-bit ids, for ptxas to report on.
#include "quipu/reduce/aggregate.cuh"

template quipu::status quipu::aggregate(const quipu::context&,
                                        const quipu::aggregate_args<float, std::int32_t>&,
                                        quipu::workspace);
