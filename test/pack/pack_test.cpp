// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/pack.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pack/tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

const host_context two{2};

status unpack_all(packed_table& packed, stored_table& out) {
  return unpack(two, {packed.view(), out.view(), 0});
}

/// Whole, row by row and by ids, the table comes back.
void check_round_trip(const stored_table& t, packed_table& packed) {
  auto whole = t.poisoned();
  check(unpack_all(packed, whole));
  CHECK(whole.bytes == t.bytes);
  auto one = t.poisoned(1);
  for (std::int64_t i = 0; i < t.rows; i += std::max<std::int64_t>(1, t.rows / 9)) {
    one.bytes = t.poisoned(1).bytes;
    check(unpack(two, {packed.view(), one.view(), i}));
    CHECK(one.bytes == t.row(i));
  }
  if (t.rows == 0) return;
  std::mt19937_64 random(3);
  std::vector<std::int64_t> ids(23);
  for (auto& id : ids)
    id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(t.rows));
  auto some = t.poisoned(static_cast<std::int64_t>(ids.size()));
  check(gather_rows<std::int64_t>(
      two, {packed.view(), make_vector_view<const std::int64_t>(ids.data(), 23), some.view()}));
  for (std::size_t k = 0; k < ids.size(); ++k) {
    CHECK(some.row(static_cast<std::int64_t>(k)) == t.row(ids[k]));
  }
}

}  // namespace

TEST_CASE("every packing gives back every bit") {
  for (const std::int64_t width : {1, 3, 17, 32, 128, 257}) {
    for (const auto& [name, table] : many_tables(41, width)) {
      INFO(name << ", " << table.element_bytes << " bytes, " << width << " wide");
      for (const auto& p : packings_of(table)) {
        INFO(name_of(p.how));
        auto packed = pack_all(table, p);
        CHECK(packed.how().how == p.how);
        CHECK(packed.view().stored_bytes() <=
              packed_bound(packed.how(), table.rows, expansion::allow));
        check_round_trip(table, packed);
      }
    }
  }
}

TEST_CASE("rows of several records come back too") {
  for (const std::int64_t width : {4096, 4097, 12287, 12289}) {
    for (const auto& [name, table] : many_tables(3, width)) {
      if (table.element_bytes == 8 && width > 4097) continue;
      INFO(name << ", " << table.element_bytes << " bytes, " << width << " wide");
      for (const auto& p : packings_of(table)) {
        INFO(name_of(p.how));
        auto packed = pack_all(table, p);
        check_round_trip(table, packed);
      }
    }
  }
}

TEST_CASE("what stays raw takes what the table takes") {
  for (const std::int64_t width : {1, 4097, 12289}) {
    const auto table = many_tables(3, width)[0].second;
    auto packed = check(make_packed(two, table.view(), packings_of(table)[0]));
    CHECK(packed.view().stored_bytes() == 3 * table.row_bytes());
    CHECK(std::equal(table.bytes.begin(), table.bytes.end(), packed.view().bytes));
  }
}

TEST_CASE("packing into memory that is there gives the same bytes, and too little is refused") {
  for (const std::int64_t width : {33, 4100}) {
    for (const auto& [name, table] : many_tables(11, width)) {
      for (const auto& p : packings_of(table)) {
        INFO(name << ", " << name_of(p.how) << ", " << width);
        auto expected = pack_all(table, p);
        const auto e = expected.view();
        std::vector<std::byte> bytes(
            static_cast<std::size_t>(packed_bound(p, table.rows, expansion::allow)));
        std::vector<std::uint32_t> addresses(static_cast<std::size_t>(e.records()));
        std::int64_t used = -1;
        packed_view v{&p,
                      table.rows,
                      bytes.data(),
                      static_cast<std::int64_t>(bytes.size()),
                      e.addresses != nullptr ? addresses.data() : nullptr,
                      &used};
        check(pack(two, {table.view(), v}));
        REQUIRE(used == *e.used);
        CHECK(std::equal(e.bytes, e.bytes + used, bytes.begin()));
        if (e.addresses != nullptr) {
          CHECK(std::equal(addresses.begin(), addresses.end(), e.addresses));
        }
        v.byte_count = used - 1;
        const auto s = pack(two, {table.view(), v});
        CHECK(!s.ok());
        if (s.code == status_code::workspace_too_small) CHECK(s.expected == used);
      }
    }
  }
}

