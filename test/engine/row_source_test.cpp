// SPDX-License-Identifier: Apache-2.0
#include "quipu/engine/row_source.hpp"

#include <cstdint>

#include "quipu/graph/make_graph.hpp"
#include "quipu/reduce/aggregate.hpp"
#include "support/catch.hpp"
#include "support/problem.hpp"
#include "support/random_graph.hpp"

namespace {

/// A wide fragment points at its row, so that rows need not be there; only addresses are compared.
template <class T, class I>
std::int64_t distance_to(I column, std::int64_t stride) {
  using wide = quipu::tile<1, 1, 64>;
  volatile std::uintptr_t start = 1 << 20;
  quipu::dense_rows<T> rows;
  rows.data = reinterpret_cast<const T*>(start);
  rows.row_stride = stride;
  const auto f =
      rows.template load<wide>(rows.begin(quipu::lane_position<wide>::at(0, 0, 64)), column);
  return reinterpret_cast<std::intptr_t>(f.vectors[0]) - static_cast<std::intptr_t>(start);
}

template <class T>
void check_strides() {
  constexpr auto longest = quipu::longest_stride<T>;
  constexpr std::int64_t bytes = sizeof(T);
  CHECK(distance_to<T>(std::int32_t{2'000'000'000}, longest) == 2'000'000'000 * longest * bytes);
  CHECK(distance_to<T>(std::int64_t{2'100'000'000}, longest) == 2'100'000'000 * longest * bytes);
  CHECK(distance_to<T>(std::int32_t{7}, 3) == 21 * bytes);
}

}  // namespace

TEST_CASE("rows lie where their strides say, beyond 2^32 bytes too", "[engine]") {
  check_strides<float>();
  check_strides<quipu::float16>();
  check_strides<double>();
}

TEST_CASE("a stride that 32 bits cannot count in bytes is refused", "[engine]") {
  const test::stored_graph<std::int32_t, std::int32_t> stored(test::random_graph(3, 4, 4, 2));
  const auto g = quipu::check(quipu::make_graph(quipu::host_context{1}, stored.view()));
  float x = 0, y[16] = {};
  quipu::aggregate_args<float, std::int32_t, std::int32_t> a;
  a.graph = g.view();
  a.input = quipu::make_matrix_view<const float>(&x, 4, 4, quipu::longest_stride<float> + 1);
  a.output = quipu::make_matrix_view(y, 4, 4);
  const auto s = quipu::aggregate(quipu::host_context{1}, a);
  CHECK(s.code == quipu::status_code::invalid_argument);
  CHECK(std::string(s.message) == "input: row stride");
}
