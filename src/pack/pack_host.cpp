// SPDX-License-Identifier: Apache-2.0
#include "pack/host_rows.hpp"
#include "quipu/pack/pack.hpp"

namespace quipu {

namespace {

using namespace detail;

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
  std::int64_t at = 0;
  for (std::int64_t r = 0; r < records; ++r) {
    const auto size = static_cast<std::int64_t>(sizes[r] & ~whole_flag);
    if (at >= whole_flag) return -1;
    sizes[r] = static_cast<std::uint32_t>(at) | (sizes[r] & whole_flag);
    at += (size + granule - 1) / granule;
  }
  return at * granule;
}

/// Sizes of records in bytes, those that lie as they are flagged.
template <class Coder>
status measure(const host_context& ctx, const Coder& coder, const table_view& t, const packing& p,
               std::uint32_t* sizes) {
  const record_shape shape(p.width);
  return for_rows(ctx, t.rows, t.row_bytes(), [&](std::int64_t i) {
    for (std::int64_t k = 0; k < shape.records; ++k) {
      auto size = coder.size(part_of(t, shape, i, k), shape.begin(k), shape.count(k));
      const bool whole = size < 0;
      if (whole) size = shape.count(k) * p.element_bytes;
      sizes[i * shape.records + k] = static_cast<std::uint32_t>(size) | (whole ? whole_flag : 0);
    }
  });
}

/// What all records take.
std::int64_t granules_of(const std::uint32_t* sizes, std::int64_t records, std::int64_t granule) {
  std::int64_t all = 0;
  for (std::int64_t r = 0; r < records; ++r) {
    all += (static_cast<std::int64_t>(sizes[r] & ~whole_flag) + granule - 1) / granule;
  }
  return all;
}

/// Whether the output has room for so many bytes, which `used` then tells.
status take_room(const packed_view& v, std::int64_t bytes) {
  *v.used = bytes;
  if (bytes <= v.byte_count) return success();
  return failure(status_code::workspace_too_small, "output: bytes are too few", -1, bytes,
                 v.byte_count);
}

/// Packs with one codec into memory that is there.
template <class Coder>
status pack_into(const host_context& ctx, const Coder& coder, const table_view& t,
                 const packed_view& v) {
  const auto& p = *v.how;
  if constexpr (uses_slots<Coder>) {
    auto bytes = t.rows * slot_bytes_of_row(p);
    if (p.how != codec::raw) {
      const auto over = count_overflow(ctx, coder, t, p);
      if (!over) return over.error();
      bytes += *over * record_shape(p.width).elements * p.element_bytes;
    }
    if (auto s = take_room(v, bytes); !s.ok()) return s;
    return fill_slots(ctx, coder, t, v);
  } else {
    if (auto s = measure(ctx, coder, t, p, v.addresses); !s.ok()) return s;
    const auto bytes = place_records(v.addresses, v.records(), p.granule);
    if (bytes < 0)
      return failure(status_code::unsupported, "input: larger than addresses can tell");
    if (auto s = take_room(v, bytes); !s.ok()) return s;
    return fill_addressed(ctx, coder, t, v);
  }
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
  auto made = make_host_buffer<std::byte>(round_up(bytes, 4));
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
  const bool may_grow = options.growth == expansion::allow || p.how == codec::raw;
  if constexpr (uses_slots<Coder>) {
    std::int64_t overflow = 0;
    if (p.how != codec::raw) {
      const auto counted = count_overflow(ctx, coder, t, p);
      if (!counted) return counted.error();
      overflow = *counted;
    }
    const auto bytes = t.rows * slot_bytes_of_row(p) + overflow * record_bytes;
    if (!may_grow && !is_no_longer(bytes, p, t)) return true;
    const auto spare = p.how == codec::raw ? 0 : options.spare_rows * shape.records * record_bytes;
    if (auto s = make_room(parts, bytes + spare); !s.ok()) return s;
    if (auto s = fill_slots(ctx, coder, t, parts.view(p, t.rows)); !s.ok()) return s;
  } else {
    auto sizes = make_host_buffer<std::uint32_t>(records);
    if (!sizes) return sizes.error();
    if (auto s = measure(ctx, coder, t, p, sizes->data()); !s.ok()) return s;
    const auto spare = [&] {
      return options.spare_rows * shape.records * round_up(record_bytes, p.granule);
    };
    while (granules_of(sizes->data(), records, p.granule) + spare() / p.granule + records >=
           whole_flag) {
      p.granule *= 2;
    }
    const auto bytes = place_records(sizes->data(), records, p.granule);
    if (bytes < 0)
      return failure(status_code::unsupported, "input: larger than addresses can tell");
    if (!may_grow && !is_no_longer(bytes + 4 * records, p, t)) return true;
    if (auto s = make_room(parts, bytes + spare()); !s.ok()) return s;
    parts.addresses = *std::move(sizes);
    *parts.used.data() = bytes;
    if (auto s = fill_addressed(ctx, coder, t, parts.view(p, t.rows)); !s.ok()) return s;
  }
  return false;
}

}  // namespace

std::int64_t packed_bound(const packing& p, std::int64_t rows, expansion growth) noexcept {
  const record_shape shape(p.width);
  const auto record_bytes = shape.elements * p.element_bytes;
  const auto row_bytes = p.width * p.element_bytes;
  if (growth == expansion::keep_raw || p.how == codec::raw) return rows * row_bytes;
  if (p.how == codec::exponent) {
    return p.column_bytes() + rows * shape.records * (p.slot_bytes + record_bytes);
  }
  // An address, and what is left of a granule.
  return p.column_bytes() + rows * shape.records * (round_up(record_bytes, p.granule) + 4);
}

result<packed_table> make_packed(const host_context& ctx, const table_view& t, const packing& how,
                                 const packed_options& options) {
  if (auto s = validate(how); !s.ok()) return s;
  if (auto s = check_table(t, how, input_messages); !s.ok()) return s;
  if (auto s = check_spare(t, how, options.spare_rows); !s.ok()) return s;
  return catch_no_memory([&]() -> result<packed_table> {
    packing p = how;
    packed_parts parts;
    const auto pack = [&] {
      return with_coder(
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

status pack(const host_context& ctx, const pack_args& a) {
  const auto& v = a.output;
  if (auto s = check_packed(v); !s.ok()) return s;
  if (auto s = check_table(a.input, *v.how, input_messages); !s.ok()) return s;
  if (v.rows != a.input.rows) {
    return wrong_argument("output: rows are not the input's", a.input.rows, v.rows);
  }
  if (v.used == nullptr) return wrong_argument("output: used is null");
  if (auto s = check_apart(a.input, v, "output: overlaps the input"); !s.ok()) return s;
  return catch_no_memory([&] {
    return with_coder(*v.how, [&](const auto& coder) { return pack_into(ctx, coder, a.input, v); });
  });
}

}  // namespace quipu