TEST_CASE("records cut a row into equal parts that cover it") {
  for (const std::int64_t width : {0, 1, 4095, 4096, 4097, 8192, 8193, 12288, 100000, 1 << 20}) {
    const record_shape shape(width);
    std::int64_t covered = 0;
    for (std::int64_t r = 0; r < shape.records; ++r) {
      CHECK(shape.begin(r) == covered);
      CHECK(shape.count(r) > 0);
      CHECK(shape.count(r) <= record_shape::most);
      covered += shape.count(r);
    }
    CHECK(covered == width);
  }
}

TEST_CASE("a table never grows, unless that is allowed") {
  for (const auto& [name, table] : many_tables(29, 31)) {
    INFO(name << ", " << table.element_bytes << " bytes");
    for (const auto& p : packings_of(table)) {
      auto packed = check(make_packed(two, table.view(), p));
      CHECK(packed.view().stored_bytes() <= packed_bound(p, table.rows));
      CHECK(packed_bound(p, table.rows) == table.rows * table.row_bytes());
      check_round_trip(table, packed);
    }
  }
}

TEST_CASE("tables without rows or columns pack to nothing") {
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{0, 8}, {8, 0}, {0, 0}}) {
    const auto table = make_table(rows, width, 4, number_format::float32, [](auto) { return 0; });
    for (const auto& p : packings_of(table)) {
      auto packed = pack_all(table, p);
      CHECK(packed.view().stored_bytes() == 0);
      auto out = table.poisoned();
      CHECK(unpack_all(packed, out).ok());
    }
  }
  const auto table = many_tables(5, 9).back().second;
  auto packed = pack_all(table, packings_of(table).back());
  auto none = table.poisoned(0);
  CHECK(gather_rows<std::int32_t>(two,
                                  {packed.view(), vector_view<const std::int32_t>(), none.view()})
            .ok());
}

TEST_CASE("long runs of one value pack to little") {
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{7241, 1}, {1, 7241}, {10000, 64}}) {
    const auto x = rows == 10000 ? 0x3fc00000u : 0u;
    const auto table = make_table(rows, width, 4, number_format::float32, [&](auto) { return x; });
    const auto profile = check(make_profile(two, table.view()));
    auto packed =
        check(make_packed(two, table.view(), choose_packing(profile, packing_goal::smallest).how));
    if (width > 1) CHECK(30 * packed.view().stored_bytes() < rows * table.row_bytes());
    check_round_trip(table, packed);
  }
}

TEST_CASE("any number of threads makes the same bytes") {
  for (const auto& [name, table] : many_tables(300, 33)) {
    for (const auto& p : packings_of(table)) {
      auto one = pack_all(table, p, 1);
      const auto expected = bytes_of(one);
      for (const int threads : {2, 16, 64}) {
        auto other = pack_all(table, p, threads);
        CHECK(bytes_of(other) == expected);
      }
    }
  }
}

TEST_CASE("rows may lie anywhere and apart from each other") {
  const auto table = many_tables(19, 13)[24].second;
  const auto bytes = table.row_bytes();
  std::vector<std::byte> apart(static_cast<std::size_t>(19 * (bytes + 5) + 3));
  for (std::int64_t i = 0; i < 19; ++i) {
    std::memcpy(apart.data() + 3 + i * (bytes + 5), table.bytes.data() + i * bytes,
                static_cast<std::size_t>(bytes));
  }
  table_view input = table.view();
  input.data = apart.data() + 3;
  input.row_stride = bytes + 5;
  for (const auto& p : packings_of(table)) {
    packed_options o;
    o.growth = expansion::allow;
    auto packed = check(make_packed(two, input, p, o));
    std::vector<std::byte> out(apart.size(), std::byte{0xa5});
    mutable_table_view output{out.data() + 3, 19, 13, table.element_bytes, bytes + 5, table.format};
    check(unpack(two, {packed.view(), output, 0}));
    for (std::int64_t i = 0; i < 19; ++i) {
      CHECK(std::equal(input.row(i), input.row(i) + bytes, output.row(i)));
      for (std::int64_t b = bytes; b < bytes + 5 && i < 18; ++b) {
        CHECK(output.row(i)[b] == std::byte{0xa5});
      }
    }
  }
}

