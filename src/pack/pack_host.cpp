// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <vector>

#include "pack/check_pack.hpp"
#include "pack/coders.hpp"
#include "quipu/engine/host_engine.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu {

namespace {

using detail::record_places;

/// Rows that a thread takes at once.
std::int64_t grain_of(std::int64_t row_bytes) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 16) / std::max<std::int64_t>(1, row_bytes));
}

template <class Body>
status for_rows(const host_context& ctx, std::int64_t rows, std::int64_t row_bytes, Body body) {
  return detail::parallel_pieces(ctx, rows, grain_of(row_bytes),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (auto i = begin; i < end; ++i) body(i);
                                 });
}

/// The lowest row that something is said of, by any thread.
class first_row {
 public:
  void note(std::int64_t row) {
    auto seen = row_.load(std::memory_order_relaxed);
    while (row < seen && !row_.compare_exchange_weak(seen, row, std::memory_order_relaxed)) {
    }
  }
  bool is_noted() const { return row_ != none; }
  std::int64_t get() const { return row_; }

 private:
  static constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> row_{none};
};

status malformed(const first_row& row) {
  if (!row.is_noted()) return success();
  return failure(status_code::parse_error, "packed: a row is malformed", row.get());
}

template <class Body>
auto catch_no_memory(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failure(status_code::out_of_memory, "not enough host memory for a packing's columns");
  }
}

const std::byte* part_of(const table_view& t, const record_shape& shape, std::int64_t row,
                         std::int64_t part) {
  return t.row(row) + shape.begin(part) * t.element_bytes;
}
std::byte* part_of(const mutable_table_view& t, const record_shape& shape, std::int64_t row,
                   std::int64_t part) {
  return t.row(row) + shape.begin(part) * t.element_bytes;
}

// --- packing a table -----------------------------------------------------------------------------

/// How many records do not fit their slots.
template <class Coder>
result<std::int64_t> count_overflow(const host_context& ctx, const Coder& coder,
                                    const table_view& t, const packing& p) {
  const record_shape shape(p.width);
  std::atomic<std::int64_t> count{0};
  auto s = for_rows(ctx, t.rows, t.row_bytes(), [&](std::int64_t i) {
    std::int64_t here = 0;
    for (std::int64_t k = 0; k < shape.records; ++k) {
      const auto bytes = coder.size(part_of(t, shape, i, k), shape.begin(k), shape.count(k));
      here += bytes < 0 || bytes > p.slot_bytes;
    }
    if (here > 0) count += here;
  });
  if (!s.ok()) return s;
  return count.load();
}

template <class Coder>
status fill_slots(const host_context& ctx, const Coder& coder, const table_view& t,
                  const packed_view& v) {
  const record_places places(v);
  const auto& shape = places.shape();
  auto s = for_rows(ctx, t.rows, t.row_bytes(), [&](std::int64_t i) {
    for (std::int64_t k = 0; k < shape.records; ++k) {
      const auto record = i * shape.records + k;
      if (!coder.encode(part_of(t, shape, i, k), shape.begin(k), shape.count(k),
                        places.slot(record))) {
        places.point_to_overflow(record, 0);
      }
    }
  });
  *v.used = places.overflow();
  if (!s.ok() || v.how->how == codec::raw) return s;
  std::int64_t number = 0;
  for (std::int64_t record = 0; record < v.records(); ++record) {
    if (!places.overflows(record)) continue;
    places.point_to_overflow(record, number++);
    const auto k = record % shape.records;
    const auto bytes = static_cast<std::size_t>(shape.count(k) * t.element_bytes);
    std::memset(v.bytes + *v.used, 0, static_cast<std::size_t>(places.record_bytes()));
    std::memcpy(v.bytes + *v.used, part_of(t, shape, record / shape.records, k), bytes);
    *v.used += places.record_bytes();
  }
  return success();
}

/// Writes a record as its address says: packed, or as it is.
template <class Coder>
void write_addressed(const Coder& coder, const record_places& places, std::int64_t record,
                     const std::byte* from, std::int64_t part, std::byte* to) {
  const auto& shape = places.shape();
  if (places.is_whole(record)) {
    std::memcpy(to, from, static_cast<std::size_t>(places.bytes_of(part)));
  } else {
    coder.encode(from, shape.begin(part), shape.count(part), to);
  }
}

