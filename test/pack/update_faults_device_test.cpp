// SPDX-License-Identifier: Apache-2.0
#include "pack/device_updates.hpp"

using namespace quipu;
using namespace quipu_test;

TEST_CASE("device: updates pass over ids that are not there, and tell the first") {
  const auto ctx = test::device_context();
  auto faults = make_faults(ctx);
  const auto table = many_tables(9, 64)[24].second;
  for (const auto& p : packings_of(table)) {
    INFO(name_of(p.how));
    auto packed = pack_with_room(table, p, 9);
    auto there = check(to_device(ctx, packed.view()));
    auto c = make_changes(table, 6, 3);
    c.ids = {3, 9, -1, 5, 4294967299, -1};
    device_changes<std::int64_t> changes(ctx, c);
    const auto args = changes.args(there.view(), faults.data());
    test::guarded_workspace space(ctx, workspace_bytes(ctx, args));
    check(update_rows(ctx, args, space.get()));
    auto sound = c;
    sound.ids = {3, 5};
    sound.rows.rows = 2;
    const auto third = c.rows.row(3);
    std::copy(third.begin(), third.end(), sound.rows.bytes.begin() + table.row_bytes());
    check(update_on_host<std::int64_t>(packed, sound));
    CHECK((packed_state(ctx, there.view()) == packed_state(ctx, packed.view())));
    const auto f = read_faults(ctx, faults);
    CHECK(f.id == 1);
    CHECK(f.room == -1);
  }
}

TEST_CASE("device: of a row without room the position is told, and rows behind it stay") {
  const auto ctx = test::device_context();
  auto faults = make_faults(ctx);
  const auto table = make_table(8, 64, 4, number_format::float32, [](auto) { return 0x3f800000; });
  std::mt19937_64 random(5);
  const row_changes c{{0, 1, 2, 3, 4, 5, 6, 7},
                      make_table(8, 64, 4, number_format::float32, [&](auto) { return random(); })};
  device_changes<std::int64_t> changes(ctx, c);
  for (const auto& p : packings_of(table)) {
    if (p.how == codec::raw) continue;
    INFO(name_of(p.how));
    auto packed = pack_with_room(table, p, 2);
    auto there = check(to_device(ctx, packed.view()));
    const auto args = changes.args(there.view(), faults.data());
    test::guarded_workspace space(ctx, workspace_bytes(ctx, args));
    check(update_rows(ctx, args, space.get()));
    const auto room = read_faults(ctx, faults).room;
    REQUIRE(room >= 2);
    REQUIRE(room < 8);
    device_table out(ctx, table, 8, 0);
    out.poison(ctx);
    check(unpack(ctx, {there.view(), out.view(), 0}));
    CHECK((out.rows(ctx) == c.applied_to(table, room).bytes));

    // Where `used` is no place in the packed bytes there is room for nothing.
    const packed_state written(ctx, there.view());
    for (const auto wrong : {there.view().byte_count + 4, std::int64_t{-1}}) {
      auto state = written;
      state.used = wrong;
      state.put(ctx, there.view());
      check(update_rows(ctx, args, space.get()));
      CHECK(read_faults(ctx, faults).room == 0);
      CHECK((packed_state(ctx, there.view()) == state));
    }
  }
}

