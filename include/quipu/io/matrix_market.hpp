// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include "quipu/core/status.hpp"
#include "quipu/io/edge_data.hpp"

namespace quipu {

/// Parses the text of a Matrix Market file. An entry (i, j) means that row i receives from column
/// j.
///
/// Offered: coordinate and array form; real, integer and pattern fields; general, symmetric and
/// skew-symmetric. The mirror of an entry follows it directly; the diagonal appears once. Array
/// files hold columns one after the other and only their non-zeros become edges. Integers beyond
/// 2^53 are rounded to the nearest double; reals too small for a double become 0.
/// Blank lines and `%` lines may stand anywhere; LF, CRLF and CR end a line; letter case is free.
///
/// `threads`: workers, 0 for one a core. The result, and the error, do not depend on it.
/// Errors: parse_error with the line in `position` (a count that disagrees with the size line names
/// the size line, with both numbers); unsupported for complex and hermitian files; out_of_memory.
/// Nothing is allocated before the announced count has been checked against the text.
result<edge_data> parse_matrix_market(std::string_view text, int threads = 0);

/// Reads a whole file and parses it. Errors: also io_error with errno in `native`.
result<edge_data> read_matrix_market(const std::filesystem::path& path);

/// Writes coordinate general: pattern when there are no values, else real with the shortest digits
/// that read back to the same double. The file appears complete or not at all.
/// Errors: invalid_argument for arrays of different length or negative sizes, out_of_range with the
/// edge in `position`, io_error with errno in `native`.
status write_matrix_market(const std::filesystem::path& path, const edge_data& edges);

}  // namespace quipu
