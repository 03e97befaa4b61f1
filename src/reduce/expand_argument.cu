// SPDX-License-Identifier: Apache-2.0
#include "quipu/reduce/aggregate.cuh"

namespace quipu {

template status expand_argument(const context&, const graph_view<std::int32_t, std::int32_t>&,
                                const argument_view&, matrix_view<std::int64_t>);
template status expand_argument(const context&, const graph_view<std::int32_t, std::int64_t>&,
                                const argument_view&, matrix_view<std::int64_t>);
template status expand_argument(const context&, const graph_view<std::int64_t, std::int64_t>&,
                                const argument_view&, matrix_view<std::int64_t>);

}  // namespace quipu