TEST_CASE("device: spare room ends where addresses do", "[slow]") {
  const auto ctx = test::device_context();
  auto faults = make_faults(ctx);
  const auto table = make_table(8, 64, 1, number_format::bits, [](auto i) { return i % 3; });
  std::mt19937_64 random(5);
  const row_changes c{{0, 1, 2},
                      make_table(3, 64, 1, number_format::bits, [&](auto) { return random(); })};
  device_changes<std::int64_t> changes(ctx, c);
  constexpr auto addresses = std::int64_t{1} << 31;
  auto memory = check(make_device_buffer<std::byte>(ctx, addresses + 4096));
  int tried = 0;
  for (const auto& p : packings_of(table)) {
    if (p.how != codec::invariant || p.granule != 1) continue;
    ++tried;
    auto there = check(to_device(ctx, pack_with_room(table, p, 0).view()));
    auto v = there.view();
    packed_state state(ctx, v);
    state.used = addresses - table.row_bytes();
    v.bytes = memory.data();
    state.put(ctx, v);
    v.byte_count = memory.size();
    const auto args = changes.args(v, faults.data());
    test::guarded_workspace space(ctx, workspace_bytes(ctx, args));
    check(update_rows(ctx, args, space.get()));
    CHECK(read_faults(ctx, faults).room == 1);
    CHECK(check(to_host(ctx, v.used, 1)).front() == addresses);
    device_table out(ctx, table, 8, 0);
    out.poison(ctx);
    check(unpack(ctx, {v, out.view(), 0}));
    CHECK((out.rows(ctx) == c.applied_to(table, 1).bytes));
  }
  CHECK(tried > 0);
}

TEST_CASE("device: no updates, too little workspace and misplaced views change nothing") {
  const auto ctx = test::device_context();
  auto faults = make_faults(ctx);
  const auto table = many_tables(9, 64)[24].second;
  const auto c = make_changes(table, 6, 3);
  device_changes<std::int32_t> changes(ctx, c);
  for (const auto& p : packings_of(table)) {
    INFO(name_of(p.how));
    auto packed = pack_with_room(table, p, 9);
    auto there = check(to_device(ctx, packed.view()));
    const packed_state before(ctx, packed.view());
    const auto args = changes.args(there.view(), faults.data());
    test::guarded_workspace space(ctx, workspace_bytes(ctx, args));
    auto small = space.get();
    small.bytes -= 1;
    CHECK(update_rows(ctx, args, small).code == status_code::workspace_too_small);

    auto none = args;
    none.ids = {};
    none.input.rows = 0;
    CHECK(workspace_bytes(ctx, none) == 0);
    check(update_rows(ctx, none, {}));
    const auto f = read_faults(ctx, faults);
    CHECK(f.id == -1);
    CHECK(f.room == -1);

    const auto refused = [&](const update_rows_args<std::int32_t>& wrong, const char* words) {
      const auto s = update_rows(ctx, wrong, space.get());
      CHECK(s.code == status_code::invalid_argument);
      CHECK(std::string(s.message).find(words) != std::string::npos);
    };
    auto wrong = args;
    wrong.packed = packed.view();
    wrong.packed.used = args.packed.used;
    wrong.packed.columns = args.packed.columns;
    refused(wrong, "pinned");
    wrong = args;
    wrong.packed.used = packed.view().used;
    refused(wrong, "used is not on the device");
    wrong.packed.used = nullptr;
    refused(wrong, "used is null");
    wrong = args;
    wrong.input.data += 1;
    refused(wrong, "aligned");
    wrong = args;
    wrong.input.rows -= 1;
    refused(wrong, "as many as ids");
    wrong = args;
    wrong.input.data = args.packed.bytes;
    refused(wrong, "overlaps");
    const std::vector<std::int32_t> on_host(6);
    wrong = args;
    wrong.ids = make_vector_view(on_host.data(), 6);
    refused(wrong, "ids");
    row_faults here;
    wrong = args;
    wrong.faults = &here;
    refused(wrong, "faults");
    check(synchronize(ctx));
    CHECK((packed_state(ctx, there.view()) == before));
    auto no_rows = args;
    no_rows.packed.rows = 0;
    CHECK(update_rows(ctx, no_rows, space.get()).code == status_code::out_of_range);
  }
}

