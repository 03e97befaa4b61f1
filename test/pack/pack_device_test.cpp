// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/pack.hpp"

#include "pack/device_tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

std::vector<std::byte> expected_rows(const stored_table& t, const std::vector<std::int64_t>& ids) {
  std::vector<std::byte> rows;
  for (const auto id : ids) {
    const auto row = t.row(id);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

void check_on_device(const context& ctx, const stored_table& t, packed_table& there,
                     std::int64_t gap) {
  auto faults = make_faults(ctx);
  device_table out(ctx, t, t.rows, gap);
  for (const auto mode : test::run_modes) {
    test::run(
        ctx, mode, [&](const context& c) { out.poison(c); },
        [&](const context& c) {
          // On one multiprocessor as on all.
          const std::int32_t most = mode == test::run_mode::second_stream ? 1 : 0;
          return unpack(c, {there.view(), out.view(), 0, faults.data(), most});
        });
    CHECK(out.rows(ctx) == t.bytes);
    const auto f = read_faults(ctx, faults);
    CHECK(f.row == -1);
    CHECK(f.id == -1);
    if (t.rows < 20) break;
  }
  std::mt19937_64 random(9);
  std::vector<std::int64_t> ids(53);
  for (auto& id : ids)
    id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(t.rows));
  const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
  const auto wide_ids = check(to_device(ctx, ids));
  const auto narrow_ids = check(to_device(ctx, narrow));
  device_table some(ctx, t, 53, gap);
  some.poison(ctx);
  check(gather_rows<std::int64_t>(ctx, {there.view(), make_vector_view(wide_ids.data(), 53),
                                        some.view(), id_policy::refuse, faults.data()}));
  CHECK(some.rows(ctx) == expected_rows(t, ids));
  some.poison(ctx);
  check(gather_rows<std::int32_t>(ctx, {there.view(), make_vector_view(narrow_ids.data(), 53),
                                        some.view(), id_policy::trusted, faults.data()}));
  CHECK(some.rows(ctx) == expected_rows(t, ids));
  CHECK(read_faults(ctx, faults).id == -1);
}

}  // namespace

namespace {

/// Packing into memory that is there, in all run modes, gives the bytes of `expected`; where there
/// is too little of it `used` says so and nothing behind its end is written.
void check_pack_verb(const context& ctx, const packed_view& expected, const table_view& input) {
  const auto room = (check(to_host(ctx, expected.used, 1)).front() + 3) / 4 * 4;
  auto bytes = check(make_device_buffer<std::byte>(ctx, room + 256));
  auto addresses = check(make_device_buffer<std::uint32_t>(ctx, expected.records()));
  auto used = check(make_device_buffer<std::int64_t>(ctx, 1));
  packed_view v = expected;
  v.bytes = bytes.data();
  v.byte_count = room;
  v.addresses = expected.addresses != nullptr ? addresses.data() : nullptr;
  v.used = used.data();
  test::guarded_workspace space(ctx, workspace_bytes(ctx, pack_args{input, v}));
  for (const auto mode : test::run_modes) {
    test::run(
        ctx, mode,
        [&](const context& c) {
          check(from_cuda(cudaMemsetAsync(bytes.data(), 0xa5, bytes.bytes(), c.stream), "poison"));
        },
        [&](const context& c) {
          return pack(c, {input, v}, space.get());
        });
    CHECK(space.intact());
    const auto taken = check(to_host(ctx, used)).front();
    REQUIRE(taken == check(to_host(ctx, expected.used, 1)).front());
    const auto made = check(to_host(ctx, bytes.data(), taken));
    CHECK(made == check(to_host(ctx, expected.bytes, taken)));
    if (v.addresses != nullptr) {
      CHECK(check(to_host(ctx, addresses)) ==
            check(to_host(ctx, expected.addresses, expected.records())));
    }
  }
  if (room < 8 || v.how->how == codec::raw) return;
  v.byte_count = std::max<std::int64_t>(v.how->has_slots() ? v.rows * slot_bytes_of_row(*v.how) : 0,
                                        room / 8 * 4);
  check(from_cuda(cudaMemsetAsync(bytes.data(), 0xa5, bytes.bytes(), ctx.stream), "poison"));
  check(pack(ctx, {input, v}, space.get()));
  CHECK(check(to_host(ctx, used)).front() == check(to_host(ctx, expected.used, 1)).front());
  const auto behind = check(to_host(ctx, bytes.data() + v.byte_count, room + 256 - v.byte_count));
  CHECK(std::all_of(behind.begin(), behind.end(), [](auto b) { return b == std::byte{0xa5}; }));
}

/// What the device packs is what the host packs, and both unpack it.
void check_packing(const context& ctx, const stored_table& t, const packing& p, std::int64_t gap,
                   expansion growth) {
  packed_options o;
  o.growth = growth;
  device_table input(ctx, t, t.rows, gap);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    check(detail::copy_bytes(ctx, input.memory.data() + i * input.stride,
                             t.bytes.data() + i * t.row_bytes(),
                             static_cast<std::size_t>(t.row_bytes())));
  }
  auto expected = check(make_packed(host_context{1}, t.view(), p, o));
  auto packed = check(make_packed(ctx, input.view(), p, o));
  CHECK(serialise(packed.how()) == serialise(expected.how()));
  auto there = check(to_host(ctx, packed.view()));
  const auto a = there.view(), b = expected.view();
  REQUIRE(*a.used == *b.used);
  CHECK(std::equal(a.bytes, a.bytes + *a.used, b.bytes));
  REQUIRE((a.addresses == nullptr) == (b.addresses == nullptr));
  if (a.addresses != nullptr)
    CHECK(std::equal(a.addresses, a.addresses + a.records(), b.addresses));
  device_table out(ctx, t, t.rows, 0);
  out.poison(ctx);
  check(unpack(ctx, {packed.view(), out.view(), 0}));
  CHECK(out.rows(ctx) == t.bytes);
  if (growth == expansion::allow) check_pack_verb(ctx, packed.view(), input.view());
}

}  // namespace

