// SPDX-License-Identifier: Apache-2.0
#include "attention/attention_cases.hpp"
#include "attention/gradient_checks.hpp"

using quipu::bfloat16;
using quipu::float16;

TEST_CASE("host attention agrees with the oracle", "[attention]") {
  test::check_attention_graphs<test::host_attention, float, double, float16, bfloat16>({});
}

TEST_CASE("host attention takes every head size and number of heads", "[attention]") {
  test::check_attention_shapes<test::host_attention, float, bfloat16>({});
}

TEST_CASE("host attention keeps to its heads in strided views", "[attention]") {
  test::check_attention_layouts<test::host_attention, float, float16>({});
}

TEST_CASE("host attention bears large logits and any slope", "[attention]") {
  test::check_attention_range(test::host_attention{});
}

TEST_CASE("host attention bears infinite keys in heads of every shape", "[attention]") {
  test::check_attention_infinities<test::host_attention, float, float16>({});
}

TEST_CASE("host attention passes the public cases", "[attention]") {
  test::check_attention_cases(test::host_attention{});
  test::check_attention_corners(test::host_attention{});
}

TEST_CASE("host attention gives the same bits on any number of threads", "[attention]") {
  const auto g = test::random_graph(44, 500, 400, 9, 700);
  for (const auto kind : test::all_kinds) {
    const auto p = test::make_problem<float>(g, {kind, 2, 24});
    const auto one = test::host_attention{1}(p), three = test::host_attention{3}(p);
    REQUIRE(one.output.m.data == three.output.m.data);
    REQUIRE(one.alpha.data == three.alpha.data);
  }
}

TEST_CASE("gradients of host attention agree with the oracle", "[attention]") {
  test::check_all_gradients<test::host_gradients, float, float16, bfloat16>({});
  test::check_gradients_of_nothing(test::host_gradients{});
}

TEST_CASE("gradients of attention equal central differences", "[attention]") {
  const auto g = test::random_graph(55, 9, 7, 3, 12);
  auto p = test::make_gradient_problem<double>(g, {oracle::attention::transformer, 2, 3, 1, true});
  const auto got = test::host_gradients{}(p);
  const auto cotangent = p.grad_output.rounded();
  const auto loss = [&](const oracle::attention_inputs& in) {
    const auto y = oracle::attend(g, in).output;
    double sum = 0;
    for (std::size_t k = 0; k < y.values.size(); ++k) sum += y.values[k] * cotangent.values[k];
    return sum;
  };
  const auto inputs = p.forward.rounded();
  const auto compare = [&](oracle::matrix oracle::attention_inputs::*operand,
                           const oracle::matrix& gradient) {
    constexpr double step = 1e-5;
    for (std::size_t k = 0; k < gradient.values.size(); ++k) {
      auto up = inputs, down = inputs;
      (up.*operand).values[k] += step;
      (down.*operand).values[k] -= step;
      const double slope = (loss(up) - loss(down)) / (2 * step);
      REQUIRE(std::fabs(slope - gradient.values[k]) <= 1e-7 * (1 + std::fabs(slope)));
    }
  };
  compare(&oracle::attention_inputs::receivers, got.query.rounded());
  compare(&oracle::attention_inputs::senders, got.key.rounded());
  compare(&oracle::attention_inputs::values, got.value.rounded());
  compare(&oracle::attention_inputs::bias, got.bias.rounded());
}
