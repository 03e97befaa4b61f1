// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/element.hpp"

namespace quipu {

/// Compressed sparse rows, not owned: row i receives from the columns indices[offsets[i]] ..
/// indices[offsets[i + 1] - 1]. An edge position is an index into `indices`. Parallel edges and
/// self loops are ordinary; the order inside a row is free. rows and columns may differ.
template <node_index I, node_index O = I>
requires edge_offset<O, I>
struct csr_view {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t edges = 0;
  const O* offsets = nullptr;      // [rows + 1]
  const I* indices = nullptr;      // [edges]
  const float* weights = nullptr;  // [edges], null: every edge weighs 1
};

/// Edge list, not owned: row[k] receives from column[k].
template <node_index I>
struct coo_view {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t edges = 0;
  const I* row = nullptr;          // [edges]
  const I* column = nullptr;       // [edges]
  const float* weights = nullptr;  // [edges], null: every edge weighs 1
};

}  // namespace quipu