template <class Coder>
status fill_addressed(const host_context& ctx, const Coder& coder, const table_view& t,
                      const packed_view& v) {
  const record_places places(v);
  const auto& shape = places.shape();
  return for_rows(ctx, t.rows, t.row_bytes(), [&](std::int64_t i) {
    for (std::int64_t k = 0; k < shape.records; ++k) {
      const auto record = i * shape.records + k;
      const auto from = places.address(record);
      const auto end = record + 1 < v.records() ? places.address(record + 1) : *v.used;
      std::memset(v.bytes + end - v.how->granule, 0, static_cast<std::size_t>(v.how->granule));
      write_addressed(coder, places, record, part_of(t, shape, i, k), k, v.bytes + from);
    }
  });
}

/// Makes addresses of sizes in bytes; returns the bytes in all, -1 if 31 bits do not tell.
std::int64_t place_records(std::uint32_t* sizes, std::int64_t records, std::int64_t granule) {
  using detail::whole_flag;
  std::int64_t at = 0;
  for (std::int64_t r = 0; r < records; ++r) {
    const auto size = static_cast<std::int64_t>(sizes[r] & ~whole_flag);
    if (at >= whole_flag) return -1;
    sizes[r] = static_cast<std::uint32_t>(at) | (sizes[r] & whole_flag);
    at += (size + granule - 1) / granule;
  }
  return at * granule;
}

struct packed_parts {
  buffer<std::byte> bytes;
  buffer<std::uint32_t> addresses;
  buffer<std::int64_t> used;
  packed_view view(const packing& p, std::int64_t rows) {
    return {&p, rows, bytes.data(), bytes.size(), addresses.data(), used.data()};
  }
};

status make_room(packed_parts& parts, std::int64_t bytes) {
  auto made = make_host_buffer<std::byte>(detail::round_up(bytes, 4));
  if (!made) return made.error();
  auto used = make_host_buffer<std::int64_t>(1);
  if (!used) return used.error();
  parts.bytes = *std::move(made);
  parts.used = *std::move(used);
  *parts.used.data() = 0;
  return success();
}

/// The whole of `make_packed` for one codec; `p` may get a larger granule. True if the table had
/// better stay raw.
template <class Coder>
result<bool> pack_with(const host_context& ctx, const Coder& coder, const table_view& t, packing& p,
                       const packed_options& options, packed_parts& parts) {
  const record_shape shape(p.width);
  const auto records = t.rows * shape.records;
  const auto record_bytes = shape.elements * p.element_bytes;
  const auto raw_bytes = t.rows * t.row_bytes();
  const bool may_grow = options.growth == expansion::allow || p.how == codec::raw;
  if constexpr (detail::uses_slots<Coder>) {
    std::int64_t overflow = 0;
    if (p.how != codec::raw) {
      const auto counted = count_overflow(ctx, coder, t, p);
      if (!counted) return counted.error();
      overflow = *counted;
    }
    const auto bytes = t.rows * slot_bytes_of_row(p) + overflow * record_bytes;
    if (!may_grow && bytes > raw_bytes) return true;
    const auto spare = p.how == codec::raw ? 0 : options.spare_rows * shape.records * record_bytes;
    if (auto s = make_room(parts, bytes + spare); !s.ok()) return s;
    if (auto s = fill_slots(ctx, coder, t, parts.view(p, t.rows)); !s.ok()) return s;
  } else {
    auto sizes = make_host_buffer<std::uint32_t>(records);
    if (!sizes) return sizes.error();
    std::atomic<std::int64_t> total{0};
    auto s = for_rows(ctx, t.rows, t.row_bytes(), [&](std::int64_t i) {
      std::int64_t here = 0;
      for (std::int64_t k = 0; k < shape.records; ++k) {
        auto size = coder.size(part_of(t, shape, i, k), shape.begin(k), shape.count(k));
        const bool whole = size < 0;
        if (whole) size = shape.count(k) * p.element_bytes;
        sizes->data()[i * shape.records + k] =
            static_cast<std::uint32_t>(size) | (whole ? detail::whole_flag : 0);
        here += size;
      }
      total += here;
    });
    if (!s.ok()) return s;
    const auto spare = [&] {
      return options.spare_rows * shape.records * detail::round_up(record_bytes, p.granule);
    };
    while ((total + records * p.granule + spare()) / p.granule >= detail::whole_flag) {
      p.granule *= 2;
    }
    const auto bytes = place_records(sizes->data(), records, p.granule);
    if (bytes < 0)
      return failure(status_code::unsupported, "input: larger than addresses can tell");
    if (!may_grow && bytes + 4 * records > raw_bytes) return true;
    if (s = make_room(parts, bytes + spare()); !s.ok()) return s;
    parts.addresses = *std::move(sizes);
    *parts.used.data() = bytes;
    if (s = fill_addressed(ctx, coder, t, parts.view(p, t.rows)); !s.ok()) return s;
  }
  return false;
}

}  // namespace