namespace {

void check_packing_widths(std::initializer_list<std::int64_t> widths) {
  const auto ctx = test::device_context();
  for (const auto width : widths) {
    for (const auto& [name, table] : many_tables(width > 4000 ? 3 : 23, width)) {
      profile_options o;
      o.clusters = width == 33 ? 3 : 1;
      for (const auto& p : packings_of(table, o)) {
        INFO(name << ", " << table.element_bytes << " bytes, " << width << ", " << name_of(p.how));
        check_packing(ctx, table, p, width % 2, expansion::allow);
        check_packing(ctx, table, p, 0, expansion::keep_raw);
      }
    }
  }
}

void check_unpacking_widths(std::initializer_list<std::int64_t> widths) {
  const auto ctx = test::device_context();
  for (const auto width : widths) {
    for (const auto& [name, table] : many_tables(41, width)) {
      profile_options o;
      o.clusters = width == 33 ? 3 : 1;
      for (const auto& p : packings_of(table, o)) {
        INFO(name << ", " << table.element_bytes << " bytes, " << width << ", " << name_of(p.how));
        auto packed = pack_all(table, p);
        auto there = check(to_device(ctx, packed.view()));
        check_on_device(ctx, table, there, width % 2 == 1 ? 1 : 0);
        auto back = check(to_host(ctx, there.view()));
        auto out = table.poisoned();
        check(unpack(host_context{1}, {back.view(), out.view(), 0}));
        CHECK(out.bytes == table.bytes);
      }
    }
  }
}

}  // namespace

// For racecheck, under which all tables would take minutes.
TEST_CASE("device: a warp packs by its own memory") {
  const auto ctx = test::device_context();
  const auto tables = many_tables(9, 260);
  for (const std::size_t which : {4, 10, 24, 25, 26, 27, 29}) {
    const auto& table = tables[which].second;
    for (const auto& p : packings_of(table)) check_packing(ctx, table, p, 0, expansion::allow);
  }
}

TEST_CASE("device: packs to the same bytes as the host") {
  check_packing_widths({33});
  const auto ctx = test::device_context();
  const auto none = make_table(0, 8, 4, number_format::float32, [](auto) { return 0; });
  const auto table = many_tables(3, 8)[24].second;
  for (const auto& p : packings_of(table)) check_packing(ctx, none, p, 0, expansion::keep_raw);
}

TEST_CASE("device: what the host packed is unpacked bit for bit") { check_unpacking_widths({128}); }

TEST_CASE("device: packs and unpacks rows of all widths", "[slow]") {
  check_packing_widths({1, 3, 17, 128, 260, 1025, 4097});
  check_unpacking_widths({1, 3, 17, 32, 33, 257, 1025, 12288});
}

TEST_CASE("device: whatever bits an exponent packing leaves out come back") {
  const auto ctx = test::device_context();
  for (const auto& m : masked_tables()) {
    INFO(m.name);
    check_packing(ctx, m.table, m.how, m.how.width % 2, expansion::allow);
    auto packed = pack_all(m.table, m.how);
    auto pinned = check(to_pinned(ctx, packed.view()));
    check_on_device(ctx, m.table, pinned, 0);
  }
}

