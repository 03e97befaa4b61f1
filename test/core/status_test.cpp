// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/status.hpp"

#include <cuda_runtime_api.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "support/catch.hpp"

namespace {

using quipu::describe;
using quipu::failure;
using quipu::status;
using quipu::status_code;

status with_native(status_code code, const char* message, std::int32_t native) {
  status s = failure(code, message);
  s.native = native;
  return s;
}

}  // namespace

TEST_CASE("describe says everything once", "[status]") {
  CHECK(describe(quipu::success()) == "ok");
  CHECK(describe(failure(status_code::invalid_argument, "x: null")) == "x: null");
  CHECK(describe(failure(status_code::invalid_argument, "x: rows", -1, 3, 5)) ==
        "x: rows (expected 3, got 5)");
  CHECK(describe(failure(status_code::invalid_argument, "x: rows", -1, 3, 0)) ==
        "x: rows (expected 3, got 0)");
  CHECK(describe(failure(status_code::out_of_range, "column: too large, edge", 0)) ==
        "column: too large, edge 0");
  CHECK(describe(failure(status_code::workspace_too_small, "workspace: too small", -1, 512, 0)) ==
        "workspace: too small (512 bytes needed, 0 given)");
  CHECK(describe(failure(status_code::out_of_memory, "out of host memory", -1, 4096)) ==
        "out of host memory (4096 bytes wanted)");
  CHECK(describe(failure(status_code::out_of_memory, "out of host memory")) ==
        "out of host memory");
}

TEST_CASE("describe counts lines from 1 and binary files have none", "[status]") {
  CHECK(describe(failure(status_code::parse_error, "not an index", 2)) == "not an index in line 2");
  CHECK(describe(failure(status_code::parse_error, "too short", 0, 8, 4)) ==
        "too short (expected 8, got 4)");
  CHECK(describe(failure(status_code::parse_error, "too short")) == "too short");
}

TEST_CASE("describe translates vendor codes", "[status]") {
  CHECK(describe(with_native(status_code::io_error, "cannot open", ENOENT)) ==
        std::string("cannot open: ") + std::strerror(ENOENT));
  for (const auto code :
       {status_code::cuda_error, status_code::no_device, status_code::out_of_memory}) {
    CHECK(describe(with_native(code, "copy", cudaErrorMemoryAllocation)) ==
          std::string("copy: ") + cudaGetErrorString(cudaErrorMemoryAllocation));
    CHECK(describe(failure(code, "copy")) == "copy");
  }
}

TEST_CASE("a result holds a value or a reason", "[status]") {
  quipu::result<int> good = 5;
  REQUIRE(good.ok());
  CHECK(*good == 5);
  CHECK(good.error().ok());
  const quipu::result<int> bad = failure(status_code::unsupported, "no");
  CHECK_FALSE(bad.ok());
  CHECK(bad.error().code == status_code::unsupported);
  const quipu::result<int> neither = quipu::success();
  CHECK_FALSE(neither.ok());
  CHECK(neither.error().code == status_code::invalid_argument);
  quipu::result<std::unique_ptr<int>> owned = std::make_unique<int>(7);
  CHECK(*quipu::check(std::move(owned)) == 7);
}

TEST_CASE("check throws what describe says", "[status]") {
  CHECK_NOTHROW(quipu::check(quipu::success()));
  const auto s = failure(status_code::out_of_range, "row", 3);
  try {
    quipu::check(quipu::result<int>(s));
    FAIL("did not throw");
  } catch (const quipu::error& e) {
    CHECK(e.what() == describe(s));
    CHECK(e.what_status().position == 3);
  }
  CHECK_THROWS_AS(quipu::check(s), quipu::error);
}
