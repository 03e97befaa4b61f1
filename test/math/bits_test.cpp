// SPDX-License-Identifier: Apache-2.0
#include "quipu/math/bits.hpp"

#include <cstdint>
#include <random>

#include "support/catch.hpp"

using namespace quipu;

namespace {

// Bit by bit, which is how the two are defined.
std::uint64_t gathered(std::uint64_t value, std::uint64_t mask) {
  std::uint64_t dense = 0;
  int at = 0;
  for (int bit = 0; bit < 64; ++bit) {
    if (mask >> bit & 1) dense |= (value >> bit & 1) << at++;
  }
  return dense;
}

template <class Word>
void check_word(Word value, Word mask) {
  const auto dense = extract_bits(value, mask);
  CHECK(dense == gathered(value, mask));
  CHECK(deposit_bits(dense, mask) == (value & mask));
}

}  // namespace

TEST_CASE("bits are drawn together and spread again, whatever the mask") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const auto value = random();
    const auto mask = i % 3 == 0   ? random() & random()
                      : i % 3 == 1 ? random()
                                   : random() | random();
    check_word<std::uint64_t>(value, mask);
    check_word<std::uint32_t>(static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(mask));
    check_word<std::uint16_t>(static_cast<std::uint16_t>(value), static_cast<std::uint16_t>(mask));
    check_word<std::uint8_t>(static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(mask));
  }
  for (const auto mask : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    check_word<std::uint64_t>(0x123456789abcdef0, mask);
    check_word<std::uint8_t>(0xa5, static_cast<std::uint8_t>(mask >> 56));
  }
  CHECK(low_bits<std::uint64_t>(0) == 0);
  CHECK(low_bits<std::uint64_t>(64) == ~std::uint64_t{0});
  CHECK(low_bits<std::uint8_t>(3) == 7);
}