TEST_CASE("device: rows of several records and rows in pinned memory") {
  const auto ctx = test::device_context();
  for (const std::int64_t width : {3, 33, 128, 4097}) {
    for (const auto& [name, table] : many_tables(width > 4000 ? 5 : 40, width)) {
      for (const auto& p : packings_of(table)) {
        INFO(name << ", " << table.element_bytes << " bytes, " << width << ", " << name_of(p.how));
        auto packed = pack_all(table, p);
        auto there = check(to_device(ctx, packed.view()));
        check_on_device(ctx, table, there, 0);
        auto pinned = check(to_pinned(ctx, packed.view()));
        check_on_device(ctx, table, pinned, 0);
      }
    }
  }
}

TEST_CASE("device: ids that are not there are told by place, and malformed rows by number") {
  const auto ctx = test::device_context();
  auto faults = make_faults(ctx);
  const auto table = many_tables(9, 64)[24].second;
  for (const auto& p : packings_of(table)) {
    auto packed = pack_all(table, p);
    auto there = check(to_device(ctx, packed.view()));
    device_table out(ctx, table, 4, 0);
    const auto gather = [&](std::vector<std::int64_t> ids, id_policy policy) {
      const auto on_device = check(to_device(ctx, ids));
      out.poison(ctx);
      check(gather_rows<std::int64_t>(ctx, {there.view(), make_vector_view(on_device.data(), 4),
                                            out.view(), policy, faults.data()}));
      return out.rows(ctx);
    };
    auto rows = gather({3, 9, 0, -1}, id_policy::refuse);
    CHECK(read_faults(ctx, faults).id == 1);
    CHECK(std::equal(rows.begin(), rows.begin() + table.row_bytes(), table.row(3).begin()));
    CHECK(rows[static_cast<std::size_t>(table.row_bytes())] == std::byte{0xa5});
    rows = gather({3, 9, 4294967296, -1}, id_policy::clamp);
    CHECK(rows == expected_rows(table, {3, 8, 8, 0}));
    CHECK(read_faults(ctx, faults).id == -1);

    if (p.how == codec::raw) continue;
    auto v = there.view();
    if (p.how == codec::exponent) {
      // Nothing but escapes.
      check(from_cuda(
          cudaMemset(v.bytes + 4 * p.slot_bytes, 0xff, static_cast<std::size_t>(p.slot_bytes - 1)),
          "damage"));
      check(from_cuda(cudaMemset(v.bytes + 5 * p.slot_bytes - 1, 0, 1), "damage"));
    } else {
      check(from_cuda(cudaMemset(v.addresses + 4, 0xff, 4), "damage"));
    }
    device_table all(ctx, table, 9, 0);
    check(unpack(ctx, {v, all.view(), 0, faults.data()}));
    CHECK(read_faults(ctx, faults).row == 4);
  }
}

namespace {

/// Positions by id, or by ranges of two rows of 300; equal ones as they come.
void check_order(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& positions,
                 bool grouped) {
  const auto key = [&](std::int32_t k) {
    const auto id = ids[static_cast<std::size_t>(k)];
    return grouped ? id / 2 : id;
  };
  REQUIRE(positions.size() == ids.size());
  for (std::size_t k = 1; k < positions.size(); ++k) {
    const auto a = positions[k - 1], b = positions[k];
    CHECK((key(a) < key(b) || (key(a) == key(b) && a < b)));
  }
}

}  // namespace

TEST_CASE("device: an order changes when rows are read, not what") {
  const auto ctx = test::device_context();
  const auto table = many_tables(300, 64)[24].second;
  std::mt19937_64 random(4);
  for (const auto& [size, rows] :
       {std::pair{0, 0}, {1, 300}, {5000, 0}, {5000, 300}, {40000, 300}}) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(size));
    for (auto& id : ids) id = static_cast<std::int32_t>(random() % 300);
    const auto on_device = check(to_device(ctx, ids));
    auto order = check(make_device_buffer<std::int32_t>(ctx, size));
    const order_rows_args<std::int32_t> sort{
        make_vector_view<const std::int32_t>(on_device.data(), size),
        make_vector_view(order.data(), size), rows};
    test::guarded_workspace space(ctx, workspace_bytes(ctx, sort));
    if (size > 1) {
      auto small = space.get();
      small.bytes -= 1;
      CHECK(order_rows(ctx, sort, small).code == status_code::workspace_too_small);
    }
    for (const auto& p : packings_of(table)) {
      auto packed = pack_all(table, p);
      auto pinned = check(to_pinned(ctx, packed.view()));
      device_table plain(ctx, table, size, 0), ordered(ctx, table, size, 0);
      plain.poison(ctx);
      gather_rows_args<std::int32_t> a{pinned.view(), sort.ids, plain.view(), id_policy::trusted};
      check(gather_rows(ctx, a));
      a.output = ordered.view();
      a.order = make_vector_view<const std::int32_t>(order.data(), size);
      a.most_multiprocessors = p.how == codec::raw ? 0 : 3;
      for (const auto mode : test::run_modes) {
        test::run(
            ctx, mode, [&](const context& c) { ordered.poison(c); },
            [&](const context& c) {
              const auto s = order_rows(c, sort, space.get());
              return s.ok() ? gather_rows(c, a) : s;
            });
        CHECK(plain.rows(ctx) == ordered.rows(ctx));
      }
      CHECK(!order_pays(pinned.view(), size));
    }
    CHECK(space.intact());
    check_order(ids, check(to_host(ctx, order)), rows > 0);
  }
}

