// SPDX-License-Identifier: Apache-2.0
#include "quipu/math/convert.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/catch.hpp"

namespace {

using quipu::bfloat16;
using quipu::float16;
using quipu::narrow;
using quipu::widen;

template <class T>
T from_bits(std::uint32_t bits) {
  return std::bit_cast<T>(static_cast<std::uint16_t>(bits));
}
template <class T>
std::uint32_t bits_of(T x) {
  return std::bit_cast<std::uint16_t>(x);
}

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t patterns = 1u << 16;

/// IEEE 754 binary16 from its fields.
double half_value(std::uint32_t bits) {
  const double sign = bits >> 15 == 0 ? 1 : -1;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  if (exponent == 31) return fraction == 0 ? sign * infinity : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

TEST_CASE("bf16 widens to the same bits, NaN's payload too", "[convert]") {
  std::uint32_t wrong = 0;
  for (std::uint32_t bits = 0; bits < patterns; ++bits) {
    wrong += std::bit_cast<std::uint32_t>(widen(from_bits<bfloat16>(bits))) != bits << 16;
  }
  CHECK(wrong == 0);
}

TEST_CASE("f16 widens to its value", "[convert]") {
  std::uint32_t wrong = 0;
  for (std::uint32_t bits = 0; bits < patterns; ++bits) {
    const double got = widen(from_bits<float16>(bits)), want = half_value(bits);
    const bool same =
        std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want);
    wrong += !same;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("16-bit types survive a round trip", "[convert]", float16, bfloat16) {
  std::uint32_t wrong = 0;
  for (std::uint32_t bits = 0; bits < patterns; ++bits) {
    const float wide = widen(from_bits<TestType>(bits));
    const TestType back = narrow<TestType>(wide);
    wrong += std::isnan(wide) ? !std::isnan(widen(back)) : bits_of(back) != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("narrowing rounds to nearest, ties to even", "[convert]") {
  // A step above 1 is 2^-7 in bf16 and 2^-10 in f16; halves of steps are ties.
  CHECK(widen(narrow<bfloat16>(1 + 0x1p-8f)) == 1);
  CHECK(widen(narrow<bfloat16>(1 + 0x1p-8f + 0x1p-20f)) == 1 + 0x1p-7f);
  CHECK(widen(narrow<bfloat16>(1 + 3 * 0x1p-8f)) == 1 + 0x1p-6f);
  CHECK(widen(narrow<float16>(1 + 0x1p-11f)) == 1);
  CHECK(widen(narrow<float16>(1 + 0x1p-11f + 0x1p-20f)) == 1 + 0x1p-10f);
  CHECK(widen(narrow<float16>(1 + 3 * 0x1p-11f)) == 1 + 0x1p-9f);
  CHECK(widen(narrow<float16>(0x1p-24f)) == 0x1p-24f);
  CHECK(widen(narrow<float16>(0x1p-25f)) == 0);
  CHECK(std::signbit(widen(narrow<float16>(-0x1p-25f))));
}

TEST_CASE("what is too large becomes infinity", "[convert]") {
  CHECK(widen(narrow<float16>(65519.996f)) == 65504);
  CHECK(widen(narrow<float16>(65520.0f)) == infinity);
  CHECK(widen(narrow<float16>(-65520.0f)) == -infinity);
  CHECK(widen(narrow<bfloat16>(std::numeric_limits<float>::max())) == infinity);
  CHECK(widen(narrow<bfloat16>(-std::numeric_limits<float>::max())) == -infinity);
}

TEMPLATE_TEST_CASE("infinity and NaN pass through", "[convert]", float16, bfloat16, float) {
  CHECK(widen(narrow<TestType>(infinity)) == infinity);
  CHECK(widen(narrow<TestType>(-infinity)) == -infinity);
  CHECK(std::isnan(widen(narrow<TestType>(std::nanf("")))));
}

TEST_CASE("fp32 and fp64 are their own accumulators", "[convert]") {
  CHECK(widen(narrow<float>(0.1f)) == 0.1f);
  CHECK(widen(narrow<double>(0.1)) == 0.1);
}
