// SPDX-License-Identifier: Apache-2.0
#include "sparse/choose_backend.hpp"

#include <cstdio>
#include <limits>

namespace quipu::detail {

namespace {

const char* name_of(cusparse_algorithm a) {
  switch (a) {
    case cusparse_algorithm::csr1:
      return "csr1";
    case cusparse_algorithm::csr2:
      return "csr2";
    case cusparse_algorithm::automatic:
    case cusparse_algorithm::csr3:
      break;
  }
  return "csr3";
}

status check_options(const context& ctx, const backend_question& q, const spmm_options& o) {
  const bool free_order =
      o.algorithm == cusparse_algorithm::csr1 || o.algorithm == cusparse_algorithm::csr2;
  if (free_order && ctx.repeat == determinism::run_to_run) {
    return failure(status_code::invalid_argument,
                   "algorithm: csr1 and csr2 need determinism::any; csr3 repeats its bits");
  }
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (o.backend == spmm_backend::cusparse && !q.ids_as_wide_as_offsets && q.shape.edges > most) {
    return failure(status_code::unsupported,
                   "backend: cuSPARSE takes no 32-bit ids with offsets that need 64", -1, most,
                   q.shape.edges);
  }
  return success();
}

/// cuSPARSE has nothing to do there, or would round coefficients to 16 bits, or cannot.
bool engine_alone(const backend_question& q) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return (q.shape.element_bytes == 2 && q.has_coefficients) ||
         (!q.ids_as_wide_as_offsets && q.shape.edges > most);
}

bool nothing_to_multiply(const product_shape& p) {
  return p.rows == 0 || p.columns == 0 || p.edges == 0 || p.features == 0;
}

}  // namespace

result<spmm_choice> choose_backend(const context& ctx, const backend_question& q,
                                   const spmm_options& o) {
  if (auto s = check_options(ctx, q, o); !s.ok()) return s;
  auto choice = predict_spmm(q.shape, ctx.arch);
  auto algorithm = o.algorithm;
  if (algorithm == cusparse_algorithm::automatic) {
    const bool csr2 = ctx.repeat == determinism::any && choice.csr2_ms < choice.csr3_ms;
    algorithm = csr2 ? cusparse_algorithm::csr2 : cusparse_algorithm::csr3;
  }
  // csr1 and csr2 add the parts of long rows in the element type.
  if (q.shape.element_bytes == 2) algorithm = cusparse_algorithm::csr3;
  const double cusparse_ms =
      algorithm == cusparse_algorithm::csr3 ? choice.csr3_ms : choice.csr2_ms;
  choice.backend = o.backend;
  if (o.backend == spmm_backend::automatic) {
    const bool engine = engine_alone(q) || choice.engine_ms <= spmm_model_error * cusparse_ms;
    choice.backend = engine ? spmm_backend::engine : spmm_backend::cusparse;
  }
  if (nothing_to_multiply(q.shape)) choice.backend = spmm_backend::engine;
  choice.algorithm =
      choice.backend == spmm_backend::cusparse ? algorithm : cusparse_algorithm::automatic;
  return choice;
}

void log_choice(const context& ctx, const char* verb, const spmm_choice& c) {
  if (ctx.log.write == nullptr) return;
  char line[200];
  const bool engine = c.backend == spmm_backend::engine;
  std::snprintf(line, sizeof line,
                "%s: %s%s; predicted ms: engine %.4f, cuSPARSE csr2 %.4f, csr3 %.4f", verb,
                engine ? "engine" : "cuSPARSE ", engine ? "" : name_of(c.algorithm), c.engine_ms,
                c.csr2_ms, c.csr3_ms);
  ctx.log.write(ctx.log.user, line);
}

}  // namespace quipu::detail
