// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "quipu/pack/detail/exponent_record.hpp"
#include "quipu/pack/pack.hpp"
#include "quipu/pack/profile.hpp"
#include "support/catch.hpp"

namespace quipu_test {

using namespace quipu;

/// A table that owns its bytes.
struct stored_table {
  std::int64_t rows = 0, width = 0;
  std::int32_t element_bytes = 4;
  number_format format = number_format::bits;
  std::vector<std::byte> bytes;

  std::int64_t row_bytes() const { return width * element_bytes; }
  table_view view() const {
    return {bytes.data(), rows, width, element_bytes, row_bytes(), format};
  }
  mutable_table_view view() {
    return {bytes.data(), rows, width, element_bytes, row_bytes(), format};
  }
  /// One of the same shape, every byte of it wrong.
  stored_table poisoned(std::int64_t other_rows = -1) const {
    stored_table t = *this;
    if (other_rows >= 0) t.rows = other_rows;
    t.bytes.assign(static_cast<std::size_t>(t.rows * row_bytes()), std::byte{0xa5});
    return t;
  }
  std::vector<std::byte> row(std::int64_t i) const {
    return {bytes.begin() + i * row_bytes(), bytes.begin() + (i + 1) * row_bytes()};
  }
};

inline stored_table make_table(std::int64_t rows, std::int64_t width, std::int32_t element_bytes,
                               number_format format,
                               const std::function<std::uint64_t(std::int64_t)>& element) {
  stored_table t{rows, width, element_bytes, format, {}};
  t.bytes.resize(static_cast<std::size_t>(rows * t.row_bytes()));
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const auto x = element(i);
    std::memcpy(t.bytes.data() + i * element_bytes, &x, static_cast<std::size_t>(element_bytes));
  }
  return t;
}

inline std::uint32_t bits_of(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
inline std::uint16_t bfloat_bits(float x) {
  const auto u = bits_of(x);
  return static_cast<std::uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline std::uint16_t half_bits(float x) {
  const float16 h = __float2half(x);
  std::uint16_t u;
  std::memcpy(&u, &h, 2);
  return u;
}

/// Tables of many kinds: what a codec likes, and what none does.
inline std::vector<std::pair<std::string, stored_table>> many_tables(std::int64_t rows,
                                                                     std::int64_t width) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rows * 1000 + width));
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<std::pair<std::string, stored_table>> tables;
  const auto add = [&](const char* name, std::int32_t bytes, number_format format, auto element) {
    tables.emplace_back(name, make_table(rows, width, bytes, format, element));
  };
  using enum number_format;
  for (const int bytes : {1, 2, 4, 8}) {
    add("random bits", bytes, bits, [&](std::int64_t) { return random(); });
    add("zeros", bytes, bits, [](std::int64_t) { return 0; });
    add("all ones", bytes, bits, [](std::int64_t) { return ~std::uint64_t{0}; });
    add("one in fifty", bytes, bits, [&](std::int64_t) { return random() % 50 == 0; });
    add("other values, half of them", bytes, bits,
        [&](std::int64_t) { return random() % 2 == 0 ? 7 : random(); });
    add("few bits vary", bytes, bits, [&](std::int64_t i) {
      return (0x5a5a5a5a5a5a5a5aull + static_cast<std::uint64_t>(i % width)) ^ (random() & 6);
    });
  }
  add("normal", 4, float32, [&](std::int64_t) { return bits_of(normal(random)); });
  add("normal", 2, bfloat16, [&](std::int64_t) { return bfloat_bits(normal(random)); });
  add("normal", 2, float16, [&](std::int64_t) { return half_bits(normal(random)); });
  add("relu", 4, float32, [&](std::int64_t) { return bits_of(std::max(0.0f, normal(random))); });
  add("once fp16", 4, float32,
      [&](std::int64_t) { return bits_of(__half2float(__float2half(normal(random)))); });
  add("columns of many sizes", 2, bfloat16, [&](std::int64_t i) {
    return bfloat_bits(std::ldexp(normal(random), static_cast<int>(i % width % 40) - 20));
  });
  add("random floats", 4, float32, [&](std::int64_t) { return random(); });
  add("random floats", 2, bfloat16, [&](std::int64_t) { return random(); });
  add("random floats", 2, float16, [&](std::int64_t) { return random(); });
  constexpr std::uint32_t special[] = {0x7fc00001, 0x7f800001, 0xffc12345, 0xff800000, 0x7f800000,
                                       0x80000000, 0,          1,          0x807fffff, 0x00800000};
  add("special values", 4, float32, [&](std::int64_t i) {
    return i % 7 == 0 ? special[random() % 10] : bits_of(normal(random));
  });
  // Every second bit never changes: as many runs of kept bits as there can be.
  add("two floats", 4, float32, [&](std::int64_t) { return random() % 2 == 0 ? 0u : 0x80555555u; });
  return tables;
}

/// Every packing that a profile knows, in both ways to count: as it is, and unasked whether it
/// pays.
inline std::vector<packing> packings_of(const stored_table& t, const profile_options& o = {}) {
  const auto profile = check(make_profile(host_context{1}, t.view(), o));
  std::vector<packing> all;
  for (const auto& e : profile.packings) all.push_back(e.how);
  return all;
}

