// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"

namespace {

using namespace quipu;

template <class T>
std::vector<T> list(const T* data, std::int64_t size) {
  return {data, data + size};
}

}  // namespace

TEST_CASE("host and device make the same graph bit for bit", "[synthetic]") {
  const auto ctx = test::device_context();
  for (const auto& shape : synthetic_shapes()) {
    if (shape.edges > 3'000'000) continue;
    for (const char* options : {"", ",seed=9", ",flat"}) {
      const auto text = std::string(shape.name) + options;
      CAPTURE(text);
      const auto request = check(parse_synthetic(text));
      const auto host = check(make_synthetic(host_context{}, request));
      const auto device = check(to_host(ctx, check(make_synthetic(ctx, request))));
      const auto a = host.view().forward.csr;
      const auto b = device.view().forward.csr;
      REQUIRE(a.rows == b.rows);
      REQUIRE(a.edges == b.edges);
      CHECK(list(a.offsets, a.rows + 1) == list(b.offsets, b.rows + 1));
      CHECK(list(a.indices, a.edges) == list(b.indices, b.edges));
    }
  }
}

TEST_CASE("rounds that fall short draw on alike", "[synthetic]") {
  const auto ctx = test::device_context();
  const synthetic_shape full{"full", 40, 1'560, 39, 0, 0.5, 7};
  const synthetic_shape narrow{
      "narrow", 64, 300, 5, 1.2, 0.9, 8, edge_symmetry::directed, longest_row::planted};
  for (const auto& shape : {full, narrow}) {
    CAPTURE(std::string(shape.name));
    const synthetic_request request{shape, {}};
    const auto host = check(make_synthetic(host_context{}, request));
    const auto device = check(to_host(ctx, check(make_synthetic(ctx, request))));
    const auto a = host.view().forward.csr;
    const auto b = device.view().forward.csr;
    CHECK(list(a.offsets, a.rows + 1) == list(b.offsets, b.rows + 1));
    CHECK(list(a.indices, a.edges) == list(b.indices, b.edges));
  }
}

TEST_CASE("a shape without an end is refused on the device too", "[synthetic]") {
  const auto ctx = test::device_context();
  const synthetic_shape stuck{"stuck", 100, 200, 20, 0, 1.0, 2};
  const auto made = make_synthetic(ctx, synthetic_request{stuck, {}});
  CHECK(made.error().code == status_code::invalid_argument);
}
