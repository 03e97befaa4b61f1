// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/scratch.hpp"
#include "quipu/graph/graph.hpp"

namespace quipu::detail {

/// Builds the work list of a direction whose `view.csr` is set, on the context's stream, and fills
/// in `view.schedule`, `view.degrees` and `view.wide_rows`. Waits for the counts, and a second time
/// where rows are longer than a byte can count. Throws build_failure.
template <class I, class O>
void make_schedule_on_device(const context&, direction_storage<I, O>&, const schedule_options&);

}  // namespace quipu::detail
