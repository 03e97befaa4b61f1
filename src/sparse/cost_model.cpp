// SPDX-License-Identifier: Apache-2.0
#include "quipu/sparse/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace quipu {

namespace {

/// Constants of one backend on one chip: microseconds, nanoseconds, GB/s.
struct cost_row {
  double start_us;
  double per_row_ns;   // of the whole device
  double per_edge_ns;  // the least an edge costs, however narrow
  double near_gbps;    // row bytes gathered while the table fits the L2 cache
  double far_gbps;     // and when it is many times larger
};

struct cost_table {
  cost_row engine, csr2, csr3;
};

constexpr cost_table hopper{{4.0, 0.010, 0.010, 9000, 6000},
                            {8.0, 0.020, 0.060, 8000, 5000},
                            {8.0, 0.020, 0.010, 8000, 3000}};

double milliseconds(const cost_row& c, const product_shape& p) {
  const auto row_bytes = static_cast<double>(p.features * p.element_bytes);
  const auto table = static_cast<double>(p.columns) * row_bytes;
  const double outgrown = table / static_cast<double>(std::max<std::int64_t>(p.l2_bytes, 1));
  const double far_share = std::clamp(std::log2(std::max(outgrown, 0.25) * 4) / 5, 0.0, 1.0);
  const double rate = c.near_gbps + far_share * (c.far_gbps - c.near_gbps);
  const double edge_ns = std::max(c.per_edge_ns, row_bytes / rate);
  return c.start_us * 1e-3 +
         (static_cast<double>(p.rows) * c.per_row_ns + static_cast<double>(p.edges) * edge_ns) *
             1e-6;
}

}  // namespace

spmm_choice predict_spmm(const product_shape& shape, capability) {
  const auto& table = hopper;
  spmm_choice c;
  c.engine_ms = milliseconds(table.engine, shape);
  c.csr2_ms = milliseconds(table.csr2, shape);
  c.csr3_ms = milliseconds(table.csr3, shape);
  return c;
}

}  // namespace quipu
