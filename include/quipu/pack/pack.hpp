// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/core/workspace.hpp"
#include "quipu/pack/packed_table.hpp"

namespace quipu {

/// What a row id outside [0, rows) means.
enum class id_policy : std::uint8_t {
  refuse,   ///< an error that names the position: on the host before anything is written; on the
            ///< device in `faults`, and the output row stays as it was
  clamp,    ///< the nearest row
  trusted,  ///< nobody looks; on the host as `refuse`
};

/// What a device found while it read or wrote rows; -1: nothing. It lies in memory that the device
/// can write, and a verb sets it anew before it begins.
struct row_faults {
  std::int64_t id = -1;    ///< the first position of an id that is not there
  std::int64_t row = -1;   ///< the lowest row that is malformed
  std::int64_t room = -1;  ///< the first position of a row for which there is no spare room
};

struct pack_args {
  table_view input;    ///< [rows, width]
  packed_view output;  ///< of as many rows, with room for `packed_bound(how, rows, allow)` at most
};

struct unpack_args {
  packed_view packed;
  mutable_table_view output;     ///< [rows, width]
  std::int64_t first_row = 0;    ///< the row of `packed` that becomes row 0; output.rows follow
  row_faults* faults = nullptr;  ///< on the device: null: not wanted
  std::int32_t most_multiprocessors = 0;  ///< of the device; 0: all
};

template <node_index I>
struct gather_rows_args {
  packed_view packed;
  vector_view<const I> ids;   ///< in any order, any of them more than once
  mutable_table_view output;  ///< [ids, width]
  id_policy policy = id_policy::refuse;
  row_faults* faults = nullptr;           ///< on the device: null: not wanted
  std::int32_t most_multiprocessors = 0;  ///< of the device; 0: all, with an order a quarter
  /// [ids] positions of ids in the order in which to visit them (order_rows), each once; empty: as
  /// they come. The output is the same; rows that it leaves out stay as they were. On the host
  /// nobody needs it.
  vector_view<const I> order = {};
};

template <node_index I>
struct order_rows_args {
  vector_view<const I> ids;
  vector_view<I> order;  ///< [ids]
  /// Of the table: positions are then but grouped by up to 256 ranges of rows, which is as much
  /// order as gathering needs, in half the time. 0: they are sorted.
  std::int64_t rows = 0;
};

template <node_index I>
struct update_rows_args {
  packed_view packed;
  vector_view<const I> ids;      ///< of an id given more than once the last one counts
  table_view input;              ///< [ids, width]
  row_faults* faults = nullptr;  ///< on the device: null: not wanted
};

/// Packs a table into memory that is there; the granule of addresses is the packing's. `*used`
/// becomes what the rows take. Where that is more than `byte_count` there is no table in the
/// output, and nothing behind its end was written: the host form says workspace_too_small with both
/// sizes, of the device form, which only enqueues, the caller compares. Errors: invalid_argument
/// naming the view, slots that do not fit among them, unsupported (more bytes than addresses can
/// tell; on the device `*used` is then the largest number).
status pack(const host_context&, const pack_args&);
status pack(const context&, const pack_args&, workspace);
std::size_t workspace_bytes(const context&, const pack_args&);

/// Packed rows, bit for bit as they were. A row whose parts overrun their place or speak of what is
/// not there is an error, and nothing outside the views is read or written.
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

/// Positions of ids, sorted by id and so by address, or grouped; equal ids as they come. One order
/// serves every table that is asked for these ids. Only enqueues. Errors: invalid_argument (sizes,
/// null views, more ids than 2^31 - 1), workspace_too_small.
template <class I>
status order_rows(const context&, const order_rows_args<I>&, workspace);
template <class I>
std::size_t workspace_bytes(const context&, const order_rows_args<I>&);

/// Whether an order pays for this many ids, its making included. Rows in pinned memory that are
/// fetched at random cost an address translation each where the table is larger than the
/// translation reaches, about 1 GiB on an H200: whatever is fetched then comes at 48 million rows a
/// second, by address up to 14 times as fast. Device memory needs no order.
bool order_pays(const packed_view&, std::int64_t ids);

/// Row ids[k] becomes input[k]: in place where it fits, else in spare room. Of an id given more
/// than once only the last row is written, and the others take no room. Spare room is given out in
/// the order of positions; the first row for which there is none left and all rows behind it stay
/// as they were. A record with an address that is malformed is not written over.
///
/// The host form says so by workspace_too_small with the position, and by out_of_range with that of
/// an id that is not there, before anything is written.
///
/// The device form gives the same bytes, addresses and `used`, and only enqueues. It leaves both
/// positions in `faults`, and passes over ids that are not there; a `used` outside the packed bytes
/// is room for nothing. Packed bytes may lie in device memory or in pinned memory of the host, from
/// a multiple of 16 on; the input and its stride are multiples of an element's size. Old rows are
/// read as far as it takes to know their size, new ones twice. Errors: invalid_argument naming the
/// view, more ids than 2^31 - 1 among them, out_of_range for ids of a table without rows,
/// workspace_too_small.
template <class I>
status update_rows(const host_context&, const update_rows_args<I>&);
template <class I>
status update_rows(const context&, const update_rows_args<I>&, workspace);
template <class I>
std::size_t workspace_bytes(const context&, const update_rows_args<I>&);

}  // namespace quipu
