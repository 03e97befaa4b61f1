// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/sparse/spmm.hpp"

namespace quipu::detail {

/// What decides the backend of one direction, besides the caller.
struct backend_question {
  product_shape shape;
  bool ids_as_wide_as_offsets;  // cuSPARSE wants it so
  bool has_coefficients;        // other than ones; cuSPARSE keeps them in the element type
};

/// The caller's choice if it can be had, else the cost model's. Errors: unsupported,
/// invalid_argument.
result<spmm_choice> choose_backend(const context&, const backend_question&, const spmm_options&);

/// Says what was chosen and why, if anybody listens.
void log_choice(const context&, const char* verb, const spmm_choice&);

}  // namespace quipu::detail
