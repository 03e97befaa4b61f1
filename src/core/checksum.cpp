// SPDX-License-Identifier: Apache-2.0
#include "core/checksum.hpp"

#include <array>
#include <cstring>

namespace quipu {

namespace {

// tables[k][b]: what byte b does to the sum when k bytes follow it.
constexpr auto tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t sum = b;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78u : 0u);
    t[0][b] = sum;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 255];
    }
  }
  return t;
}();

}  // namespace

std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  std::uint32_t sum = ~before;
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= sum;
    sum = 0;
    for (std::size_t k = 0; k < 8; ++k) sum ^= tables[7 - k][word >> (8 * k) & 255];
  }
  for (; left > 0; --left, ++p) {
    sum = sum >> 8 ^ tables[0][(sum ^ static_cast<std::uint32_t>(*p)) & 255];
  }
  return ~sum;
}

}  // namespace quipu
