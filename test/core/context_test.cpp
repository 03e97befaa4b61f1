// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/context.hpp"

#include "support/catch.hpp"

using quipu::status_code;

TEST_CASE("a context wants a stream that was made for it", "[context]") {
  const auto ctx = quipu::make_context(nullptr);
  REQUIRE_FALSE(ctx.ok());
  CHECK(ctx.error().code == status_code::invalid_argument);
  CHECK(quipu::describe(ctx.error()).find("stream") == 0);
}

TEST_CASE("null is a device pointer only when nothing is read", "[context]") {
  CHECK(quipu::check_device_pointer(nullptr, 0, "x: null").ok());
  const auto s = quipu::check_device_pointer(nullptr, 1, "x: null");
  CHECK(s.code == status_code::invalid_argument);
  CHECK(quipu::describe(s) == "x: null");
}

TEST_CASE("copies of a context differ in one thing", "[context]") {
  quipu::context ctx;
  ctx.device = 3;
  ctx.multiprocessors = 7;
  const auto other = ctx.on(cudaStreamPerThread).with(quipu::determinism::any);
  CHECK(other.stream == cudaStreamPerThread);
  CHECK(other.repeat == quipu::determinism::any);
  CHECK(other.device == 3);
  CHECK(other.multiprocessors == 7);
  CHECK(ctx.stream == nullptr);
}
