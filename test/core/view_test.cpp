// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/view.hpp"

#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace {

template <class View>
auto& element(const View& m, std::int64_t row, std::int64_t feature) {
  return m.data_handle()[m.mapping()(row, feature)];
}

}  // namespace

TEST_CASE("packed rows follow each other", "[view]") {
  std::vector<float> data(12);
  const auto m = quipu::make_matrix_view(data.data(), 3, 4);
  CHECK(m.extent(0) == 3);
  CHECK(m.extent(1) == 4);
  CHECK(m.stride(0) == 4);
  CHECK(m.stride(1) == 1);
  CHECK(&element(m, 2, 3) == &data[11]);
}

TEST_CASE("rows may lie apart", "[view]") {
  std::vector<double> data(30);
  const auto m = quipu::make_matrix_view(data.data(), 3, 4, 10);
  CHECK(m.stride(0) == 10);
  CHECK(&element(m, 1, 0) == &data[10]);
  CHECK(&element(m, 2, 3) == &data[23]);
}

TEST_CASE("offsets are counted in 64 bits", "[view]") {
  const auto m = quipu::make_matrix_view<float>(nullptr, 1'000'000, 4096);
  CHECK(m.mapping()(999'999, 4095) == std::int64_t{1'000'000} * 4096 - 1);
}

TEST_CASE("views of nothing", "[view]") {
  const auto none = quipu::make_matrix_view<float>(nullptr, 0, 4);
  CHECK(none.extent(0) == 0);
  CHECK(quipu::make_matrix_view<float>(nullptr, 5, 0).extent(1) == 0);
  CHECK(quipu::make_vector_view<float>(nullptr, 0).extent(0) == 0);
  const quipu::matrix_view<float> unset;
  CHECK(unset.data_handle() == nullptr);
  CHECK(unset.extent(0) == 0);
}

TEST_CASE("a view of what may be written is one of what may be read", "[view]") {
  std::vector<float> data(6);
  const auto writable = quipu::make_matrix_view(data.data(), 2, 3);
  const quipu::matrix_view<const float> readable = writable;
  CHECK(readable.data_handle() == data.data());
  CHECK(readable.stride(0) == 3);
  CHECK(std::is_trivially_copyable_v<quipu::matrix_view<float>>);
}
