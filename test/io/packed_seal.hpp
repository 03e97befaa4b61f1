// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

// Checksums of a .qpk file made anew after its bytes were changed, straight from
// docs/packed_format.md: shares nothing with the library.
namespace quipu_test {

inline std::uint32_t crc32c(const char* bytes, std::size_t count) {
  std::uint32_t sum = ~0u;
  for (std::size_t i = 0; i < count; ++i) {
    sum ^= static_cast<unsigned char>(bytes[i]);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78u : 0u);
  }
  return ~sum;
}

template <class Number>
Number number_at(const std::string& bytes, std::size_t at) {
  Number n;
  std::memcpy(&n, bytes.data() + at, sizeof n);
  return n;
}
template <class Number>
void put_number(std::string& bytes, std::size_t at, Number n) {
  std::memcpy(bytes.data() + at, &n, sizeof n);
}

/// Where the sections of a file begin.
struct file_sections {
  std::uint64_t packing = 64, packing_bytes, note, note_bytes, sums, addresses, address_bytes,
                records, record_bytes;
  explicit file_sections(const std::string& file)
      : packing_bytes(number_at<std::uint64_t>(file, 16)),
        note(behind(packing + packing_bytes)),
        note_bytes(number_at<std::uint64_t>(file, 24)),
        sums(behind(note + note_bytes)),
        addresses(0),
        address_bytes(number_at<std::uint64_t>(file, 40)),
        records(0),
        record_bytes(number_at<std::uint64_t>(file, 48)) {
    addresses = behind(sums + 4 * (blocks(address_bytes) + blocks(record_bytes)));
    records = behind(addresses + address_bytes);
  }
  static std::uint64_t behind(std::uint64_t at) { return (at + 63) / 64 * 64; }
  static std::uint64_t blocks(std::uint64_t bytes) { return (bytes + 0xfffff) >> 20; }

  /// Whether the file has as many bytes as its header says.
  bool fit(const std::string& file) const {
    for (const auto bytes : {packing_bytes, note_bytes, address_bytes, record_bytes}) {
      if (bytes > file.size()) return false;
    }
    return packing_bytes >= 4 && records + record_bytes == file.size();
  }
};

/// Makes all checksums right, so that what is wrong with a file must be found without them.
inline void seal(std::string& file) {
  const file_sections at(file);
  if (!at.fit(file)) return;
  const auto put_sum = [&](std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    put_number(file, to, crc32c(file.data() + from, bytes));
  };
  put_sum(at.packing + at.packing_bytes - 4, at.packing, at.packing_bytes - 4);
  put_sum(12, at.note, at.note_bytes);
  auto to = at.sums;
  const auto put_blocks = [&](std::uint64_t section, std::uint64_t bytes) {
    for (std::uint64_t k = 0; k < bytes; k += 1 << 20, to += 4) {
      put_sum(to, section + k, std::min<std::uint64_t>(1 << 20, bytes - k));
    }
  };
  put_blocks(at.addresses, at.address_bytes);
  put_blocks(at.records, at.record_bytes);
  put_sum(56, at.sums, to - at.sums);
  put_sum(60, 0, 60);
}

}  // namespace quipu_test
