// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <set>
#include <tuple>

#include "pack/tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {
const host_context one{1};
}  // namespace

TEST_CASE("whatever bits an exponent packing leaves out come back") {
  std::size_t without_slots = 0;
  std::set<std::tuple<number_format, int, int>> in_some_slot;  // kept bits, code bits
  const auto tables = masked_tables();
  for (const auto& m : tables) {
    INFO(m.name);
    auto packed = pack_all(m.table, m.how);
    const auto v = packed.view();
    bool in_slots = false;
    for (std::int64_t k = 1; k <= v.records(); ++k) {
      in_slots = in_slots || v.bytes[k * m.how.slot_bytes - 1] != detail::overflow_tag;
    }
    without_slots += !in_slots;
    if (in_slots) {
      in_some_slot.emplace(m.how.format, std::popcount(detail::kept_mask(m.how)),
                           m.how.exponent.code_bits);
    }
    auto out = m.table.poisoned();
    check(unpack(one, {v, out.view(), 0}));
    CHECK(out.bytes == m.table.bytes);
  }
  CHECK(without_slots < tables.size() / 20);
  // Those that the device has kernels for, and 8 bits that are not bf16's.
  using enum number_format;
  for (const auto& [format, kept] : {std::pair{bfloat16, 8},
                                     {float16, 8},
                                     {float16, 11},
                                     {float32, 8},
                                     {float32, 11},
                                     {float32, 24}}) {
    INFO(kept);
    CHECK(in_some_slot.contains({format, kept, 2}));
    CHECK(in_some_slot.contains({format, kept, 3}));
  }
}

// What is read beyond the end, or written, is found by the sanitizers.
TEST_CASE("damaged records of any kept bits are read within their bytes") {
  std::mt19937_64 random(7);
  for (const auto& m : masked_tables()) {
    auto packed = pack_all(m.table, m.how);
    auto v = packed.view();
    for (int round = 0; round < 8; ++round) {
      std::vector<std::byte> bytes(v.bytes, v.bytes + *v.used);
      for (auto& b : bytes) {
        if (random() % 16 == 0) b = static_cast<std::byte>(random());
      }
      // Not in overflow, most of them.
      for (std::int64_t k = 0; k < v.records(); ++k) {
        if (random() % 8 != 0) {
          bytes[static_cast<std::size_t>((k + 1) * m.how.slot_bytes - 1)] = std::byte{0};
        }
      }
      auto damaged = v;
      damaged.bytes = bytes.data();
      damaged.byte_count = *v.used;
      auto out = m.table.poisoned();
      (void)unpack(one, {damaged, out.view(), 0});
    }
  }
}
