// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/bulk_stream.hpp"

#include "pack/device_tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

/// Whole tables through stages of a few rows, in all run modes.
void check_bulk(const context& ctx, bulk_stream& stream, const stored_table& t,
                packed_table& pinned, std::int64_t stage_bytes) {
  const auto plan = check(make_bulk_plan(ctx, pinned.view(), stage_bytes));
  std::int64_t rows = 0, bytes = 0;
  for (const auto& piece : plan.pieces) {
    CHECK(piece.bytes <= stage_bytes);
    rows += piece.rows;
    bytes += piece.bytes;
  }
  CHECK(rows == t.rows);
  CHECK(bytes <= check(to_host(ctx, pinned.view().used, 1)).front());
  auto faults = make_faults(ctx);
  device_table out(ctx, t, t.rows, 1);
  for (const auto mode : test::run_modes) {
    test::run(
        ctx, mode, [&](const context& c) { out.poison(c); },
        [&](const context& c) {
          return stream.unpack(c, {pinned.view(), &plan, out.view(), faults.data()});
        });
    CHECK(out.rows(ctx) == t.bytes);
    CHECK(read_faults(ctx, faults).row == -1);
  }
}

std::int64_t longest_row(const stored_table& t) {
  return (t.row_bytes() + 64) * record_shape(t.width).records + 8 * 4096;
}

}  // namespace

TEST_CASE("device: whole tables come through stages bit for bit") {
  const auto ctx = test::device_context();
  auto stream = check(bulk_stream::make(ctx, 1 << 18));
  std::size_t most_pieces = 0;
  for (const auto& [width, rows] : {std::pair{33, 2000}, {128, 700}, {4097, 9}}) {
    for (const auto& [name, table] : many_tables(rows, width)) {
      if (width == 128 && table.element_bytes == 1) continue;
      for (const auto& p : packings_of(table)) {
        INFO(name << ", " << table.element_bytes << " bytes, " << width << ", " << name_of(p.how));
        auto packed = pack_all(table, p);
        auto pinned = check(to_pinned(ctx, packed.view()));
        const auto stage = longest_row(table);
        most_pieces =
            std::max(most_pieces, check(make_bulk_plan(ctx, pinned.view(), stage)).pieces.size());
        check_bulk(ctx, stream, table, pinned, stage);
      }
    }
  }
  CHECK(most_pieces > 8);
}

// Rows that outgrew their place lie behind all others, or in the overflow area.
TEST_CASE("device: rows that were moved are read where they lie") {
  const auto ctx = test::device_context();
  auto stream = check(bulk_stream::make(ctx, 1 << 16));
  const auto tables = many_tables(300, 65);
  bool some_stayed = false;
  for (const std::size_t which : {9, 15, 17, 24, 25}) {
    auto table = tables[which].second;
    for (const auto& p : packings_of(table)) {
      if (p.how == codec::raw) continue;
      INFO(tables[which].first << ", " << name_of(p.how));
      auto now = table;
      packed_options o;
      o.growth = expansion::allow;
      o.spare_rows = 40;
      auto packed = check(make_packed(host_context{1}, table.view(), p, o));
      std::mt19937_64 random(5);
      std::vector<std::int32_t> ids;
      auto input = table.poisoned(40);
      for (auto& b : input.bytes) b = static_cast<std::byte>(random());
      for (std::int32_t k = 0; k < 40; ++k) {
        ids.push_back(k * 7);
        std::copy_n(input.row(k).begin(), table.row_bytes(),
                    now.bytes.begin() + k * 7 * table.row_bytes());
      }
      check(update_rows<std::int32_t>(
          host_context{1},
          {packed.view(), make_vector_view(std::as_const(ids).data(), 40), input.view()}));
      auto pinned = check(to_pinned(ctx, packed.view()));
      for (const auto& piece : check(make_bulk_plan(ctx, pinned.view(), 1 << 14)).pieces) {
        some_stayed = some_stayed || piece.bytes == 0;
      }
      check_bulk(ctx, stream, now, pinned, 1 << 14);
    }
  }
  CHECK(some_stayed);
}

