// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/packing.hpp"

#include "pack/tables.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

bool same(const packing& a, const packing& b) { return serialise(a) == serialise(b); }

}  // namespace

TEST_CASE("a packing survives its bytes") {
  profile_options o;
  o.clusters = 3;
  for (const auto& [name, table] : many_tables(20, 12)) {
    for (const auto& p : packings_of(table, o)) {
      const auto bytes = serialise(p);
      const auto again = check(parse_packing(bytes));
      CHECK(same(p, again));
      auto packed = pack_all(table, p);
      auto v = packed.view();
      v.how = &again;
      auto out = table.poisoned();
      check(unpack(host_context{1}, {v, out.view(), 0}));
      CHECK(out.bytes == table.bytes);
    }
  }
}

TEST_CASE("bytes that are no packing are told from one that is") {
  const auto table = many_tables(20, 12)[24].second;
  for (const auto& p : packings_of(table)) {
    const auto bytes = serialise(p);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      auto flipped = bytes;
      flipped[i] ^= std::byte{0x10};
      CHECK(!parse_packing(flipped).ok());
      CHECK(!parse_packing(std::span(bytes).first(i)).ok());
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    CHECK(!parse_packing(longer).ok());
    auto later = bytes;
    later[4] = std::byte{2};
    CHECK(parse_packing(later).error().code == status_code::unsupported);
  }
}

TEST_CASE("a packing says which field is wrong") {
  const auto table = many_tables(20, 12)[24].second;
  const auto all = packings_of(table);
  const auto wrong = [&](codec how, auto change, const char* words) {
    for (auto p : all) {
      if (p.how != how) continue;
      change(p);
      const auto s = validate(p);
      CHECK(s.code == status_code::invalid_argument);
      CHECK(std::string(s.message).find(words) != std::string::npos);
      CHECK(!make_packed(host_context{1}, table.view(), p).ok());
    }
  };
  using enum codec;
  wrong(
      raw, [](packing& p) { p.how = static_cast<codec>(9); }, "codec");
  wrong(
      raw, [](packing& p) { p.element_bytes = 3; }, "element_bytes");
  wrong(
      raw, [](packing& p) { p.format = number_format::float16; }, "element_bytes");
  wrong(
      raw, [](packing& p) { p.width = -1; }, "width");
  wrong(
      raw, [](packing& p) { p.slot_bytes = 47; }, "slot_bytes");
  wrong(
      exponent, [](packing& p) { p.slot_bytes = 0; }, "slot_bytes");
  wrong(
      exponent, [](packing& p) { p.slot_bytes = 1 << 20; }, "slot_bytes");
  wrong(
      exponent, [](packing& p) { p.exponent.code_bits = 4; }, "code_bits");
  wrong(
      exponent, [](packing& p) { p.exponent.base.resize(11); }, "base");
  wrong(
      exponent, [](packing& p) { p.exponent.constant_mask |= 1u << 24; }, "constant");
  wrong(
      exponent,
      [](packing& p) {
        p.exponent.constant_value = 1;
        p.exponent.constant_mask = 2;
      },
      "constant");
  wrong(
      exponent, [](packing& p) { p.format = number_format::bits; }, "floats");
  wrong(
      invariant, [](packing& p) { p.invariant.unit_bytes = 5; }, "unit_bytes");
  wrong(
      invariant, [](packing& p) { p.invariant.clusters = 0; }, "clusters");
  wrong(
      invariant, [](packing& p) { p.invariant.mask.pop_back(); }, "mask");
  wrong(
      invariant,
      [](packing& p) {
        p.invariant.mask[0] = {};
        p.invariant.value[0] = std::byte{1};
      },
      "value");
  wrong(
      sparse, [](packing& p) { p.granule = 3; }, "granule");
}
