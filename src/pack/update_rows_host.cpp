// SPDX-License-Identifier: Apache-2.0
#include <unordered_set>
#include <vector>

#include "pack/check_update.hpp"
#include "pack/host_rows.hpp"

namespace quipu {

namespace {

using namespace detail;

/// Rewrites rows of a table one by one. A row that needs more spare room than there is is left.
template <class Coder>
class row_updater {
 public:
  row_updater(const Coder& coder, const packed_view& v) : coder_(coder), view_(v), places_(v) {
    more_.resize(static_cast<std::size_t>(places_.shape().records));
  }

  /// What `used` becomes; -1 if there is no room. All parts are measured before any is written: in
  /// a damaged table they may lie in one place.
  std::int64_t room_for(const table_view& t, std::int64_t k, std::int64_t row) {
    auto used = *view_.used;
    for (std::int64_t part = 0; part < places_.shape().records; ++part) {
      used += more(part) = more_for(t, k, row, part);
    }
    if (!view_.how->has_slots() && used / view_.how->granule > whole_flag) return -1;
    return used <= view_.byte_count ? used : -1;
  }

  /// The row that was measured last, if there is room.
  void write(const table_view& t, std::int64_t k, std::int64_t row) {
    const auto& shape = places_.shape();
    for (std::int64_t part = 0; part < shape.records; ++part) {
      const auto record = row * shape.records + part;
      const auto* from = part_of(t, shape, k, part);
      const auto column = shape.begin(part), count = shape.count(part);
      if constexpr (uses_slots<Coder>) {
        write_slot(record, from, column, count);
      } else {
        const auto size = coder_.size(from, column, count);
        const auto at = more(part) > 0 ? *view_.used : places_.address(record);
        view_.addresses[record] =
            static_cast<std::uint32_t>(at / view_.how->granule) | (size < 0 ? whole_flag : 0);
        std::memset(view_.bytes + at, 0, static_cast<std::size_t>(stored_size(size, count)));
        write_addressed(coder_, places_, record, from, part, view_.bytes + at);
      }
      *view_.used += more(part);
    }
  }

 private:
  std::int64_t& more(std::int64_t part) { return more_[static_cast<std::size_t>(part)]; }
  /// Bytes of spare room that a record takes.
  std::int64_t more_for(const table_view& t, std::int64_t k, std::int64_t row, std::int64_t part) {
    const auto& shape = places_.shape();
    const auto record = row * shape.records + part;
    const auto column = shape.begin(part), count = shape.count(part);
    const auto size = coder_.size(part_of(t, shape, k, part), column, count);
    if constexpr (uses_slots<Coder>) {
      const bool fits = size >= 0 && size <= view_.how->slot_bytes;
      return fits || has_overflow(record) ? 0 : places_.record_bytes();
    } else {
      const auto wanted = stored_size(size, count);
      return wanted <= place_bytes(row, part) ? 0 : wanted;
    }
  }
  /// What the granules of a record with an address hold; 0 if it is malformed.
  std::int64_t place_bytes(std::int64_t row, std::int64_t part) const {
    const auto& shape = places_.shape();
    const auto record = row * shape.records + part;
    const auto column = shape.begin(part), count = shape.count(part);
    const auto at = places_.address(record), room = view_.byte_count - at;
    if (room <= 0) return 0;
    const auto size =
        places_.is_whole(record) ? -1 : coder_.stored_bytes(view_.bytes + at, room, column, count);
    const auto bytes = stored_size(size, count);
    return bytes <= room ? bytes : 0;
  }
  /// Bytes of a record that has an address; `size` is -1 if it lies there as it is.
  std::int64_t stored_size(std::int64_t size, std::int64_t count) const {
    return round_up(size < 0 ? count * view_.how->element_bytes : size, view_.how->granule);
  }

  /// Whether a record has a place in the overflow area.
  bool has_overflow(std::int64_t record) const {
    return places_.overflows(record) &&
           places_.overflowed(record, places_.record_bytes()) != nullptr;
  }

  void write_slot(std::int64_t record, const std::byte* from, std::int64_t column,
                  std::int64_t count) {
    const auto number = has_overflow(record)
                            ? load_word<std::uint32_t>(places_.slot(record))
                            : (*view_.used - places_.overflow()) / places_.record_bytes();
    if (coder_.encode(from, column, count, places_.slot(record))) return;
    places_.point_to_overflow(record, number);
    auto* to = places_.overflowed(record, places_.record_bytes());
    std::memset(to, 0, static_cast<std::size_t>(places_.record_bytes()));
    std::memcpy(to, from, static_cast<std::size_t>(count * view_.how->element_bytes));
  }

  const Coder& coder_;
  packed_view view_;
  record_places places_;
  std::vector<std::int64_t> more_;
};

/// Of every position, whether no later one has its id.
template <class I>
std::vector<bool> last_of_their_ids(const vector_view<const I>& ids) {
  const auto size = ids.extent(0);
  std::vector<bool> is_last(static_cast<std::size_t>(size));
  std::unordered_set<I> seen;
  for (auto k = size - 1; k >= 0; --k) {
    is_last[static_cast<std::size_t>(k)] = seen.insert(ids[k]).second;
  }
  return is_last;
}

template <class I>
status check_arguments(const update_rows_args<I>& a) {
  if (auto s = check_update(a); !s.ok()) return s;
  const auto slots =
      a.packed.how->has_slots() ? a.packed.rows * slot_bytes_of_row(*a.packed.how) : 0;
  if (*a.packed.used < slots || *a.packed.used > a.packed.byte_count) {
    return wrong_argument("packed: used lies outside its bytes", a.packed.byte_count,
                          *a.packed.used);
  }
  return check_ids(a.ids, a.packed.rows, id_policy::refuse);
}

}  // namespace

template <class I>
status update_rows(const host_context&, const update_rows_args<I>& a) {
  if (auto s = check_arguments(a); !s.ok()) return s;
  return catch_no_memory([&]() -> status {
    const auto is_last = last_of_their_ids(a.ids);
    return with_coder(*a.packed.how, [&](const auto& coder) -> status {
      row_updater updater(coder, a.packed);
      for (std::int64_t k = 0; k < a.ids.extent(0); ++k) {
        if (!is_last[static_cast<std::size_t>(k)]) continue;
        if (updater.room_for(a.input, k, a.ids[k]) < 0) {
          return failure(status_code::workspace_too_small, "packed: no spare room for a longer row",
                         k);
        }
        updater.write(a.input, k, a.ids[k]);
      }
      return success();
    });
  });
}
template status update_rows(const host_context&, const update_rows_args<std::int32_t>&);
template status update_rows(const host_context&, const update_rows_args<std::int64_t>&);

}  // namespace quipu