TEST_CASE("device: two tables share stages, on two streams that wait for each other") {
  const auto ctx = test::device_context();
  auto stream = check(bulk_stream::make(ctx, 1 << 16));
  const auto tables = many_tables(3000, 65);
  const auto &a = tables[24].second, &b = tables[25].second;
  auto first = check(to_pinned(ctx, pack_all(a, packings_of(a)[2]).view()));
  auto second = check(to_pinned(ctx, pack_all(b, packings_of(b)[1]).view()));
  const auto first_plan = check(make_bulk_plan(ctx, first.view(), 1 << 15));
  const auto second_plan = check(make_bulk_plan(ctx, second.view(), 1 << 16));
  device_table one(ctx, a, a.rows, 0), two(ctx, b, b.rows, 0);
  one.poison(ctx);
  two.poison(ctx);
  const test::own_stream other_stream;
  const auto other = ctx.on(other_stream.get());
  cudaEvent_t done = nullptr;
  check(from_cuda(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "event"));
  const auto follow = [&](const context& later, const context& earlier) {
    check(from_cuda(cudaEventRecord(done, earlier.stream), "record"));
    check(from_cuda(cudaStreamWaitEvent(later.stream, done), "wait"));
  };
  for (int k = 0; k < 10; ++k) {
    check(stream.unpack(ctx, {first.view(), &first_plan, one.view()}));
    follow(other, ctx);
    check(stream.unpack(other, {second.view(), &second_plan, two.view()}));
    follow(ctx, other);
  }
  CHECK(one.rows(ctx) == a.bytes);
  CHECK(two.rows(ctx) == b.bytes);
  (void)cudaEventDestroy(done);
}

TEST_CASE("device: a bulk stream refuses what it cannot bring") {
  const auto ctx = test::device_context();
  auto stream = check(bulk_stream::make(ctx, 1 << 12));
  const auto table = many_tables(100, 64)[24].second;
  auto packed = pack_all(table, packings_of(table)[2]);
  auto pinned = check(to_pinned(ctx, packed.view()));
  auto there = check(to_device(ctx, packed.view()));
  const auto plan = check(make_bulk_plan(ctx, pinned.view(), 1 << 12));
  device_table out(ctx, table, table.rows, 0);
  const auto message = [&](const unpack_bulk_args& a) {
    return std::string(stream.unpack(ctx, a).message);
  };
  CHECK(message({there.view(), &plan, out.view()}) == "packed: bytes are not in pinned memory");
  CHECK(message({pinned.view(), nullptr, out.view()}) == "plan: null");
  auto fewer = out.view();
  --fewer.rows;
  CHECK(message({pinned.view(), &plan, fewer}) == "output: rows are not the packed table's");
  auto other = plan;
  ++other.pieces.front().first_byte;
  CHECK(message({pinned.view(), &other, out.view()}) == "plan: not of these rows");
  other = plan;
  other.pieces.pop_back();
  CHECK(message({pinned.view(), &other, out.view()}) == "plan: not of these rows");
  const auto narrow = make_table(100, 8, 4, number_format::bits, [](auto) { return 1; });
  auto narrow_rows = check(to_pinned(ctx, pack_all(narrow, raw_packing(narrow.view())).view()));
  const auto narrow_plan = check(make_bulk_plan(ctx, narrow_rows.view(), 1 << 12));
  CHECK(message({pinned.view(), &narrow_plan, out.view()}) == "plan: not of these rows");
  const auto longer = check(make_bulk_plan(ctx, pinned.view(), 1 << 13));
  CHECK(message({pinned.view(), &longer, out.view()}) == "plan: longer stages than there are");
  CHECK(std::string(make_bulk_plan(ctx, pinned.view(), 8).error().message) ==
        "stage_bytes: less than a row takes");
  CHECK(std::string(bulk_stream::make(ctx, 0).error().message) == "stage_bytes: not positive");
  out.poison(ctx);
  check(stream.unpack(ctx, {pinned.view(), &plan, out.view()}));
  CHECK(out.rows(ctx) == table.bytes);
}

TEST_CASE("device: a malformed row is told by a bulk stream too") {
  const auto ctx = test::device_context();
  auto stream = check(bulk_stream::make(ctx, 1 << 12));
  const auto table = many_tables(200, 64)[16].second;
  for (const auto& p : packings_of(table)) {
    if (p.has_slots()) continue;
    auto packed = pack_all(table, p);
    auto pinned = check(to_pinned(ctx, packed.view()));
    const auto plan = check(make_bulk_plan(ctx, pinned.view(), 1 << 12));
    REQUIRE(plan.pieces.size() > 2);
    // A row that now lies where its piece does not reach.
    const std::uint32_t nowhere = 0;
    check(detail::copy_bytes(ctx, pinned.view().addresses + 150, &nowhere, sizeof nowhere));
    auto faults = make_faults(ctx);
    device_table out(ctx, table, table.rows, 0);
    out.poison(ctx);
    check(stream.unpack(ctx, {pinned.view(), &plan, out.view(), faults.data()}));
    CHECK(read_faults(ctx, faults).row == 150);
  }
}
