// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/context.hpp"

#include <vector>

#include "quipu/core/buffer.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"

using quipu::check_device_pointer;
using quipu::status_code;

TEST_CASE("device pointers are told from others", "[context]") {
  const auto ctx = test::device_context();
  const auto mine = quipu::check(quipu::make_device_buffer<float>(ctx, 8));
  CHECK(check_device_pointer(mine.data(), 8, "x").ok());
  CHECK(check_device_pointer(mine.data(), 8, "x", ctx.device).ok());
  const auto elsewhere = check_device_pointer(mine.data(), 8, "x", ctx.device + 1);
  CHECK(elsewhere.code == status_code::invalid_argument);
  CHECK(elsewhere.expected == ctx.device + 1);
  CHECK(elsewhere.actual == ctx.device);
  const auto pinned = quipu::check(quipu::make_pinned_buffer<float>(ctx, 8));
  CHECK(check_device_pointer(pinned.data(), 8, "x", ctx.device + 1).ok());
  const std::vector<float> ordinary(8);
  CHECK(check_device_pointer(ordinary.data(), 8, "x").code == status_code::invalid_argument);
}

TEST_CASE("device memory that is not there is refused with the bytes", "[buffer]") {
  const auto ctx = test::device_context();
  constexpr std::int64_t pebibyte = std::int64_t{1} << 50;
  const auto b = quipu::make_device_buffer<char>(ctx, pebibyte);
  REQUIRE_FALSE(b.ok());
  CHECK(b.error().code == status_code::out_of_memory);
  CHECK(b.error().expected == pebibyte);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("what goes to the device comes back", "[buffer]") {
  const auto ctx = test::device_context();
  const std::vector<std::int32_t> values{1, -2, 3};
  const auto there = quipu::check(quipu::to_device(ctx, values));
  CHECK(quipu::check(quipu::to_host(ctx, there)) == values);
  CHECK(quipu::check(quipu::to_host(ctx, there.data(), 0)).empty());
}
