// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/check_pack.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu::detail {

/// What host and device check of an update.
template <class I>
status check_update(const update_rows_args<I>& a) {
  if (auto s = check_packed(a.packed); !s.ok()) return s;
  if (a.packed.used == nullptr) return wrong_argument("packed: used is null");
  if (auto s = check_table(a.input, *a.packed.how, input_messages); !s.ok()) return s;
  if (a.input.rows != a.ids.extent(0)) {
    return wrong_argument("input: rows are not as many as ids", a.ids.extent(0), a.input.rows);
  }
  if (a.ids.extent(0) > 0 && a.ids.data_handle() == nullptr) return wrong_argument("ids: null");
  return check_apart(a.input, a.packed, "input: overlaps the packed rows");
}

}  // namespace quipu::detail