TEST_CASE("ids that are not there are refused by place, or clamped") {
  const auto table = many_tables(6, 4)[0].second;
  auto packed = pack_all(table, packings_of(table)[0]);
  const auto gather = [&](std::vector<std::int64_t> ids, id_policy policy, stored_table& out) {
    return gather_rows<std::int64_t>(two, {packed.view(),
                                           make_vector_view<const std::int64_t>(
                                               ids.data(), static_cast<std::int64_t>(ids.size())),
                                           out.view(), policy});
  };
  for (const std::int64_t id :
       {std::int64_t{6}, std::int64_t{-1}, std::int64_t{2147483647}, std::int64_t{4294967296}}) {
    auto out = table.poisoned(3);
    const auto s = gather({0, id, 2}, id_policy::refuse, out);
    CHECK(s.code == status_code::out_of_range);
    CHECK(s.position == 1);
    CHECK(out.bytes == table.poisoned(3).bytes);
    check(gather({0, id, 2}, id_policy::clamp, out));
    CHECK(out.row(1) == table.row(id < 0 ? 0 : 5));
  }
  for (const auto policy : {id_policy::refuse, id_policy::clamp, id_policy::trusted}) {
    auto none = table.poisoned(2);
    const auto s = gather_rows<std::int64_t>(
        two,
        {packed.view(), make_vector_view<const std::int64_t>(nullptr, 2), none.view(), policy});
    CHECK(s.code == status_code::invalid_argument);
  }
  auto out = table.poisoned(6);
  check(gather({5, 5, 0, 5, 2, 2}, id_policy::refuse, out));
  CHECK(out.row(3) == table.row(5));
  CHECK(out.row(5) == table.row(2));
}

TEST_CASE("arguments that do not fit are refused by name") {
  const auto table = many_tables(6, 4)[24].second;
  auto packed = pack_all(table, packings_of(table)[2]);
  const auto refused = [&](auto change, const char* words) {
    auto out = table.poisoned();
    unpack_args a{packed.view(), out.view(), 0};
    change(a);
    const auto s = unpack(two, a);
    CHECK(!s.ok());
    CHECK(std::string(s.message).find(words) != std::string::npos);
    CHECK(out.bytes == table.poisoned().bytes);
  };
  refused([](auto& a) { a.output.width = 5; }, "width");
  refused([](auto& a) { a.output.element_bytes = 2; }, "element_bytes");
  refused([](auto& a) { a.output.format = number_format::bfloat16; }, "numbers");
  refused([](auto& a) { a.output.row_stride = 15; }, "row_stride");
  refused([](auto& a) { a.output.data = nullptr; }, "output: null");
  refused([](auto& a) { a.output.rows = -1; }, "rows");
  refused([](auto& a) { a.first_row = 1; }, "first_row");
  refused([](auto& a) { a.first_row = -1; }, "first_row");
  refused([](auto& a) { a.packed.how = nullptr; }, "packing");
  refused([](auto& a) { a.packed.bytes = nullptr; }, "bytes");
  refused([](auto& a) { a.packed.byte_count = 6 * a.packed.how->slot_bytes - 1; }, "last slot");
  refused([](auto& a) { a.packed.rows = -1; }, "rows");

  auto p = packings_of(table)[2];
  p.exponent.code_bits = 5;
  CHECK(make_packed(two, table.view(), p).error().code == status_code::invalid_argument);
  auto wider = table.view();
  wider.width = 3;
  CHECK(make_packed(two, wider, packings_of(table)[2]).error().code ==
        status_code::invalid_argument);
  stored_table small = table.poisoned(5);
  std::vector<std::int32_t> ids(6, 0);
  CHECK(
      !gather_rows<std::int32_t>(
           two, {packed.view(), make_vector_view<const std::int32_t>(ids.data(), 6), small.view()})
           .ok());
  auto out = table.poisoned();
  CHECK(unpack_all(packed, out).ok());
}

