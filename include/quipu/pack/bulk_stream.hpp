// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "quipu/core/context.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu {

/// Rows that go through a stage together, and where their packed bytes lie.
struct bulk_piece {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_byte = 0, bytes = 0;  ///< none: the rows are read where they lie
};

/// How a table of packed rows is cut for a bulk_stream.
struct bulk_plan {
  std::int64_t stage_bytes = 0;
  std::vector<bulk_piece> pieces;
};

inline constexpr std::int64_t default_stage_bytes = std::int64_t{8} << 20;

/// Cuts a table in pinned memory. Where rows have addresses these are read, once, and what has been
/// moved out of its order by `update_rows` is left where it lies. A plan holds until a row moves
/// again. Allocates host memory, and waits for the stream. Errors: invalid_argument (a view that is
/// none, `stage_bytes` less than a row takes), out_of_memory, cuda_error.
result<bulk_plan> make_bulk_plan(const context&, const packed_view&,
                                 std::int64_t stage_bytes = default_stage_bytes);

struct unpack_bulk_args {
  packed_view packed;                     ///< in pinned memory, as `to_pinned` leaves it
  const bulk_plan* plan;                  ///< of these rows
  mutable_table_view output;              ///< [rows, width], on the device
  row_faults* faults = nullptr;           ///< null: not wanted
  std::int32_t most_multiprocessors = 0;  ///< that unpack; 0: all
};

/// Brings whole packed tables, weights or keys and values, from pinned memory: the copy engine
/// fetches packed bytes into one of two stages while what lies in the other is unpacked.
///
/// It serves one call at a time, from one thread at a time: between calls on different streams the
/// caller makes the later one wait for the earlier one, by an event; a graph that holds a call
/// needs the bulk_stream, the plan's rows and their pinned memory for as long as it is replayed.
/// Copies, on a stream of its own that forks from the caller's and joins it, begin when the
/// caller's stream comes to the call; so that they overlap with computing, let a stream of their
/// own unpack the next tensor meanwhile.
class bulk_stream {
 public:
  /// Allocates both stages, a stream and its events. Errors: invalid_argument, out_of_memory,
  /// cuda_error.
  static result<bulk_stream> make(const context&, std::int64_t stage_bytes = default_stage_bytes);
  bulk_stream(bulk_stream&&) noexcept;
  bulk_stream& operator=(bulk_stream&&) noexcept;
  ~bulk_stream();

  /// Only enqueues. Malformed rows are told in `faults`, as by the verb `unpack`; also those that
  /// reach beyond their piece of a plan. Errors:
  /// invalid_argument naming the view: also for bytes that are not pinned, and for a plan that is
  /// not of these rows or wants longer stages than there are.
  status unpack(const context&, const unpack_bulk_args&);

 private:
  struct state;
  explicit bulk_stream(std::unique_ptr<state>) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace quipu
