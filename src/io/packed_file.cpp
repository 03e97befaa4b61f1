// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/packed_file.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "file.hpp"
#include "pack/coders.hpp"
#include "packed_layout.hpp"

namespace quipu {

namespace detail {

struct packed_file_state {
  io_detail::input_file file;
  io_detail::packed_header header;
  io_detail::packed_layout at;
  packing how;
  std::string note;
  std::vector<std::uint32_t> sums;  // of addresses, then of records
  buffer<std::uint32_t> addresses;
  /// Addresses in order; empty where they are so in the file.
  std::vector<std::uint32_t> sorted;
};

}  // namespace detail

namespace {

using namespace io_detail;
using detail::packed_file_state;
using detail::record_places;
using detail::whole_flag;

status malformed(const char* message, std::int64_t expected = 0, std::int64_t actual = 0) {
  return failure(status_code::parse_error, message, 0, expected, actual);
}

/// Reads `bytes` bytes, all of which must be there.
status read_all(const input_file& file, std::int64_t from, void* to, std::int64_t bytes) {
  const auto got = file.read_at(from, to, static_cast<std::size_t>(bytes));
  if (!got) return got.error();
  if (*got == static_cast<std::size_t>(bytes)) return success();
  return malformed("the file became shorter while it was read");
}

status check_zeros(const input_file& file, std::int64_t from, std::int64_t to) {
  std::byte between[packed_alignment];
  if (auto s = read_all(file, from, between, to - from); !s.ok()) return s;
  const auto bytes = std::span(between).first(static_cast<std::size_t>(to - from));
  const bool zeros = std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  return zeros ? success() : malformed("bytes between two sections are not 0");
}

/// The elements of a section whose bytes the header has counted, and the zeros behind it.
template <class Vector>
status read_section(const input_file& file, std::int64_t begin, std::int64_t bytes,
                    std::int64_t next, Vector& to) {
  to.resize(static_cast<std::size_t>(bytes) / sizeof(typename Vector::value_type));
  if (auto s = read_all(file, begin, to.data(), bytes); !s.ok()) return s;
  return check_zeros(file, begin + bytes, next);
}

/// Bytes of a section with a checksum a block. It keeps the last block that was wanted in part.
class block_reader {
 public:
  block_reader(const input_file& file, std::int64_t begin, std::int64_t bytes,
               const std::uint32_t* sums)
      : file_(file), begin_(begin), bytes_(bytes), sums_(sums) {}

  /// Bytes [from, from + count) of the section, which has them.
  status read(std::int64_t from, std::int64_t count, std::byte* to) {
    while (count > 0) {
      const auto block = from / packed_block_bytes, skipped = from % packed_block_bytes;
      const auto some = std::min(count, length(block) - skipped);
      if (some == length(block)) {
        if (auto s = load(block, to); !s.ok()) return s;
      } else {
        if (auto s = hold(block); !s.ok()) return s;
        std::memcpy(to, held_bytes_.data() + skipped, static_cast<std::size_t>(some));
      }
      from += some;
      to += some;
      count -= some;
    }
    return success();
  }

 private:
  std::int64_t length(std::int64_t block) const {
    return std::min(packed_block_bytes, bytes_ - block * packed_block_bytes);
  }
  status hold(std::int64_t block) {
    if (block == held_) return success();
    held_ = -1;
    held_bytes_.resize(static_cast<std::size_t>(std::min(packed_block_bytes, bytes_)));
    if (auto s = load(block, held_bytes_.data()); !s.ok()) return s;
    held_ = block;
    return success();
  }
  status load(std::int64_t block, std::byte* to) const {
    const auto at = begin_ + block * packed_block_bytes;
    if (auto s = read_all(file_, at, to, length(block)); !s.ok()) return s;
    if (checksum(bytes_of(to, length(block))) == sums_[block]) return success();
    return malformed("a block's checksum does not match");
  }

