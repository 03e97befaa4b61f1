// SPDX-License-Identifier: Apache-2.0
#include "quipu/sparse/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace quipu {

namespace {

/// Constants of one backend on one chip.
struct cost_row {
  double start_us;         // a call
  double per_row_ps;       // of the whole device: a row's slice and its ending
  double per_row_byte_ps;  // and each byte of its output
  double per_edge_ps;      // an id, a coefficient, an addition
  double near_gbps;        // gathered while the table fits the L2 cache
  double far_gbps;         // and when it is eight times larger and more
};

struct cost_table {
  cost_row engine, csr2, csr3;
};

// Least squares of the logarithm over 15 graphs and 5 widths, fp32 (H200, 2026-11,
// quipu_bench_sparse; bench/summary.py tells how far off each is).
constexpr cost_table hopper{{0.1, 79.7, 0.46, 0.4, 11046, 10526},
                            {7.9, 125.3, 0.61, 37.0, 16123, 8026},
                            {8.0, 175.7, 3.52, 4.2, 3616, 2656}};

double milliseconds(const cost_row& c, const product_shape& p) {
  const auto row_bytes = static_cast<double>(p.features * p.element_bytes);
  const auto l2 = static_cast<double>(p.l2_bytes > 0 ? p.l2_bytes : 1);
  const double outgrown = static_cast<double>(p.columns) * row_bytes / l2;
  const double far = std::clamp(std::log2(std::max(outgrown, 0.25) * 4) / 5, 0.0, 1.0);
  const double picoseconds_a_byte = 1000 / (c.near_gbps + far * (c.far_gbps - c.near_gbps));
  const double rows = static_cast<double>(p.rows) * (c.per_row_ps + c.per_row_byte_ps * row_bytes);
  const double edges =
      static_cast<double>(p.edges) * (c.per_edge_ps + row_bytes * picoseconds_a_byte);
  return c.start_us * 1e-3 + (rows + edges) * 1e-9;
}

}  // namespace

// The only chip measured so far stands for all.
spmm_choice predict_spmm(const product_shape& shape, capability) {
  const auto& table = hopper;
  spmm_choice c;
  c.engine_ms = milliseconds(table.engine, shape);
  c.csr2_ms = milliseconds(table.csr2, shape);
  c.csr3_ms = milliseconds(table.csr3, shape);
  return c;
}

}  // namespace quipu