std::int64_t packed_bound(const packing& p, std::int64_t rows, expansion growth) noexcept {
  const record_shape shape(p.width);
  const auto record_bytes = shape.elements * p.element_bytes;
  const auto row_bytes = p.width * p.element_bytes;
  if (growth == expansion::keep_raw || p.how == codec::raw) return rows * row_bytes;
  if (p.how == codec::exponent) return rows * shape.records * (p.slot_bytes + record_bytes);
  // An address, and what is left of a granule.
  return rows * shape.records * (detail::round_up(record_bytes, p.granule) + 4);
}

result<packed_table> make_packed(const host_context& ctx, const table_view& t, const packing& how,
                                 const packed_options& options) {
  if (auto s = validate(how); !s.ok()) return s;
  if (auto s = detail::check_table(t, how, detail::input_messages); !s.ok()) return s;
  if (options.spare_rows < 0) return detail::wrong_argument("spare_rows: negative");
  return catch_no_memory([&]() -> result<packed_table> {
    packing p = how;
    packed_parts parts;
    const auto pack = [&] {
      return detail::with_coder(
          p, [&](const auto& coder) { return pack_with(ctx, coder, t, p, options, parts); });
    };
    auto stays_raw = pack();
    if (!stays_raw) return stays_raw.error();
    if (*stays_raw) {
      const auto format = p.format;
      p = raw_packing(t);
      p.format = format;
      if (stays_raw = pack(); !stays_raw) return stays_raw.error();
    }
    return packed_table(std::move(p), t.rows, std::move(parts.bytes), std::move(parts.addresses),
                        std::move(parts.used));
  });
}

// --- reading -------------------------------------------------------------------------------------

