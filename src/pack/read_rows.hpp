// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/pack/detail/stage_window.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu::detail {

/// What verbs that read rows check in O(1) before they enqueue anything.
status check_read(const context&, const packed_view&, const mutable_table_view& output, row_faults*,
                  std::int32_t most_multiprocessors);

/// Says of no fault.
status clear(const context&, row_faults*);

/// Rows from `first_row` on become those of `output`; what lies in a stage is read there.
status read_rows(const context&, const packed_view&, const stage_window&, std::int64_t first_row,
                 const mutable_table_view& output, row_faults*, std::int32_t most_multiprocessors);

}  // namespace quipu::detail
