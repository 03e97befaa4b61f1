// SPDX-License-Identifier: Apache-2.0
// The kernels of products for fp32 and 32-bit ids, for ptxas to report on.
#include "quipu/sparse/sddmm.cuh"
#include "quipu/sparse/spmm.cuh"

template quipu::status quipu::detail::engine_product(
    const quipu::context&, const quipu::detail::product<float, std::int32_t, std::int32_t>&,
    const quipu::detail::coded_columns<std::int32_t>&, quipu::workspace);
template quipu::status quipu::sddmm(const quipu::context&,
                                    const quipu::sddmm_args<float, std::int32_t>&);
