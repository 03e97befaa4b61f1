// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/profile.hpp"

#include "pack/device_tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

void check_same(const table_profile& a, const table_profile& b) {
  CHECK(a.rows == b.rows);
  CHECK(a.sampled_rows == b.sampled_rows);
  CHECK(a.ones == b.ones);
  CHECK(a.exponents == b.exponents);
  CHECK(a.fill == b.fill);
  REQUIRE(a.packings.size() == b.packings.size());
  for (std::size_t i = 0; i < a.packings.size(); ++i) {
    CHECK(serialise(a.packings[i].how) == serialise(b.packings[i].how));
    CHECK(a.packings[i].row_bytes == b.packings[i].row_bytes);
  }
}

}  // namespace

TEST_CASE("device: a profile is the host's") {
  const auto ctx = test::device_context();
  for (const std::int64_t width : {1, 33, 128}) {
    for (const auto& [name, table] : many_tables(301, width)) {
      INFO(name << ", " << table.element_bytes << " bytes, " << width);
      profile_options o;
      o.sample_rows = width == 33 ? 17 : -1;
      o.clusters = width == 33 ? 2 : 1;
      device_table there(ctx, table, table.rows, width % 2);
      for (std::int64_t i = 0; i < table.rows; ++i) {
        check(detail::copy_bytes(ctx, there.memory.data() + i * there.stride,
                                 table.bytes.data() + i * table.row_bytes(),
                                 static_cast<std::size_t>(table.row_bytes())));
      }
      check_same(check(make_profile(ctx, there.view(), o)),
                 check(make_profile(host_context{1}, table.view(), o)));
    }
  }
}

TEST_CASE("device: a profile of pinned memory, of odd addresses, of none") {
  const auto ctx = test::device_context();
  const auto table = many_tables(50, 33)[0].second;  // elements of a byte
  auto pinned = check(make_pinned_buffer<std::byte>(ctx, 50 * 33 + 1));
  std::copy(table.bytes.begin(), table.bytes.end(), pinned.data() + 1);
  auto view = table.view();
  view.data = pinned.data() + 1;
  check_same(check(make_profile(ctx, view)), check(make_profile(host_context{1}, table.view())));
  view.rows = 0;
  CHECK(check(make_profile(ctx, view)).packings.size() == 1);
  const auto refused = make_profile(ctx, table.view()).error();
  CHECK(refused.code == status_code::invalid_argument);
  CHECK(std::string(refused.message) == "input: not memory of the device");
}
