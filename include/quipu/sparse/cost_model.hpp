// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/capability.hpp"
#include "quipu/core/config.hpp"

namespace quipu {

enum class spmm_backend : std::uint8_t { automatic, engine, cusparse };

/// cuSPARSE's algorithms for compressed rows. csr3 gives the same bits every run.
enum class cusparse_algorithm : std::uint8_t { automatic, csr1, csr2, csr3 };

/// What the cost of a product is predicted from.
struct product_shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t edges = 0;
  std::int64_t features = 0;
  std::int64_t element_bytes = 4;
  std::int64_t l2_bytes = 0;
};

/// Milliseconds with everything cached, and what was picked from them.
struct spmm_choice {
  spmm_backend backend = spmm_backend::engine;
  cusparse_algorithm algorithm = cusparse_algorithm::automatic;  // engine: automatic
  double engine_ms = 0;
  double csr2_ms = 0;
  double csr3_ms = 0;
};

/// The written cost model. With either backend a product takes
///   start + rows * (per_row + per_row_byte * row_bytes) + edges * (per_edge + row_bytes / rate)
/// where `rate` falls from `near` to `far` as the gathered table outgrows the L2 cache. It knows
/// nothing of locality and of skew, which the backends feel alike. docs/performance.md tells how
/// the constants were fitted and how far off they are. Sets the times, not the choice.
spmm_choice predict_spmm(const product_shape&, capability);

/// How far two predicted times must lie apart before `auto` leaves the engine: each is off by 12 %
/// (root mean square over 75 cells), their ratio by 17 %.
inline constexpr double spmm_model_error = 1.17;

}  // namespace quipu
