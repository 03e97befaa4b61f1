// SPDX-License-Identifier: Apache-2.0
#include "quipu/sparse/spmm.hpp"

#include <limits>

#include "sparse/product_cases.hpp"

using quipu::bfloat16;
using quipu::float16;

TEST_CASE("host products agree with the oracle", "[spmm]") {
  test::check_products<test::host_product, float, double, float16, bfloat16>({});
}

TEST_CASE("host products take every width", "[spmm]") {
  test::check_product_widths<test::host_product, float, float16>({});
}

TEST_CASE("host products keep to their rows in padded and misaligned views", "[spmm]") {
  test::check_product_layouts<test::host_product, float, float16>({});
}

TEST_CASE("host products pass the public cases", "[spmm]") {
  test::check_product_cases(test::host_product{});
}

TEST_CASE("gradients of a product equal central differences", "[spmm]") {
  // L = <dY, alpha N(A) X>: its derivatives in float64, by each element of X and each weight.
  auto g = test::random_graph(61, 9, 7, 3, 12, true);
  const auto x = test::random_matrix(62, 7, 5), dy = test::random_matrix(63, 9, 5);
  const auto loss = [&](const oracle::graph& h, const oracle::matrix& in) {
    const auto y = oracle::product(h, oracle::coefficients(h, oracle::normalisation::symmetric), in,
                                   1.5, 0, {});
    double sum = 0;
    for (std::size_t k = 0; k < y.values.size(); ++k) sum += y.values[k] * dy.values[k];
    return sum;
  };
  test::product_problem<double, std::int32_t, std::int32_t> p{
      test::stored_graph<std::int32_t, std::int32_t>(g),
      test::stored_matrix<double>(x),
      test::stored_matrix<double>(9, 5, 0.0),
      test::stored_matrix<double>(dy),
      test::stored_matrix<double>(7, 5, 0.0),
      quipu::normalisation::symmetric,
      1.5};
  const auto got = test::host_product{}(p);
  constexpr double step = 1e-4;
  for (std::size_t k = 0; k < x.values.size(); ++k) {
    auto up = x, down = x;
    up.values[k] += step;
    down.values[k] -= step;
    const double slope = (loss(g, up) - loss(g, down)) / (2 * step);
    REQUIRE(std::fabs(slope - got.grad_input.data[k]) <= 1e-6 * (1 + std::fabs(slope)));
  }
  for (std::size_t k = 0; k < g.weights.size(); ++k) {
    auto up = g, down = g;
    up.weights[k] += step;
    down.weights[k] -= step;
    const double slope = (loss(up, x) - loss(down, x)) / (2 * step);
    REQUIRE(std::fabs(slope - got.dots[k]) <= 1e-6 * (1 + std::fabs(slope)));
  }
}

TEST_CASE("an empty row gives 0 whatever its factor", "[spmm]") {
  using namespace quipu;
  const std::int32_t offsets[] = {0, 1, 1}, indices[] = {0};
  const csr_view<std::int32_t, std::int32_t> csr{2, 1, 1, offsets, indices, nullptr};
  const auto g = check(make_graph<std::int32_t, std::int32_t>(host_context{1}, csr));
  const float infinity = std::numeric_limits<float>::infinity();
  const float row[] = {0.5f, infinity}, x[] = {3, 4};
  float y[4] = {7, 7, 7, 7};
  spmm_args<float, std::int32_t> a;
  a.graph = g.view();
  a.scales.row = row;
  a.input = make_matrix_view<const float>(x, 1, 2);
  a.output = make_matrix_view(y, 2, 2);
  a.beta = 2;
  check(spmm(host_context{1}, a));
  CHECK(std::vector<float>(y, y + 4) == std::vector<float>{15.5f, 16, 14, 14});
}

