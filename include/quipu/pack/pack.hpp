// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/pack/packed_table.hpp"

namespace quipu {

/// What a row id outside [0, rows) means.
enum class id_policy : std::uint8_t {
  refuse,   ///< an error that names the position: on the host before anything is written; on the
            ///< device in `faults`, and the output row stays as it was
  clamp,    ///< the nearest row
  trusted,  ///< nobody looks; on the host as `refuse`
};

/// What a device found while it read rows; -1: nothing. It lies in memory that the device can
/// write, and a verb sets it anew before it reads.
struct row_faults {
  std::int64_t id = -1;   ///< the first position of an id that is not there
  std::int64_t row = -1;  ///< the lowest row that is malformed
};

struct unpack_args {
  packed_view packed;
  mutable_table_view output;     ///< [rows, width]
  std::int64_t first_row = 0;    ///< the row of `packed` that becomes row 0; output.rows follow
  row_faults* faults = nullptr;  ///< on the device: null: not wanted
};

template <node_index I>
struct gather_rows_args {
  packed_view packed;
  vector_view<const I> ids;   ///< in any order, any of them more than once
  mutable_table_view output;  ///< [ids, width]
  id_policy policy = id_policy::refuse;
  row_faults* faults = nullptr;  ///< on the device: null: not wanted
};

template <node_index I>
struct update_rows_args {
  packed_view packed;
  vector_view<const I> ids;  ///< of one row given twice, the last one stays
  table_view input;          ///< [ids, width]
};

/// Packed rows, bit for bit as they were. Bytes that no packing can have made are an error, and
/// nothing outside the views is read or written.
///
/// The host form says so by parse_error with the row in `position`. The device form only enqueues
/// and leaves it in `faults`; packed bytes may lie in device memory or in pinned memory of the
/// host, from a multiple of 16 on; the output and its stride are multiples of an element's size.
/// Errors: invalid_argument naming the view, out_of_range for rows that are not there.
status unpack(const host_context&, const unpack_args&);
status unpack(const context&, const unpack_args&);

/// output[k] = row ids[k]. Errors: also out_of_range with the position of the id.
template <class I>
status gather_rows(const host_context&, const gather_rows_args<I>&);
template <class I>
status gather_rows(const context&, const gather_rows_args<I>&);

/// Row ids[k] becomes input[k]: in place where it fits, else in spare room. Rows are written in
/// order; workspace_too_small with the position of the first row for which there is no room left,
/// and then that row and those behind it are as they were.
template <class I>
status update_rows(const host_context&, const update_rows_args<I>&);

}  // namespace quipu