  const input_file& file_;
  std::int64_t begin_, bytes_;
  const std::uint32_t* sums_;
  std::int64_t held_ = -1;
  std::vector<std::byte> held_bytes_;
};

block_reader records_of(const packed_file_state& s) {
  return {s.file, s.at.records, s.header.record_bytes,
          s.sums.data() + packed_blocks(s.header.address_bytes)};
}

result<packed_header> read_header(const input_file& file) {
  packed_header h;
  const auto got = file.read_at(0, &h, sizeof h);
  if (!got) return got.error();
  const auto known = std::min(*got, h.magic.size());
  if (!std::equal(h.magic.begin(), h.magic.begin() + known, packed_header::right_magic.begin())) {
    return malformed("not a packed file");
  }
  if (*got < sizeof h) return malformed("the file ends inside its header");
  if (h.version > packed_header::this_version) {
    return failure(status_code::unsupported, "a packed file of a later version", -1,
                   packed_header::this_version, h.version);
  }
  if (h.version != packed_header::this_version ||
      h.header_sum != checksum(bytes_of(&h, summed_header_bytes))) {
    return malformed("the header's checksum does not match");
  }
  for (const auto bytes : {h.packing_bytes, h.note_bytes, h.address_bytes, h.record_bytes}) {
    if (bytes < 0 || bytes > packed_layout::most_bytes)
      return malformed("the header holds an impossible size");
  }
  return h;
}

status check_end(const packed_layout& at, std::int64_t file_bytes) {
  if (at.end == file_bytes) return success();
  return malformed(at.end > file_bytes ? "the file is truncated: fewer bytes than its header says"
                                       : "bytes are left behind the rows",
                   at.end, file_bytes);
}

status read_addresses(packed_file_state& s) {
  const auto bytes = s.header.address_bytes;
  auto made = make_host_buffer<std::uint32_t>(bytes / 4);
  if (!made) return made.error();
  s.addresses = *std::move(made);
  block_reader reader(s.file, s.at.addresses, bytes, s.sums.data());
  auto* to = reinterpret_cast<std::byte*>(s.addresses.data());
  if (auto bad = reader.read(0, bytes, to); !bad.ok()) return bad;
  if (auto bad = check_zeros(s.file, s.at.addresses + bytes, s.at.records); !bad.ok()) return bad;
  if (bytes == 0) return success();
  auto order = order_addresses({s.addresses.data(), static_cast<std::size_t>(bytes / 4)},
                               s.header.record_bytes, s.how.granule);
  if (order.wrong != nullptr) return malformed(order.wrong);
  s.sorted = std::move(order.sorted);
  return success();
}

/// The packing. Its checksum comes first: a version that was damaged is no later one.
status read_how(packed_file_state& s) {
  std::vector<std::byte> how;
  const auto bytes = s.header.packing_bytes;
  if (auto bad = read_section(s.file, s.at.packing, bytes, s.at.note, how); !bad.ok()) return bad;
  std::uint32_t sum = 0;
  const auto summed = bytes - static_cast<std::int64_t>(sizeof sum);
  if (summed < 0) return malformed("the header holds an impossible size");
  std::memcpy(&sum, how.data() + summed, sizeof sum);
  if (sum != checksum(bytes_of(how.data(), summed))) {
    return malformed("the packing's checksum does not match");
  }
  auto parsed = parse_packing(how);
  if (!parsed) return parsed.error();
  s.how = *std::move(parsed);
  return success();
}

/// Everything but the rows, into a state that has the file alone.
status read_preface(packed_file_state& s) {
  auto header = read_header(s.file);
  if (!header) return header.error();
  const auto& h = s.header = *header;
  s.at = packed_layout(h);
  if (auto bad = check_end(s.at, s.file.size()); !bad.ok()) return bad;
  if (auto bad = read_how(s); !bad.ok()) return bad;
  if (auto bad = read_section(s.file, s.at.note, h.note_bytes, s.at.sums, s.note); !bad.ok()) {
    return bad;
  }
  if (h.note_sum != checksum(bytes_of(s.note.data(), h.note_bytes))) {
    return malformed("the note's checksum does not match");
  }
  const auto sum_bytes = 4 * packed_layout::sums_of(h);
  if (auto bad = read_section(s.file, s.at.sums, sum_bytes, s.at.addresses, s.sums); !bad.ok()) {
    return bad;
  }
  if (h.sums_sum != checksum(std::as_bytes(std::span(s.sums)))) {
    return malformed("the checksum of the checksums does not match");
  }
  if (const auto* wrong = wrong_size(s.how, h.rows, h.record_bytes, h.address_bytes)) {
    return malformed(wrong);
  }
  return read_addresses(s);
}

/// What a table is made of.
struct table_parts {
  buffer<std::byte> bytes;
  buffer<std::uint32_t> addresses;
  std::int64_t used = 0;

