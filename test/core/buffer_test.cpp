// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/buffer.hpp"

#include <cstdint>
#include <limits>
#include <utility>

#include "support/catch.hpp"

namespace {

using quipu::make_host_buffer;
using quipu::status_code;

constexpr std::int64_t exbibyte = std::int64_t{1} << 60;

}  // namespace

TEST_CASE("a host buffer has its size and alignment", "[buffer]") {
  auto b = quipu::check(make_host_buffer<float>(100));
  CHECK(b.size() == 100);
  CHECK(b.bytes() == 400);
  CHECK_FALSE(b.empty());
  CHECK(b.kind() == quipu::memory_kind::host);
  CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % 64 == 0);
  for (int i = 0; i < 100; ++i) b.data()[i] = static_cast<float>(i);
  CHECK(b.data()[99] == 99);
}

TEST_CASE("an empty buffer has no memory", "[buffer]") {
  const auto b = quipu::check(make_host_buffer<double>(0));
  CHECK(b.data() == nullptr);
  CHECK(b.empty());
}

TEST_CASE("moving a buffer leaves an empty one", "[buffer]") {
  auto a = quipu::check(make_host_buffer<int>(4));
  const int* const where = a.data();
  quipu::buffer<int> b = std::move(a);
  CHECK(b.data() == where);
  CHECK(a.data() == nullptr);  // NOLINT(bugprone-use-after-move): what is left is the point
  CHECK(a.size() == 0);
  b = quipu::check(make_host_buffer<int>(2));
  CHECK(b.size() == 2);
}

TEST_CASE("sizes without sense are refused", "[buffer]") {
  CHECK(make_host_buffer<float>(-1).error().code == status_code::invalid_argument);
  // As bytes these are 0, 8 and -8 in 64 bits.
  for (const auto size :
       {exbibyte * 2, exbibyte * 2 + 1, std::numeric_limits<std::int64_t>::max()}) {
    const auto b = make_host_buffer<double>(size);
    REQUIRE_FALSE(b.ok());
    CHECK(b.error().code == status_code::out_of_memory);
  }
}

TEST_CASE("memory that is not there is refused with the bytes", "[buffer]") {
  const auto b = make_host_buffer<float>(exbibyte);
  REQUIRE_FALSE(b.ok());
  CHECK(b.error().code == status_code::out_of_memory);
  CHECK(b.error().expected == 4 * exbibyte);
}

TEST_CASE("a vector that is too long is a status, not an exception", "[buffer]") {
  const quipu::context unused;
  const float* const nowhere = nullptr;
  const auto too_long = quipu::to_host(unused, nowhere, std::numeric_limits<std::int64_t>::max());
  CHECK(too_long.error().code == status_code::out_of_memory);
#ifndef __SANITIZE_ADDRESS__  // its operator new ends the program
  const auto large = quipu::to_host(unused, nowhere, exbibyte);
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().code == status_code::out_of_memory);
  CHECK(large.error().expected == 4 * exbibyte);
#endif
  CHECK(quipu::to_host(unused, nowhere, -1).error().code == status_code::invalid_argument);
  CHECK(quipu::check(quipu::to_host(unused, nowhere, 0)).empty());
}
