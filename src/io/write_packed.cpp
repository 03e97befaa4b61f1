// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <vector>

#include "core/checksum.hpp"
#include "file.hpp"
#include "pack/check_pack.hpp"
#include "packed_layout.hpp"
#include "quipu/io/packed_file.hpp"

namespace quipu {

namespace {

using namespace io_detail;

constexpr std::size_t longest_note = std::size_t{1} << 20;

status check_written(const packed_view& v, std::string_view note) {
  using detail::wrong_argument;
  if (auto s = detail::check_packed(v); !s.ok()) return s;
  if (v.used == nullptr) return wrong_argument("packed: used is null");
  if (*v.used > v.byte_count) {
    return wrong_argument("packed: used is more than byte_count", v.byte_count, *v.used);
  }
  if (note.size() > longest_note) return wrong_argument("note: longer than 2^20 bytes");
  const auto address_bytes = v.how->has_slots() ? 0 : 4 * v.records();
  if (const auto* wrong = wrong_size(*v.how, v.rows, *v.used, address_bytes)) {
    return wrong_argument(wrong);
  }
  if (address_bytes == 0) return success();
  const auto count = static_cast<std::size_t>(v.records());
  const auto order = order_addresses({v.addresses, count}, *v.used, v.how->granule);
  return order.wrong == nullptr ? success() : wrong_argument(order.wrong);
}

void append_sums(std::vector<std::uint32_t>& sums, std::span<const std::byte> section) {
  constexpr auto block = static_cast<std::size_t>(packed_block_bytes);
  for (; !section.empty(); section = section.subspan(std::min(block, section.size()))) {
    sums.push_back(checksum(section.first(std::min(block, section.size()))));
  }
}

/// Writes a section where it belongs, zeros before it.
class section_writer {
 public:
  explicit section_writer(output_file& file) : file_(file) {}
  void put(std::int64_t begin, std::span<const std::byte> section) {
    constexpr std::byte zeros[packed_alignment] = {};
    write(zeros, static_cast<std::size_t>(begin - at_));
    write(section.data(), section.size());
    at_ = begin + static_cast<std::int64_t>(section.size());
  }
  const status& outcome() const { return outcome_; }

 private:
  void write(const void* data, std::size_t bytes) {
    if (outcome_.ok()) outcome_ = file_.write(data, bytes);
  }
  output_file& file_;
  std::int64_t at_ = 0;
  status outcome_;
};

status write_sections(output_file& file, const packed_view& v, std::string_view note) {
  const auto how = serialise(*v.how);
  packed_header h;
  h.packing_bytes = static_cast<std::int64_t>(how.size());
  h.note_bytes = static_cast<std::int64_t>(note.size());
  h.rows = v.rows;
  h.address_bytes = v.how->has_slots() ? 0 : 4 * v.records();
  h.record_bytes = *v.used;
  const auto noted = bytes_of(note.data(), h.note_bytes);
  const auto addresses = bytes_of(v.addresses, h.address_bytes);
  const auto records = bytes_of(v.bytes, h.record_bytes);
  std::vector<std::uint32_t> sums;
  append_sums(sums, addresses);
  append_sums(sums, records);
  const auto summed = std::as_bytes(std::span(sums));
  h.note_sum = checksum(noted);
  h.sums_sum = checksum(summed);
  h.header_sum = checksum(bytes_of(&h, summed_header_bytes));
  const packed_layout at(h);
  section_writer out(file);
  out.put(0, bytes_of(&h, sizeof h));
  out.put(at.packing, how);
  out.put(at.note, noted);
  out.put(at.sums, summed);
  out.put(at.addresses, addresses);
  out.put(at.records, records);
  return out.outcome();
}

}  // namespace

status write_packed(const std::filesystem::path& path, const packed_view& packed,
                    std::string_view note) {
  return catch_out_of_memory([&]() -> status {
    if (auto s = check_written(packed, note); !s.ok()) return s;
    auto file = output_file::create(path);
    if (!file) return file.error();
    if (auto s = write_sections(*file, packed, note); !s.ok()) return s;
    return file->commit();
  });
}

}  // namespace quipu
