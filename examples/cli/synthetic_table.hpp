// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "options.hpp"
#include "quipu/io/npy.hpp"

namespace quipu::cli {

/// Whether this is synthetic:.. and no file.
bool is_synthetic_table(const std::string& text);

/// What synthetic:NAME,ROWS,WIDTH stands for: f4, or f2 or the bits of bf16 if the argument says
/// so. Every number follows from the seed and its place. `normal` has mean 0 and deviation 0.02,
/// `relu` is its positive part, `ones` is 1 in one place of fifty and else 0. Throws bad_input.
npy_array draw_table(const table_argument& argument);

}  // namespace quipu::cli
