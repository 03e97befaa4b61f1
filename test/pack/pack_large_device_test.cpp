// SPDX-License-Identifier: Apache-2.0
// Tables of more than 2^31 elements, and of more bytes than translations of addresses reach. Takes
// gigabytes of device memory and of pinned memory.
#include <cmath>

#include "pack/device_tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

/// A table whose rows repeat those of a block.
struct repeated_table {
  repeated_table(const context& ctx, const stored_table& of, std::int64_t wanted_rows)
      : block(of), rows(wanted_rows) {
    memory = check(make_device_buffer<std::byte>(ctx, rows * of.row_bytes()));
    check(detail::copy_bytes(ctx, memory.data(), of.bytes.data(), of.bytes.size()));
    const auto all = memory.bytes();
    for (auto there = of.bytes.size(); there < all;) {
      const auto more = std::min(there, all - there);
      check(from_cuda(cudaMemcpyAsync(memory.data() + there, memory.data(), more,
                                      cudaMemcpyDeviceToDevice, ctx.stream),
                      "repeat"));
      there += more;
    }
    check(synchronize(ctx));
  }
  mutable_table_view view() {
    return {memory.data(), rows, block.width, block.element_bytes, block.row_bytes(), block.format};
  }
  void poison(const context& ctx) {
    check(from_cuda(cudaMemsetAsync(memory.data(), 0xa5, memory.bytes(), ctx.stream), "poison"));
  }
  /// Whether the rows, which may be other ones by now, still repeat the block's.
  bool is_intact(const context& ctx) const {
    const auto bytes = static_cast<std::int64_t>(block.bytes.size());
    for (std::int64_t at = 0; at < memory.size(); at += bytes) {
      const auto here = std::min(bytes, memory.size() - at);
      const auto some = check(to_host(ctx, memory.data() + at, here));
      if (!std::equal(some.begin(), some.end(), block.bytes.begin())) return false;
    }
    return true;
  }

  const stored_table& block;
  std::int64_t rows;
  buffer<std::byte> memory;
};

}  // namespace

TEST_CASE("device: more than 2^31 elements are packed, unpacked and gathered", "[slow]") {
  const auto ctx = test::device_context();
  constexpr std::int64_t width = 4096, block_rows = 8192;
  const std::int64_t rows = (std::int64_t{1} << 31) / width + 3;
  std::mt19937_64 random(3);
  const auto block = make_table(block_rows, width, 2, number_format::bfloat16, [&](std::int64_t i) {
    const auto bits = random();
    return i % 3 == 0 ? 0
                      : bfloat_bits(std::ldexp(1.0f, -static_cast<int>(bits % 9))) | (bits >> 57);
  });
  repeated_table table(ctx, block, rows);
  const std::vector<std::int64_t> ids{rows - 1, 0, rows - 2, 524287, 1};
  const auto on_device = check(to_device(ctx, ids));
  auto faults = make_faults(ctx);
  for (const auto& p : packings_of(block)) {
    INFO(name_of(p.how));
    packed_options o;
    o.growth = expansion::allow;
    auto packed = check(make_packed(ctx, table.view(), p, o));
    table.poison(ctx);
    check(unpack(ctx, {packed.view(), table.view(), 0, faults.data()}));
    CHECK(read_faults(ctx, faults).row == -1);
    REQUIRE(table.is_intact(ctx));
    device_table some(ctx, block, 5, 0);
    some.poison(ctx);
    check(gather_rows<std::int64_t>(ctx, {packed.view(), make_vector_view(on_device.data(), 5),
                                          some.view(), id_policy::refuse, faults.data()}));
    std::vector<std::byte> expected;
    for (const auto id : ids) {
      const auto row = block.row(id % block_rows);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    CHECK(some.rows(ctx) == expected);
  }
}

TEST_CASE("device: an order pays for many rows of large tables in pinned memory", "[slow]") {
  const auto ctx = test::device_context();
  constexpr std::int64_t width = 64;
  const std::int64_t rows = (std::int64_t{9} << 27) / (width * 4);
  auto memory = check(make_pinned_buffer<float>(ctx, rows * width));
  const auto how = raw_packing(make_table_view(memory.data(), rows, width));
  packed_view v;
  v.how = &how;
  v.rows = rows;
  v.bytes = reinterpret_cast<std::byte*>(memory.data());
  v.byte_count = static_cast<std::int64_t>(memory.bytes());
  CHECK(order_pays(v, 65536));
  CHECK(!order_pays(v, 100));
  v.rows = rows / 4;
  v.byte_count /= 4;
  CHECK(!order_pays(v, 65536));
}