TEST_CASE("outputs overlap neither matrices nor coefficients", "[spmm]") {
  using namespace quipu;
  const auto truth = test::random_graph(66, 5, 5, 2);
  const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
  const auto g = check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view()));
  std::vector<float> memory(400, 1.0f);
  const auto outcome = [&](std::int64_t input_at, std::int64_t output_at) {
    spmm_args<float, std::int32_t> a;
    a.graph = g.view();
    a.input = make_matrix_view<const float>(memory.data() + input_at, 5, 6, 12);
    a.output = make_matrix_view(memory.data() + output_at, 5, 6, 12);
    return spmm(host_context{1}, a).ok();
  };
  // Column blocks of one wide matrix, on either side; anything between shares elements.
  for (std::int64_t shift = -11; shift <= 11; ++shift) {
    INFO("output " << shift << " elements behind the input");
    CHECK(outcome(100, 100 + shift) == (shift == 6 || shift == -6));
  }
  spmm_args<float, std::int32_t> a;
  a.graph = g.view();
  a.input = make_matrix_view<const float>(memory.data(), 5, 6);
  a.output = make_matrix_view(memory.data() + 100, 5, 6);
  a.scales.column = memory.data() + 110;
  CHECK(std::string(spmm(host_context{1}, a).message).find("scales") != std::string::npos);
  a.scales = {};
  a.weights = make_vector_view<const float>(memory.data() + 101, g.view().edges());
  CHECK(std::string(spmm(host_context{1}, a).message).find("weights") != std::string::npos);
}

TEST_CASE("host products refuse bad arguments", "[spmm]") {
  using namespace quipu;
  const auto truth = test::random_graph(64, 6, 5, 2);
  const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
  const auto g = check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view()));
  std::vector<float> x(5 * 4, 1.0f), y(6 * 4, -7.0f), w(stored.indices.size());
  const auto good = [&] {
    spmm_args<float, std::int32_t> a;
    a.graph = g.view();
    a.input = make_matrix_view<const float>(x.data(), 5, 4);
    a.output = make_matrix_view(y.data(), 6, 4);
    return a;
  };
  const auto refused = [&](const spmm_args<float, std::int32_t>& a, const char* word) {
    const auto s = spmm(host_context{1}, a);
    REQUIRE(s.code == status_code::invalid_argument);
    REQUIRE(std::string(s.message).find(word) != std::string::npos);
    REQUIRE(y == std::vector<float>(6 * 4, -7.0f));
  };
  auto a = good();
  a.weights = make_vector_view<const float>(w.data(), g.view().edges() - 1);  // K54
  refused(a, "weights");
  a = good();
  a.weights = make_vector_view<const float>(nullptr, g.view().edges());
  refused(a, "weights");
  a = good();
  a.output = make_matrix_view<float>(nullptr, 6, 4);
  a.beta = 1;
  refused(a, "output");
  a = good();
  a.input = make_matrix_view<const float>(x.data(), 5, 3);
  refused(a, "features");
  a = good();
  a.input = make_matrix_view<const float>(y.data(), 5, 4);
  refused(a, "overlaps");
  REQUIRE(spmm(host_context{1}, good()).ok());

  graph_options one_way;
  one_way.reverse = edge_option::keep;
  const auto forward_only =
      check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view(), one_way));
  REQUIRE(!make_node_scales(host_context{1}, forward_only.view(), normalisation::walk).ok());
  REQUIRE(make_node_scales(host_context{1}, forward_only.view(), normalisation::mean).ok());
}

TEST_CASE("sddmm refuses bad arguments", "[sddmm]") {
  using namespace quipu;
  const auto truth = test::random_graph(65, 6, 5, 2);
  const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
  const auto g = check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view()));
  std::vector<float> l(6 * 4, 1.0f), r(5 * 4, 1.0f), d(stored.indices.size(), -7.0f);
  sddmm_args<float, std::int32_t> a;
  a.graph = g.view();
  a.left = make_matrix_view<const float>(l.data(), 6, 4);
  a.right = make_matrix_view<const float>(r.data(), 5, 4);
  a.output = make_vector_view(d.data(), g.view().edges() + 1);
  REQUIRE(sddmm(host_context{1}, a).code == status_code::invalid_argument);
  a.output = make_vector_view(l.data(), g.view().edges());
  REQUIRE(std::string(sddmm(host_context{1}, a).message).find("overlaps") != std::string::npos);
  a.output = make_vector_view(d.data(), g.view().edges());
  a.right = make_matrix_view<const float>(r.data(), 5, 3);
  REQUIRE(sddmm(host_context{1}, a).code == status_code::invalid_argument);
  REQUIRE(d == std::vector<float>(d.size(), -7.0f));
  a.right = make_matrix_view<const float>(r.data(), 5, 4);
  REQUIRE(sddmm(host_context{1}, a).ok());
  REQUIRE(d == std::vector<float>(d.size(), 4.0f));
}