TEST_CASE("damaged bytes are an error or other values, and nothing outside them is touched") {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t pages = 16;
  auto* area = static_cast<std::byte*>(::mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(area != MAP_FAILED);
  REQUIRE(::mprotect(area + pages * page, page, PROT_NONE) == 0);
  for (const std::int64_t width : {1, 7, 33}) {
    for (const auto& [name, table] : many_tables(6, width)) {
      for (const auto& p : packings_of(table)) {
        INFO(name << ", " << name_of(p.how) << ", " << width);
        auto packed = pack_all(table, p);
        const auto v = packed.view();
        const auto bytes = static_cast<std::size_t>(*v.used);
        REQUIRE(bytes <= pages * page);
        // The packed bytes end where the guarded page begins.
        auto* at = area + pages * page - bytes;
        std::copy_n(v.bytes, bytes, at);
        auto moved = v;
        moved.bytes = at;
        moved.byte_count = *v.used;
        auto out = table.poisoned();
        check(unpack(host_context{1}, {moved, out.view(), 0}));
        CHECK(out.bytes == table.bytes);
        for (std::size_t b = 0; b < bytes; ++b) {
          at[b] ^= std::byte{0xff};
          (void)unpack(host_context{1}, {moved, out.view(), 0});
          at[b] ^= std::byte{0xff};
        }
        for (std::size_t cut = 0; cut < bytes; cut += 1 + bytes / 50) {
          auto shorter = moved;
          shorter.bytes = area + pages * page - cut;
          std::copy_n(v.bytes, cut, shorter.bytes);
          shorter.byte_count = static_cast<std::int64_t>(cut);
          const auto s = unpack(host_context{1}, {shorter, out.view(), 0});
          if (v.how->has_slots()) CHECK(!s.ok());
        }
      }
    }
  }
  ::munmap(area, (pages + 1) * page);
}

TEST_CASE("a malformed row is named") {
  const auto table = many_tables(9, 64)[24].second;
  for (const auto& p : packings_of(table)) {
    if (p.how != codec::exponent && p.how != codec::sparse) continue;
    auto packed = pack_all(table, p);
    auto v = packed.view();
    if (p.how == codec::exponent) {
      // Nothing but escapes.
      std::fill(v.bytes + 4 * p.slot_bytes, v.bytes + 5 * p.slot_bytes - 1, std::byte{0xff});
      v.bytes[5 * p.slot_bytes - 1] = std::byte{0};
    } else {
      v.addresses[4] = 0xffffffff;
    }
    auto out = table.poisoned();
    const auto s = unpack(two, {v, out.view(), 0});
    CHECK(s.code == status_code::parse_error);
    CHECK(s.position == 4);
  }
}

TEST_CASE("rows can be written anew, longer ones while there is room") {
  for (const std::int64_t width : {33, 5000}) {
    for (const auto& [name, table] : many_tables(12, width)) {
      auto other = many_tables(3, width).at(0).second;  // random bits of one byte
      other.element_bytes = table.element_bytes;
      other.format = table.format;
      std::mt19937_64 random(5);
      other.bytes.resize(static_cast<std::size_t>(3 * table.row_bytes()));
      for (auto& b : other.bytes) b = static_cast<std::byte>(random());
      for (const auto& p : packings_of(table)) {
        INFO(name << ", " << name_of(p.how) << ", " << width);
        packed_options o;
        o.growth = expansion::allow;
        o.spare_rows = 3;
        auto packed = check(make_packed(two, table.view(), p, o));
        auto expected = table;
        const std::int32_t ids[] = {7, 2, 7};
        const auto update = [&](const table_view& rows) {
          return update_rows<std::int32_t>(
              two, {packed.view(), make_vector_view<const std::int32_t>(ids, 3), rows});
        };
        check(update(other.view()));
        std::copy_n(other.bytes.begin() + 2 * table.row_bytes(), table.row_bytes(),
                    expected.bytes.begin() + 7 * table.row_bytes());
        std::copy_n(other.bytes.begin() + table.row_bytes(), table.row_bytes(),
                    expected.bytes.begin() + 2 * table.row_bytes());
        check_round_trip(expected, packed);
        // Back again, which needs no room.
        auto old = table.poisoned(3);
        for (int k = 0; k < 3; ++k) {
          std::copy_n(table.bytes.begin() + ids[k] * table.row_bytes(), table.row_bytes(),
                      old.bytes.begin() + k * table.row_bytes());
        }
        check(update(old.view()));
        check_round_trip(table, packed);
      }
    }
  }
}

TEST_CASE("of an id given more than once only the last row is written") {
  for (const auto& [name, table] : many_tables(12, 33)) {
    auto rows = table.poisoned(6);
    std::mt19937_64 random(5);
    for (auto& b : rows.bytes) b = static_cast<std::byte>(random());
    // Of ids[k], the last rows alone are at 1, 3 and 5.
    const std::int64_t ids[] = {7, 0, 2, 7, 2, 2}, last_ids[] = {0, 7, 2};
    auto last_rows = table.poisoned(3);
    for (int k = 0; k < 3; ++k) {
      std::copy_n(rows.bytes.begin() + (2 * k + 1) * table.row_bytes(), table.row_bytes(),
                  last_rows.bytes.begin() + k * table.row_bytes());
    }
    for (const auto& p : packings_of(table)) {
      INFO(name << ", " << name_of(p.how));
      packed_options o;
      o.growth = expansion::allow;
      o.spare_rows = 3;
      auto all = check(make_packed(two, table.view(), p, o));
      auto last = check(make_packed(two, table.view(), p, o));
      check(update_rows<std::int64_t>(two, {all.view(), make_vector_view(ids, 6), rows.view()}));
      check(update_rows<std::int64_t>(
          two, {last.view(), make_vector_view(last_ids, 3), last_rows.view()}));
      CHECK(*all.view().used == *last.view().used);
      CHECK(bytes_of(all) == bytes_of(last));
    }
  }
}

TEST_CASE("a row that a later one replaces takes no room") {
  const auto table = make_table(8, 64, 4, number_format::float32, [](auto) { return 0x3f800000; });
  std::mt19937_64 random(5);
  const auto other = make_table(5, 64, 4, number_format::float32, [&](auto) { return random(); });
  for (const auto& p : packings_of(table)) {
    if (p.how == codec::raw) continue;
    INFO(name_of(p.how));
    packed_options o;
    o.spare_rows = 2;
    auto packed = check(make_packed(two, table.view(), p, o));
    const auto v = packed.view();
    const std::int64_t ids[] = {3, 3, 3, 3, 5};
    check(update_rows<std::int64_t>(two, {v, make_vector_view(ids, 5), other.view()}));
    auto out = table.poisoned();
    check(unpack_all(packed, out));
    for (std::int64_t i = 0; i < 8; ++i) {
      CHECK(out.row(i) == (i == 3 ? other.row(3) : i == 5 ? other.row(4) : table.row(i)));
    }
    // The last row of an id lies behind one without room, so that none is written.
    const std::int64_t more[] = {1, 2, 4, 6, 1};
    const auto s = update_rows<std::int64_t>(two, {v, make_vector_view(more, 5), other.view()});
    CHECK(s.code == status_code::workspace_too_small);
    CHECK(s.position == 1);
    auto same = table.poisoned();
    check(unpack_all(packed, same));
    CHECK(same.row(1) == table.row(1));
  }
}

TEST_CASE("a row for which there is no room is named, and stays") {
  const auto table = make_table(8, 64, 4, number_format::float32, [](auto) { return 0x3f800000; });
  std::mt19937_64 random(5);
  const auto other = make_table(8, 64, 4, number_format::float32, [&](auto) { return random(); });
  for (const auto& p : packings_of(table)) {
    if (p.how == codec::raw) continue;
    packed_options o;
    o.spare_rows = 2;
    auto packed = check(make_packed(two, table.view(), p, o));
    REQUIRE(packed.how().how == p.how);
    const std::int64_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const auto s = update_rows<std::int64_t>(
        two, {packed.view(), make_vector_view<const std::int64_t>(ids, 8), other.view()});
    CHECK(s.code == status_code::workspace_too_small);
    REQUIRE(s.position >= 2);
    auto out = table.poisoned();
    check(unpack_all(packed, out));
    for (std::int64_t i = 0; i < 8; ++i) {
      CHECK(out.row(i) == (i < s.position ? other.row(i) : table.row(i)));
    }
  }
}

// Parts of a row that a damaged table has in one place: what the first one leaves there must not
// make the second one look for room that nobody counted.
TEST_CASE("an update of damaged rows writes nothing behind the packed bytes") {
  constexpr std::int64_t width = 8192;
  std::vector<std::uint32_t> before(width), after(width);
  for (std::size_t k = 0; k < 100; ++k) {
    before[k * 7] = before[4096 + k * 7] = static_cast<std::uint32_t>(1000 + k);
  }
  after[5] = 77;
  for (std::size_t k = 0; k < 50; ++k) after[4096 + k * 9] = static_cast<std::uint32_t>(2000 + k);
  packing p;
  p.how = codec::sparse;
  p.width = width;
  const host_context one{1};
  auto packed = check(make_packed(one, make_table_view(std::as_const(before).data(), 1, width), p));
  const auto v = packed.view();
  v.addresses[1] = v.addresses[0];
  const std::int64_t id = 0;
  check(update_rows<std::int64_t>(
      one, {v, make_vector_view(&id, 1), make_table_view(std::as_const(after).data(), 1, width)}));
  CHECK(*v.used <= v.byte_count);
}
