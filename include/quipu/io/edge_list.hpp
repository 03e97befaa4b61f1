// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "quipu/core/status.hpp"
#include "quipu/io/edge_data.hpp"

namespace quipu {

/// The number that the first node of a file has.
enum class id_base : std::uint8_t { zero, one };

struct edge_list_options {
  id_base base = id_base::zero;
  std::int64_t nodes = 0;  ///< rows and columns of the result; 0: largest id + 1
  /// Between two fields: ',', ';', '|' or ':' (blanks around it are free), ' ' or '\t' for any run
  /// of blanks. 0: a comma if the first edge's line holds one, else blanks.
  char separator = 0;
};

/// Parses lines `from to [weight]`: node `to` receives from node `from`, so row = to and
/// column = from. '#' and '%' start a comment, also behind an edge; blank lines are skipped; LF,
/// CRLF and CR end a line. Either every line has a weight or none has.
///
/// Ids are 64 bit and are kept as they are: rows = columns = max id + 1 may be huge, and it is up
/// to whoever makes the graph to refuse it. `threads`: workers, 0 for one a core. The result, and
/// the error, do not depend on it. Errors: invalid_argument for the options; parse_error with the
/// first bad line in `position`: an id that is negative, not a number, beyond 64 bits or not below
/// `nodes`, a line with one field or more than three, a weight missing or too many; out_of_memory.
result<edge_data> parse_edge_list(std::string_view text, const edge_list_options& options = {},
                                  int threads = 0);

/// Reads a whole file and parses it. Errors: also io_error with errno in `native`.
result<edge_data> read_edge_list(const std::filesystem::path& path,
                                 const edge_list_options& options = {});

}  // namespace quipu