namespace {

/// Makes record 4 of a table that was just packed one that nobody can have packed: it speaks of
/// overflow that is not there, or its address, its first bytes or the others are wrong.
void damage(const packed_view& v, int what) {
  const auto& p = *v.how;
  if (p.how == codec::raw) return;
  if (p.how == codec::exponent) {
    std::fill_n(v.bytes + 4 * p.slot_bytes, p.slot_bytes, std::byte{0xff});
    return;
  }
  const auto place = [&](int record) {
    return v.bytes + static_cast<std::int64_t>(v.addresses[record] & 0x7fffffff) * p.granule;
  };
  if (what == 1 && (p.how == codec::sparse || p.invariant.clusters > 1)) {
    std::fill_n(place(4), 2, std::byte{0xff});
  } else if (what == 2 && p.how == codec::sparse) {
    std::fill(place(4) + 2, place(5), std::byte{0xff});
  } else {
    v.addresses[4] |= 0x7fffffff;
  }
}

}  // namespace

TEST_CASE("device: what is malformed is not written over") {
  const auto ctx = test::device_context();
  profile_options o;
  o.clusters = 3;
  for (const auto& [name, table] : many_tables(9, 64)) {
    // One that would fit, and one that perhaps would not.
    row_changes same{{4}, table.poisoned(1)};
    same.rows.bytes = table.row(4);
    const row_changes other{{4}, make_changes(table, 1, 7).rows};
    for (const auto& p : packings_of(table, o)) {
      for (const int what : {0, 1, 2}) {
        for (const auto& c : {same, other}) {
          INFO(name << ", " << table.element_bytes << " bytes, " << name_of(p.how) << ", " << what);
          auto packed = pack_with_room(table, p, 9);
          damage(packed.view(), what);
          auto there = check(to_device(ctx, packed.view()));
          device_changes<std::int32_t> changes(ctx, c);
          const auto args = changes.args(there.view(), nullptr);
          test::guarded_workspace space(ctx, workspace_bytes(ctx, args));
          check(update_rows(ctx, args, space.get()));
          check(update_on_host<std::int32_t>(packed, c));
          CHECK((packed_state(ctx, there.view()) == packed_state(ctx, packed.view())));
          auto out = table.poisoned();
          check(unpack(one, {packed.view(), out.view(), 0}));
          CHECK((out.bytes == c.applied_to(table, -1).bytes));
        }
      }
    }
  }
}

TEST_CASE("device: updates of damaged rows write nothing outside the packed bytes") {
  const auto ctx = test::device_context();
  constexpr std::int64_t guard = 256;
  std::mt19937_64 random(1);
  for (const std::int64_t width : {7, 64}) {
    profile_options o;
    o.clusters = width == 7 ? 3 : 1;
    for (const auto& [name, table] : many_tables(6, width)) {
      for (const auto& p : packings_of(table, o)) {
        INFO(name << ", " << table.element_bytes << " bytes, " << width << ", " << name_of(p.how));
        auto packed = pack_with_room(table, p, 1);
        auto there = check(to_device(ctx, packed.view()));
        auto state = packed_state(ctx, packed.view());
        auto v = there.view();
        auto memory = check(make_device_buffer<std::byte>(ctx, v.byte_count + 2 * guard));
        v.bytes = memory.data() + guard;
        for (std::uint64_t round = 0; round < 4; ++round) {
          for (auto& b : state.bytes) {
            if (random() % 4 == 0) b = static_cast<std::byte>(random());
          }
          for (auto& a : state.addresses) {
            if (random() % 2 == 0) a ^= static_cast<std::uint32_t>(random() % 256);
          }
          check(from_cuda(cudaMemsetAsync(memory.data(), 0xa5, memory.bytes(), ctx.stream),
                          "guards"));
          state.put(ctx, v);
          device_changes<std::int32_t> changes(ctx, make_changes(table, 5, round));
          const auto args = changes.args(v, nullptr);
          test::guarded_workspace space(ctx, workspace_bytes(ctx, args));
          check(update_rows(ctx, args, space.get()));
          auto around = check(to_host(ctx, memory));
          around.erase(around.begin() + guard, around.end() - guard);
          CHECK((around == std::vector<std::byte>(2 * guard, std::byte{0xa5})));
        }
      }
    }
  }
}
