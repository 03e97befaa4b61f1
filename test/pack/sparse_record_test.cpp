// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/detail/sparse_record.hpp"

#include <algorithm>
#include <utility>

#include "pack/tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

/// The places that a row of four bytes an element lists, as many as it stores.
std::byte* places_of(const packed_view& v, std::int64_t row) {
  auto* record = v.bytes + std::int64_t{v.addresses[row]} * v.how->granule;
  const auto head = detail::load_word<std::uint16_t>(record);
  const auto form = static_cast<detail::sparse_form>(head >> 13);
  return record + detail::sparse_parts(form, head & 0x1fff, v.how->width, 4).places;
}

}  // namespace

TEST_CASE("a sparse row whose places do not ascend is malformed") {
  const host_context one{1};
  packing p;
  p.how = codec::sparse;
  for (const std::int64_t width : {200, 300}) {
    const auto place_bytes = detail::sparse_parts::place_bytes(width);
    p.width = width;
    // All are the unit, all are the same, none are.
    for (const auto& [first, step] : {std::pair{1, 0}, {7, 0}, {7, 1}}) {
      INFO(width << " wide, " << first << " and each " << step << " more");
      auto table = make_table(3, width, 4, number_format::bits, [&, x = first](auto i) mutable {
        return i % width % 60 == 5 ? std::exchange(x, x + step) : 0;
      });
      auto packed = pack_all(table, p);
      const auto v = packed.view();
      auto out = table.poisoned();
      const auto unpacked = [&] { return unpack(one, {v, out.view(), 0}); };
      auto* places = places_of(v, 1);
      const std::vector<std::byte> sound(places, places + 3 * place_bytes);
      check(unpacked());
      CHECK(out.bytes == table.bytes);

      std::swap_ranges(places, places + place_bytes, places + place_bytes);
      CHECK(unpacked().code == status_code::parse_error);
      CHECK(unpacked().position == 1);
      // The second one twice.
      std::copy_n(sound.data() + place_bytes, place_bytes, places);
      std::copy_n(sound.data() + place_bytes, place_bytes, places + place_bytes);
      CHECK(unpacked().code == status_code::parse_error);
      CHECK(unpacked().position == 1);

      std::copy(sound.begin(), sound.end(), places);
      check(unpacked());
      CHECK(out.bytes == table.bytes);
    }
  }
}

// Where much room is left the head alone tells.
TEST_CASE("a sparse head that no record has is malformed in any room") {
  packing p;
  p.how = codec::sparse;
  p.width = 40;
  const detail::sparse_coder<std::uint32_t> coder(p);
  std::vector<std::byte> record(64), elements(160);
  for (const unsigned head : {4u << 13, 6u << 13, 7u << 13 | 3, 1u << 13 | 41, 0u << 13 | 8191}) {
    detail::store_word(record.data(), static_cast<std::uint16_t>(head));
    for (const std::int64_t room :
         {std::int64_t{64}, std::int64_t{1} << 31, std::int64_t{1} << 40}) {
      INFO(head << ", " << room);
      CHECK(!coder.decode(record.data(), room, 0, p.width, elements.data()));
      CHECK(coder.stored_bytes(record.data(), room, 0, p.width) == 0);
    }
  }
}
