// SPDX-License-Identifier: Apache-2.0
#include "pack/device_updates.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

/// What updates have met, so that tests can say that they met it.
struct met {
  int overflowed = 0, moved = 0, in_place = 0, without_room = 0;
  void note(const packed_view& v, const packed_state& before, const packed_state& after,
            std::int64_t room) {
    const bool grew = after.used > before.used;
    if (grew) ++(v.addresses == nullptr ? overflowed : moved);
    if (!grew && after.bytes != before.bytes) ++in_place;
    if (room >= 0) ++without_room;
  }
};

/// Host and device write the same updates to the same packed rows. `there` holds on the device, or
/// where it can read them, what `packed` holds.
template <class I>
void check_update(const context& ctx, const row_changes& c, stored_table& t, packed_table& packed,
                  packed_table& there, std::int64_t gap, met& seen) {
  const packed_state before(ctx, packed.view());
  const auto s = update_on_host<I>(packed, c);
  REQUIRE((s.ok() || s.code == status_code::workspace_too_small));
  const auto room = s.ok() ? -1 : s.position;
  const packed_state after(ctx, packed.view());
  seen.note(packed.view(), before, after, room);

  device_changes<I> changes(ctx, c, gap);
  auto faults = make_faults(ctx);
  const auto args = changes.args(there.view(), faults.data());
  test::guarded_workspace space(ctx, workspace_bytes(ctx, args));
  for (const auto mode : test::run_modes) {
    test::run(
        ctx, mode, [&](const context& other) { before.put(other, there.view()); },
        [&](const context& other) { return update_rows(other, args, space.get()); });
    CHECK(space.intact());
    CHECK((packed_state(ctx, there.view()) == after));
    const auto f = read_faults(ctx, faults);
    CHECK(f.id == -1);
    CHECK(f.row == -1);
    CHECK(f.room == room);
  }
  t = c.applied_to(t, room);
  auto back = check(to_host(ctx, there.view()));
  auto out = t.poisoned();
  check(unpack(one, {back.view(), out.view(), 0}));
  CHECK((out.bytes == t.bytes));
}

/// Two updates, of which the second finds rows that the first has moved.
template <class I>
void check_updates(const context& ctx, stored_table t, const packing& p, std::int64_t spare_rows,
                   std::int64_t gap, bool pinned, met& seen) {
  INFO(name_of(p.how) << ", room for " << spare_rows << " rows");
  auto packed = pack_with_room(t, p, spare_rows);
  auto there = check(pinned ? to_pinned(ctx, packed.view()) : to_device(ctx, packed.view()));
  for (const std::uint64_t seed : {1, 2}) {
    const auto changes = make_changes(t, t.rows * 3 / 4 + 2, seed);
    check_update<I>(ctx, changes, t, packed, there, gap, seen);
  }
}

void check_widths(std::initializer_list<std::int64_t> widths, met& seen) {
  const auto ctx = test::device_context();
  for (const auto width : widths) {
    const std::int64_t rows = width > 4000 ? 5 : 17;
    for (const auto& [name, table] : many_tables(rows, width)) {
      profile_options o;
      o.clusters = width == 33 ? 3 : 1;
      for (const auto& p : packings_of(table, o)) {
        INFO(name << ", " << table.element_bytes << " bytes, " << width);
        check_updates<std::int32_t>(ctx, table, p, 0, 0, false, seen);
        check_updates<std::int64_t>(ctx, table, p, 2, width % 2, false, seen);
        check_updates<std::int32_t>(ctx, table, p, 2 * rows, 1, false, seen);
      }
    }
  }
}

void check_met_all(const met& seen) {
  CHECK(seen.overflowed > 10);
  CHECK(seen.moved > 10);
  CHECK(seen.in_place > 10);
  CHECK(seen.without_room > 10);
}

}  // namespace

// For racecheck, under which all tables would take minutes.
TEST_CASE("device: a warp updates by its own memory") {
  const auto ctx = test::device_context();
  const auto tables = many_tables(9, 260);
  met seen;
  for (const std::size_t which : {4, 10, 24, 25, 26, 27, 29}) {
    const auto& table = tables[which].second;
    for (const auto& p : packings_of(table)) {
      check_updates<std::int32_t>(ctx, table, p, 9, 0, false, seen);
    }
  }
  CHECK(seen.overflowed > 0);
  CHECK(seen.moved > 0);
}

TEST_CASE("device: updates write the bytes that the host writes") {
  met seen;
  check_widths({33}, seen);
  check_met_all(seen);
}

TEST_CASE("device: updates of rows of several records") {
  met seen;
  check_widths({4097}, seen);
  check_met_all(seen);
}

TEST_CASE("device: updates of rows of all widths", "[slow]") {
  met seen;
  check_widths({1, 3, 17, 128, 260, 1025, 12288}, seen);
  check_met_all(seen);
}

TEST_CASE("device: updates of rows in pinned memory") {
  const auto ctx = test::device_context();
  met seen;
  for (const auto& [name, table] : many_tables(11, 40)) {
    for (const auto& p : packings_of(table)) {
      INFO(name << ", " << table.element_bytes << " bytes");
      check_updates<std::int64_t>(ctx, table, p, 4, 0, true, seen);
    }
  }
  check_met_all(seen);
}

TEST_CASE("device: more updates than warps, and most ids several times") {
  const auto ctx = test::device_context();
  std::mt19937_64 random(8);
  // Few rows are longer than the others.
  const auto element = [&](std::int64_t i) {
    return i / 24 % 50 == 7 ? random() : bits_of(1.0f + static_cast<float>(random() % 8) / 8);
  };
  met seen;
  const auto table = make_table(12000, 24, 4, number_format::float32, element);
  row_changes c{{}, make_table(20000, 24, 4, number_format::float32, element)};
  for (std::int64_t k = 0; k < c.rows.rows; ++k) {
    c.ids.push_back(static_cast<std::int64_t>(random() % 12000));
  }
  for (const std::int64_t spare_rows : {100, 12000}) {
    for (const auto& p : packings_of(table)) {
      INFO(name_of(p.how) << ", room for " << spare_rows << " rows");
      auto t = table;
      auto packed = pack_with_room(t, p, spare_rows);
      auto there = check(to_device(ctx, packed.view()));
      check_update<std::int32_t>(ctx, c, t, packed, there, 0, seen);
    }
  }
  CHECK(seen.overflowed > 0);
  CHECK(seen.moved > 0);
  CHECK(seen.without_room > 0);
}
