// SPDX-License-Identifier: Apache-2.0
#include "pack/tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {
const host_context one{1};
}  // namespace

TEST_CASE("whatever bits an exponent packing leaves out come back") {
  int in_slots = 0;
  for (const auto& m : masked_tables()) {
    INFO(m.name);
    auto packed = pack_all(m.table, m.how);
    const auto v = packed.view();
    in_slots += *v.used == m.table.rows * slot_bytes_of_row(m.how);
    auto out = m.table.poisoned();
    check(unpack(one, {v, out.view(), 0}));
    CHECK(out.bytes == m.table.bytes);
  }
  CHECK(in_slots > 40);
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
