// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "io/synthetic_draw.hpp"
#include "quipu/core/status.hpp"
#include "quipu/io/synthetic.hpp"

namespace quipu::io_detail {

/// All that a draw reads, computed once on the host. The draw's pointers are set by who uses it.
struct synthetic_plan {
  edge_draw draw;
  std::vector<std::uint64_t> weight_end;
  std::vector<std::uint32_t> guide;
  std::uint64_t wanted = 0;   // keys to keep: pairs when symmetric, else edges
  std::uint64_t longest = 0;  // rows are cut to this many edges; 0: no limit
};

/// Errors: invalid_argument names the field that no graph can have.
result<synthetic_plan> make_plan(const synthetic_request& request);

/// Draws of the first round: some repeat others or are self loops.
std::uint64_t first_draws(const synthetic_plan& plan);

/// Draws of the next round after `draws` gave only `kept` of the wanted keys. Errors:
/// invalid_argument when the shape yields so few new edges that no end is in sight.
result<std::uint64_t> next_draws(const synthetic_plan& plan, std::uint64_t draws,
                                 std::uint64_t kept);

}  // namespace quipu::io_detail