inline packed_table pack_all(const stored_table& t, const packing& p, std::int32_t threads = 2) {
  packed_options o;
  o.growth = expansion::allow;
  return check(make_packed(host_context{threads}, t.view(), p, o));
}

/// Floats some bits of which hardly ever change, and a packing that leaves these out.
struct masked_table {
  std::string name;
  stored_table table;
  packing how;
};

/// A slot that half of the records fit.
template <class Word>
std::int64_t median_slot(const stored_table& t, const packing& p) {
  const detail::exponent_coder<Word> coder(p);
  const record_shape shape(p.width);
  std::vector<std::int64_t> sizes;
  for (std::int64_t k = 0; k < t.rows * shape.records; ++k) {
    const auto part = k % shape.records, column = shape.begin(part);
    const auto at = (k / shape.records * t.width + column) * t.element_bytes;
    const auto size = coder.size(t.bytes.data() + at, column, shape.count(part));
    if (size > 0) sizes.push_back(size);
  }
  const auto most = detail::round_up(shape.elements * p.element_bytes, 32);
  if (sizes.empty()) return most;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return std::min(most, detail::round_up(*middle, 8));
}

/// Of every number of bits that can be left, side by side or anywhere, with codes of either size.
/// No profile makes these packings: their exponents suit some of the records.
inline std::vector<masked_table> masked_tables() {
  using enum number_format;
  constexpr std::int64_t widths[] = {1, 2, 7, 8, 9, 17, 33, 64, 65, 127, 130, 256, 257, 300, 4097};
  std::mt19937_64 random(12);
  std::vector<masked_table> all;
  const auto add = [&](number_format format, std::uint32_t kept, int code_bits) {
    const auto field = detail::exponent_field_of(format);
    const auto exponents = low_bits<std::uint32_t>(field.bits);
    packing p;
    p.how = codec::exponent;
    p.format = format;
    p.element_bytes = format == float32 ? 4 : 2;
    p.width = widths[random() % std::size(widths)];
    auto& e = p.exponent;
    e.code_bits = code_bits;
    e.constant_mask =
        low_bits<std::uint32_t>(8 * p.element_bytes) & ~kept & ~(exponents << field.shift);
    e.constant_value = static_cast<std::uint32_t>(random()) & e.constant_mask;
    for (auto& symbol : e.usual) symbol = random() % 12 & exponents;
    for (auto& symbol : e.next) symbol = random() % 20 & exponents;
    if (random() % 3 == 0) {
      e.base.resize(static_cast<std::size_t>(p.width));
      for (auto& base : e.base) base = random() & exponents;
    }
    const bool breaks = random() % 4 == 0;
    const auto element = [&](std::int64_t i) {
      const auto base = e.base.empty() ? 0u : e.base[static_cast<std::size_t>(i % p.width)];
      const auto draw = random();
      const auto symbol = draw % 16 == 0  ? draw / 16
                          : draw % 4 == 0 ? e.next[draw / 16 % 7]
                                          : e.usual[draw / 16 % 3];
      const auto exponent = static_cast<std::uint32_t>(symbol + base) & exponents;
      auto x = (static_cast<std::uint32_t>(random()) & kept) | e.constant_value |
               exponent << field.shift;
      if (breaks && random() % 200 == 0) x ^= 1u << random() % (8 * p.element_bytes);
      return x;
    };
    auto table = make_table(p.width > 300 ? 4 : 9, p.width, p.element_bytes, format, element);
    p.slot_bytes = p.element_bytes == 2 ? median_slot<std::uint16_t>(table, p)
                                        : median_slot<std::uint32_t>(table, p);
    auto name = std::to_string(p.element_bytes) + " bytes, " + std::to_string(p.width) +
                " wide, constant " + std::to_string(e.constant_mask) + ", codes of " +
                std::to_string(code_bits) + " bits";
    all.push_back({std::move(name), std::move(table), std::move(p)});
  };
  for (const auto format : {bfloat16, float16, float32}) {
    const auto field = detail::exponent_field_of(format);
    const int sign = field.shift + field.bits;
    const auto sign_and_digits = low_bits<std::uint32_t>(field.shift) | 1u << sign;
    for (int left_out = 0; left_out <= field.shift + 1; ++left_out) {
      // From the lowest digit on, and the sign last; then in no order.
      auto high = sign_and_digits & ~low_bits<std::uint32_t>(left_out);
      if (left_out > field.shift) high = 0;
      auto any = sign_and_digits;
      for (int k = 0; k < left_out;) {
        const auto bit = 1u << random() % 32;
        k += (any & bit) != 0;
        any &= ~bit;
      }
      for (const int code_bits : {2, 3}) {
        add(format, high, code_bits);
        add(format, any, code_bits);
      }
    }
  }
  return all;
}

/// Packed rows, overflow and addresses of a table on the host.
inline std::vector<std::byte> bytes_of(packed_table& p) {
  const auto v = p.view();
  std::vector<std::byte> all(v.bytes, v.bytes + *v.used);
  const auto* a = reinterpret_cast<const std::byte*>(v.addresses);
  if (a != nullptr) all.insert(all.end(), a, a + 4 * v.records());
  return all;
}

}  // namespace quipu_test