  /// Room for `count` bytes of rows, and zeros up to a multiple of 4 as devices want it.
  status make_bytes(std::int64_t count) {
    auto made = make_host_buffer<std::byte>(detail::round_up(count, 4));
    if (!made) return made.error();
    bytes = *std::move(made);
    used = count;
    std::fill(bytes.data() + used, bytes.data() + bytes.size(), std::byte{0});
    return success();
  }
  status make_addresses(std::int64_t count) {
    auto made = make_host_buffer<std::uint32_t>(count);
    if (made) addresses = *std::move(made);
    return made.error();
  }
  result<packed_table> finish(const packing& how, std::int64_t rows) && {
    auto taken = make_host_buffer<std::int64_t>(1);
    if (!taken) return taken.error();
    *taken->data() = used;
    return packed_table(how, rows, std::move(bytes), std::move(addresses), *std::move(taken));
  }
};

/// Which slots of `count` records speak of which record of the overflow area, in that order.
/// Two that speak of one would make a table that is larger than what it was read from.
struct overflow_order {
  const char* wrong = nullptr;
  std::vector<std::pair<std::int64_t, std::int64_t>> number_and_slot;
};

overflow_order order_overflow(const record_places& places, std::int64_t records,
                              std::int64_t numbers) {
  overflow_order order;
  for (std::int64_t record = 0; record < records; ++record) {
    if (!places.overflows(record)) continue;
    const auto number = detail::load_word<std::uint32_t>(places.slot(record));
    if (number >= numbers) return {"a row lies behind the end", {}};
    order.number_and_slot.emplace_back(number, record);
  }
  auto& pairs = order.number_and_slot;
  std::sort(pairs.begin(), pairs.end());
  for (std::size_t k = 1; k < pairs.size(); ++k) {
    if (pairs[k].first == pairs[k - 1].first) return {"two rows lie in one place", {}};
  }
  return order;
}

/// Slots of rows, and the records of the overflow area that they speak of.
status read_slots(const packed_file_state& s, std::int64_t first_row, std::int64_t count,
                  table_parts& parts) {
  const auto per_row = record_shape(s.how.width).records;
  const auto row_bytes = slot_bytes_of_row(s.how);
  const auto slots = count * row_bytes;
  if (slots == 0) return success();
  auto reader = records_of(s);
  if (auto bad = parts.make_bytes(slots); !bad.ok()) return bad;
  const auto begin = first_row * row_bytes;
  if (auto bad = reader.read(begin, slots, parts.bytes.data()); !bad.ok()) return bad;
  const auto view = [&] {
    packed_view v;
    v.how = &s.how;
    v.rows = count;
    v.bytes = parts.bytes.data();
    v.byte_count = parts.bytes.size();
    return v;
  };
  const record_places found(view());
  const auto bytes = found.record_bytes();
  const auto area = s.header.rows * row_bytes;
  const auto order = order_overflow(found, count * per_row, (s.header.record_bytes - area) / bytes);
  if (order.wrong != nullptr) return malformed(order.wrong);
  if (order.number_and_slot.empty()) return success();

  const auto alone = std::move(parts.bytes);
  const auto overflow = static_cast<std::int64_t>(order.number_and_slot.size()) * bytes;
  if (auto bad = parts.make_bytes(slots + overflow); !bad.ok()) return bad;
  std::memcpy(parts.bytes.data(), alone.data(), static_cast<std::size_t>(slots));
  const record_places places(view());
  std::int64_t next = 0;
  for (const auto& [number, slot] : order.number_and_slot) {
    auto* to = parts.bytes.data() + slots + next * bytes;
    if (auto bad = reader.read(area + number * bytes, bytes, to); !bad.ok()) return bad;
    places.point_to_overflow(slot, next++);
  }
  return success();
}

/// A record that is wanted, in granules, and its place among those that are.
struct wanted_record {
  std::int64_t begin, end, place;
};

/// Records that have addresses, in the order in which they lie in the file. A record's end is not
/// written anywhere: it is taken to reach up to the next one.
std::vector<wanted_record> find_records(const packed_file_state& s, std::size_t first,
                                        std::size_t count) {
  const std::span all(s.addresses.data(), static_cast<std::size_t>(s.addresses.size()));
  const auto end = s.header.record_bytes / s.how.granule;
  const bool rise = s.sorted.empty();
  std::vector<wanted_record> wanted;
  wanted.reserve(count);
  for (std::size_t k = 0; k < count; ++k) {
    const auto begin = all[first + k] & ~whole_flag;
    std::int64_t next = end;
    if (rise) {
      if (first + k + 1 < all.size()) next = all[first + k + 1] & ~whole_flag;
    } else {
      const auto behind = std::upper_bound(s.sorted.begin(), s.sorted.end(), begin);
      if (behind != s.sorted.end()) next = *behind;
    }
    wanted.push_back({begin, next, static_cast<std::int64_t>(k)});
  }
  if (!rise) std::ranges::sort(wanted, {}, &wanted_record::begin);
  return wanted;
}

status read_addressed(const packed_file_state& s, std::int64_t first_row, std::int64_t count,
                      table_parts& parts) {
  const auto per_row = record_shape(s.how.width).records;
  const auto first = static_cast<std::size_t>(first_row * per_row);
  const auto wanted = find_records(s, first, static_cast<std::size_t>(count * per_row));
  std::int64_t total = 0;
  for (const auto& r : wanted) total += r.end - r.begin;
  if (auto bad = parts.make_bytes(total * s.how.granule); !bad.ok()) return bad;
  if (auto bad = parts.make_addresses(count * per_row); !bad.ok()) return bad;
  auto reader = records_of(s);
  std::int64_t at = 0;
  for (std::size_t k = 0; k < wanted.size();) {
    // As far as records touch they are read at once.
    const auto begin = wanted[k].begin;
    auto end = begin;
    auto* to = parts.bytes.data() + at * s.how.granule;
    for (; k < wanted.size() && wanted[k].begin == end; ++k) {
      const auto place = wanted[k].place;
      const auto flag = s.addresses.data()[static_cast<std::int64_t>(first) + place] & whole_flag;
      parts.addresses.data()[place] = static_cast<std::uint32_t>(at) | flag;
      at += wanted[k].end - end;
      end = wanted[k].end;
    }
    const auto bytes = (end - begin) * s.how.granule;
    if (auto bad = reader.read(begin * s.how.granule, bytes, to); !bad.ok()) return bad;
  }
  return success();
}

}  // namespace

packed_file::packed_file(std::unique_ptr<packed_file_state> state) noexcept
    : state_(std::move(state)) {}
packed_file::packed_file(packed_file&&) noexcept = default;
packed_file& packed_file::operator=(packed_file&&) noexcept = default;
packed_file::~packed_file() = default;

const packing& packed_file::how() const noexcept { return state_->how; }
std::int64_t packed_file::rows() const noexcept { return state_->header.rows; }
const std::string& packed_file::note() const noexcept { return state_->note; }

result<packed_file> packed_file::open(const std::filesystem::path& path) {
  return catch_out_of_memory([&]() -> result<packed_file> {
    auto file = input_file::open(path);
    if (!file) return file.error();
    auto state = std::make_unique<packed_file_state>(
        packed_file_state{*std::move(file), {}, {}, {}, {}, {}, {}, {}});
    if (state->file.size() < 0) {
      std::byte first;
      const auto got = state->file.read(&first, 1);
      if (!got) return got.error();
      if (*got == 0) return malformed("the file is empty");
      return failure(status_code::unsupported, "a packed file must be a regular file");
    }
    if (auto s = read_preface(*state); !s.ok()) return s;
    return packed_file(std::move(state));
  });
}

result<packed_table> packed_file::read() const {
  return catch_out_of_memory([&]() -> result<packed_table> {
    const auto& s = *state_;
    table_parts parts;
    if (auto bad = parts.make_bytes(s.header.record_bytes); !bad.ok()) return bad;
    if (auto bad = parts.make_addresses(s.addresses.size()); !bad.ok()) return bad;
    if (s.addresses.bytes() > 0) {
      std::memcpy(parts.addresses.data(), s.addresses.data(), s.addresses.bytes());
    }
    auto reader = records_of(s);
    if (auto bad = reader.read(0, s.header.record_bytes, parts.bytes.data()); !bad.ok()) return bad;
    return std::move(parts).finish(s.how, s.header.rows);
  });
}

result<packed_table> packed_file::read_rows(std::int64_t first_row, std::int64_t count) const {
  const auto rows = state_->header.rows;
  if (first_row < 0 || count < 0 || first_row > rows - count) {
    return failure(status_code::out_of_range, "first_row: rows that are not there", first_row, rows,
                   count);
  }
  return catch_out_of_memory([&]() -> result<packed_table> {
    table_parts parts;
    const auto read = state_->how.has_slots() ? read_slots : read_addressed;
    if (auto bad = read(*state_, first_row, count, parts); !bad.ok()) return bad;
    return std::move(parts).finish(state_->how, count);
  });
}

result<packed_table> read_packed(const std::filesystem::path& path) {
  auto file = packed_file::open(path);
  if (!file) return file.error();
  return file->read();
}

}  // namespace quipu
