// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace quipu {

/// Edges as a file lists them, before a graph is made. Edge k says: `row[k]` receives from
/// `column[k]`. Ids are 0-based. Entries stay in file order; parallel entries and self loops stay.
struct edge_data {
  std::int64_t rows = 0;             ///< receiving nodes
  std::int64_t columns = 0;          ///< sending nodes
  std::vector<std::int64_t> row;     ///< [edges], each in [0, rows)
  std::vector<std::int64_t> column;  ///< [edges], each in [0, columns)
  std::vector<double> value;         ///< [edges], or empty: the file carries no weights
};

}  // namespace quipu
