// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <set>

#include "pack/device_tables.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu_test {

inline const host_context one{1};

/// All that an update may change, wherever it lies.
struct packed_state {
  std::vector<std::byte> bytes;  // spare room too
  std::vector<std::uint32_t> addresses;
  std::int64_t used = 0;
  bool operator==(const packed_state&) const = default;

  packed_state(const context& ctx, const packed_view& v)
      : bytes(check(to_host(ctx, v.bytes, v.byte_count))),
        addresses(check(to_host(ctx, v.addresses, v.addresses != nullptr ? v.records() : 0))),
        used(check(to_host(ctx, v.used, 1)).front()) {}
  void put(const context& ctx, const packed_view& v) const {
    check(detail::copy_bytes(ctx, v.bytes, bytes.data(), bytes.size()));
    check(detail::copy_bytes(ctx, v.addresses, addresses.data(), 4 * addresses.size()));
    check(detail::copy_bytes(ctx, v.used, &used, sizeof used));
  }
};

/// Rows to write, in host memory.
struct row_changes {
  std::vector<std::int64_t> ids;
  stored_table rows;

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  /// What becomes of a table if there is room for the first `count` of them; -1: for all.
  stored_table applied_to(stored_table t, std::int64_t count) const {
    std::set<std::int64_t> seen;
    for (auto k = size() - 1; k >= 0; --k) {
      const auto id = ids[static_cast<std::size_t>(k)];
      if (!seen.insert(id).second || (count >= 0 && k >= count)) continue;
      const auto row = rows.row(k);
      std::copy(row.begin(), row.end(), t.bytes.begin() + id * t.row_bytes());
    }
    return t;
  }
};

/// Rows that pack to more than before, to less and to the same; one id and perhaps others more than
/// once.
inline row_changes make_changes(const stored_table& t, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto any_row = [&] {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(t.rows));
  };
  row_changes c{{}, t.poisoned(count)};
  for (std::int64_t k = 0; k < count; ++k) {
    c.ids.push_back(k + 1 == count && k > 2 ? c.ids[1] : any_row());
    auto row = t.row(k % 5 == 1 ? c.ids.back() : any_row());
    const auto kept = k % 5 == 2 ? row.size() / 2 : 0;
    for (auto b = kept; k % 5 != 1 && k % 5 != 3 && b < row.size(); ++b) {
      row[b] = k % 5 == 4 ? std::byte{0} : static_cast<std::byte>(random());
    }
    std::copy(row.begin(), row.end(), c.rows.bytes.begin() + k * t.row_bytes());
  }
  return c;
}

/// The same in device memory, with room between the rows.
template <class I>
struct device_changes {
  buffer<I> ids;
  device_table rows;

  device_changes(const context& ctx, const row_changes& c, std::int64_t gap = 0)
      : ids(check(to_device(ctx, std::vector<I>(c.ids.begin(), c.ids.end())))),
        rows(ctx, c.rows, c.size(), gap) {
    for (std::int64_t k = 0; k < c.size(); ++k) {
      const auto row = c.rows.row(k);
      check(detail::copy_bytes(ctx, rows.memory.data() + k * rows.stride, row.data(), row.size()));
    }
  }
  update_rows_args<I> args(const packed_view& v, row_faults* faults) {
    return {v, make_vector_view<const I>(ids.data(), ids.size()), rows.view(), faults};
  }
};

template <class I>
status update_on_host(packed_table& packed, const row_changes& c) {
  const std::vector<I> ids(c.ids.begin(), c.ids.end());
  return update_rows<I>(
      one, {packed.view(), make_vector_view<const I>(ids.data(), c.size()), c.rows.view()});
}

inline packed_table pack_with_room(const stored_table& t, const packing& p,
                                   std::int64_t spare_rows) {
  packed_options o;
  o.growth = expansion::allow;
  o.spare_rows = spare_rows;
  return check(make_packed(one, t.view(), p, o));
}

}  // namespace quipu_test