namespace {

/// output[k] = row row_of(k).
template <class RowOf>
status read_rows(const host_context& ctx, const packed_view& v, const mutable_table_view& out,
                 RowOf row_of) {
  return catch_no_memory([&] {
    return detail::with_coder(*v.how, [&](const auto& coder) {
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

template <class I>
status check_ids(const vector_view<const I>& ids, std::int64_t rows) {
  if (ids.extent(0) > 0 && ids.data_handle() == nullptr) {
    return detail::wrong_argument("ids: null");
  }
  for (std::int64_t k = 0; k < ids.extent(0); ++k) {
    if (ids[k] < 0 || ids[k] >= rows) {
      return failure(status_code::out_of_range, "ids: no such row", k, rows, ids[k]);
    }
  }
  return success();
}

}  // namespace

status unpack(const host_context& ctx, const unpack_args& a) {
  if (auto s = detail::check_packed(a.packed); !s.ok()) return s;
  if (auto s = detail::check_table(a.output, *a.packed.how, detail::output_messages); !s.ok()) {
    return s;
  }
  if (a.first_row < 0 || a.first_row > a.packed.rows - a.output.rows) {
    return failure(status_code::out_of_range, "first_row: rows that are not there", a.first_row,
                   a.packed.rows, a.first_row + a.output.rows);
  }
  return read_rows(ctx, a.packed, a.output, [&](std::int64_t k) { return a.first_row + k; });
}

template <class I>
status gather_rows(const host_context& ctx, const gather_rows_args<I>& a) {
  if (auto s = detail::check_packed(a.packed); !s.ok()) return s;
  if (auto s = detail::check_table(a.output, *a.packed.how, detail::output_messages); !s.ok()) {
    return s;
  }
  if (a.output.rows != a.ids.extent(0)) {
    return detail::wrong_argument("output: rows are not as many as ids", a.ids.extent(0),
                                  a.output.rows);
  }
  const auto rows = a.packed.rows;
  if (a.policy != id_policy::clamp) {
    if (auto s = check_ids(a.ids, rows); !s.ok()) return s;
  } else if (rows == 0 && a.ids.extent(0) > 0) {
    return failure(status_code::out_of_range, "ids: no rows to clamp to", 0);
  }
  return read_rows(ctx, a.packed, a.output,
                   [&](std::int64_t k) { return std::clamp<std::int64_t>(a.ids[k], 0, rows - 1); });
}
template status gather_rows(const host_context&, const gather_rows_args<std::int32_t>&);
template status gather_rows(const host_context&, const gather_rows_args<std::int64_t>&);

// --- updates -------------------------------------------------------------------------------------

namespace {

/// Rewrites rows of a table one by one. A row that needs more spare room than there is is left.
template <class Coder>
class row_updater {
 public:
  row_updater(const Coder& coder, const packed_view& v) : coder_(coder), view_(v), places_(v) {
    old_.resize(static_cast<std::size_t>(places_.record_bytes()));
  }

  /// What `used` becomes; -1 if there is no room.
  std::int64_t room_for(const table_view& t, std::int64_t k, std::int64_t row) {
    auto used = *view_.used;
    for (std::int64_t part = 0; part < places_.shape().records; ++part) {
      used += more_for(t, k, row, part);
    }
    return used <= view_.byte_count ? used : -1;
  }

  void write(const table_view& t, std::int64_t k, std::int64_t row) {
    const auto& shape = places_.shape();
    for (std::int64_t part = 0; part < shape.records; ++part) {
      const auto record = row * shape.records + part;
      const auto more = more_for(t, k, row, part);
      const auto* from = part_of(t, shape, k, part);
      const auto column = shape.begin(part), count = shape.count(part);
      if constexpr (detail::uses_slots<Coder>) {
        write_slot(record, from, column, count);
      } else {
        const auto size = coder_.size(from, column, count);
        const auto at = more > 0 ? *view_.used : places_.address(record);
        view_.addresses[record] = static_cast<std::uint32_t>(at / view_.how->granule) |
                                  (size < 0 ? detail::whole_flag : 0);
        std::memset(view_.bytes + at, 0, static_cast<std::size_t>(stored_size(size, count)));
        write_addressed(coder_, places_, record, from, part, view_.bytes + at);
      }
      *view_.used += more;
    }
  }

 private:
  /// Bytes of spare room that a record takes.
  std::int64_t more_for(const table_view& t, std::int64_t k, std::int64_t row, std::int64_t part) {
    const auto& shape = places_.shape();
    const auto record = row * shape.records + part;
    const auto column = shape.begin(part), count = shape.count(part);
    const auto size = coder_.size(part_of(t, shape, k, part), column, count);
    if constexpr (detail::uses_slots<Coder>) {
      const bool fits = size >= 0 && size <= view_.how->slot_bytes;
      return fits || has_overflow(record) ? 0 : places_.record_bytes();
    } else {
      const auto wanted = stored_size(size, count);
      std::int64_t there = 0;
      if (places_.read(coder_, row, part, old_.data())) {
        there = stored_size(places_.is_whole(record) ? -1 : coder_.size(old_.data(), column, count),
                            count);
      }
      return wanted <= there ? 0 : wanted;
    }
  }
  /// Bytes of a record that has an address; `size` is -1 if it lies there as it is.
  std::int64_t stored_size(std::int64_t size, std::int64_t count) const {
    return detail::round_up(size < 0 ? count * view_.how->element_bytes : size, view_.how->granule);
  }

  /// Whether a record has a place in the overflow area.
  bool has_overflow(std::int64_t record) const {
    return places_.overflows(record) &&
           places_.overflowed(record, places_.record_bytes()) != nullptr;
  }

  void write_slot(std::int64_t record, const std::byte* from, std::int64_t column,
                  std::int64_t count) {
    const auto number = has_overflow(record)
                            ? detail::load_word<std::uint32_t>(places_.slot(record))
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
  std::vector<std::byte> old_;
};

}  // namespace

template <class I>
status update_rows(const host_context&, const update_rows_args<I>& a) {
  if (auto s = detail::check_packed(a.packed); !s.ok()) return s;
  if (a.packed.used == nullptr) return detail::wrong_argument("packed: used is null");
  if (auto s = detail::check_table(a.input, *a.packed.how, detail::input_messages); !s.ok()) {
    return s;
  }
  if (a.input.rows != a.ids.extent(0)) {
    return detail::wrong_argument("input: rows are not as many as ids", a.ids.extent(0),
                                  a.input.rows);
  }
  if (auto s = check_ids(a.ids, a.packed.rows); !s.ok()) return s;
  return catch_no_memory([&]() -> status {
    return detail::with_coder(*a.packed.how, [&](const auto& coder) -> status {
      row_updater updater(coder, a.packed);
      for (std::int64_t k = 0; k < a.ids.extent(0); ++k) {
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