// Each with tables, workspace and outputs of its own.
TEST_CASE("device: two streams pack and unpack at the same time") {
  const auto ctx = test::device_context();
  const test::own_stream other_stream;
  const context streams[] = {ctx, ctx.on(other_stream.get())};
  const auto tables = many_tables(20000, 65);
  struct work {
    work(const context& c, const stored_table& t, const packing& p)
        : input(c, t, t.rows, 0),
          output(c, t, t.rows, 0),
          made(check(to_device(c, pack_all(t, p).view()))) {
      check(detail::copy_bytes(c, input.memory.data(), t.bytes.data(), t.bytes.size()));
      const pack_args a{input.view(), made.view()};
      space = check(make_device_buffer<char>(c, static_cast<std::int64_t>(workspace_bytes(c, a))));
    }
    void enqueue(const context& c) {
      for (int k = 0; k < 10; ++k) {
        output.poison(c);
        check(pack(c, {input.view(), made.view()}, {space.data(), space.bytes()}));
        check(unpack(c, {made.view(), output.view()}));
      }
    }
    device_table input, output;
    packed_table made;
    buffer<char> space;
  };
  const auto &first = tables[24].second, &second = tables[25].second;
  for (std::size_t which = 1; which < packings_of(first).size(); ++which) {
    work one(streams[0], first, packings_of(first)[which]);
    work two(streams[1], second, packings_of(second)[which]);
    one.enqueue(streams[0]);
    two.enqueue(streams[1]);
    check(synchronize(streams[1]));
    CHECK(one.output.rows(streams[0]) == first.bytes);
    CHECK(two.output.rows(streams[1]) == second.bytes);
  }
}

TEST_CASE("device: damaged bytes are never read beyond their end") {
  const auto ctx = test::device_context();
  for (const std::int64_t width : {7, 64}) {
    for (const auto& [name, table] : many_tables(6, width)) {
      for (const auto& p : packings_of(table)) {
        auto packed = pack_all(table, p);
        auto there = check(to_device(ctx, packed.view()));
        const auto v = there.view();
        device_table out(ctx, table, 6, 0);
        std::mt19937_64 random(1);
        auto bytes = check(to_host(ctx, v.bytes, v.byte_count));
        for (int round = 0; round < 4; ++round) {
          for (auto& b : bytes) {
            if (random() % 4 == 0) b = static_cast<std::byte>(random());
          }
          check(detail::copy_bytes(ctx, v.bytes, bytes.data(), bytes.size()));
          check(unpack(ctx, {v, out.view(), 0}));
          check(synchronize(ctx));
        }
      }
    }
  }
}

TEST_CASE("device: memory that a device cannot read is refused, and misplaced outputs") {
  const auto ctx = test::device_context();
  const auto table = many_tables(6, 8)[24].second;
  auto packed = pack_all(table, packings_of(table)[2]);
  device_table out(ctx, table, 6, 0);
  const auto refused = [&](packed_view v, mutable_table_view o, const char* words) {
    const auto s = unpack(ctx, {v, o, 0});
    CHECK(s.code == status_code::invalid_argument);
    CHECK(std::string(s.message).find(words) != std::string::npos);
  };
  refused(packed.view(), out.view(), "pinned");
  auto there = check(to_device(ctx, packed.view()));
  auto moved = there.view();
  moved.bytes += 4;
  moved.byte_count -= 4;
  moved.rows = 2;
  auto two_rows = out.view();
  two_rows.rows = 2;
  refused(moved, two_rows, "16");
  auto crooked = out.view();
  crooked.data += 1;
  refused(there.view(), crooked, "aligned");
  check(unpack(ctx, {there.view(), out.view(), 0}));
  CHECK(out.shape.rows == 6);
  check(synchronize(ctx));
}
