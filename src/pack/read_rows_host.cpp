// SPDX-License-Identifier: Apache-2.0
#include "pack/host_rows.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu {

namespace {

using namespace detail;

/// output[k] = row row_of(k).
template <class RowOf>
status read_rows(const host_context& ctx, const packed_view& v, const mutable_table_view& out,
                 RowOf row_of) {
  return catch_no_memory([&] {
    return with_coder(*v.how, [&](const auto& coder) {
      const record_places places(v);
      const auto& shape = places.shape();
      first_row bad;
      auto s = for_rows(ctx, out.rows, out.row_bytes(), [&](std::int64_t k) {
        const auto row = row_of(k);
        for (std::int64_t part = 0; part < shape.records; ++part) {
          if (!places.read(coder, row, part, part_of(out, shape, k, part))) bad.note(row);
        }
      });
      return s.ok() ? malformed(bad) : s;
    });
  });
}

}  // namespace

status unpack(const host_context& ctx, const unpack_args& a) {
  if (auto s = check_packed(a.packed); !s.ok()) return s;
  if (auto s = check_table(a.output, *a.packed.how, output_messages); !s.ok()) {
    return s;
  }
  if (auto s = check_apart(a.output, a.packed, "output: overlaps the packed rows"); !s.ok())
    return s;
  if (a.first_row < 0 || a.first_row > a.packed.rows - a.output.rows) {
    return failure(status_code::out_of_range, "first_row: rows that are not there", a.first_row,
                   a.packed.rows, a.first_row);
  }
  return read_rows(ctx, a.packed, a.output, [&](std::int64_t k) { return a.first_row + k; });
}

template <class I>
status gather_rows(const host_context& ctx, const gather_rows_args<I>& a) {
  if (auto s = check_packed(a.packed); !s.ok()) return s;
  if (auto s = check_table(a.output, *a.packed.how, output_messages); !s.ok()) {
    return s;
  }
  if (auto s = check_apart(a.output, a.packed, "output: overlaps the packed rows"); !s.ok())
    return s;
  if (a.output.rows != a.ids.extent(0)) {
    return wrong_argument("output: rows are not as many as ids", a.ids.extent(0), a.output.rows);
  }
  const auto rows = a.packed.rows;
  if (a.order.data_handle() != nullptr && a.order.extent(0) != a.ids.extent(0)) {
    return wrong_argument("order: not as long as ids", a.ids.extent(0), a.order.extent(0));
  }
  if (auto s = check_ids(a.ids, rows, a.policy); !s.ok()) return s;
  if (rows == 0 && a.ids.extent(0) > 0) {
    return failure(status_code::out_of_range, "ids: no rows to clamp to", 0);
  }
  return read_rows(ctx, a.packed, a.output,
                   [&](std::int64_t k) { return std::clamp<std::int64_t>(a.ids[k], 0, rows - 1); });
}
template status gather_rows(const host_context&, const gather_rows_args<std::int32_t>&);
template status gather_rows(const host_context&, const gather_rows_args<std::int64_t>&);

}  // namespace quipu
