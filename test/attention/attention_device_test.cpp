// SPDX-License-Identifier: Apache-2.0
#include "attention/attention_cases.hpp"
#include "attention/gradient_checks.hpp"

using quipu::bfloat16;
using quipu::float16;

TEST_CASE("attention agrees with the oracle", "[attention]") {
  test::check_attention_graphs<test::device_attention, float, float16, bfloat16>({});
}

TEST_CASE("attention takes every head size and number of heads", "[attention]") {
  test::check_attention_shapes<test::device_attention, float, float16, bfloat16>({});
}

TEST_CASE("attention keeps to its heads in strided views", "[attention]") {
  test::check_attention_layouts<test::device_attention, float, float16>({});
}

TEST_CASE("attention bears large logits and any slope", "[attention]") {
  test::check_attention_range(test::device_attention{});
}

TEST_CASE("attention bears infinite keys in heads of every shape", "[attention]") {
  test::check_attention_infinities<test::device_attention, float, float16>({});
}

TEST_CASE("attention passes the public cases", "[attention]") {
  test::check_attention_cases(test::device_attention{});
  test::check_attention_corners(test::device_attention{});
}

TEST_CASE("attention runs on any stream and in captures", "[attention]") {
  const auto g = test::random_graph(45, 300, 400, 9, 1500);
  for (const auto mode : test::run_modes) {
    for (const auto kind : test::all_kinds) {
      const test::attention_setting s{kind, 2, 32};
      test::check_attention<float, std::int32_t, std::int32_t>(test::device_attention{mode}, g, s);
    }
  }
}

TEST_CASE("attention gives the same bits every run", "[attention]") {
  const auto g = test::random_graph(46, 300, 400, 9, 1500);
  for (const auto kind : test::all_kinds) {
    const auto p = test::make_problem<float>(g, {kind, 2, 32});
    const auto first = test::device_attention{}(p);
    for (int k = 0; k < 20; ++k) {
      const auto again = test::device_attention{}(p);
      REQUIRE(first.output.m.data == again.output.m.data);
      REQUIRE(first.logsumexp.data == again.logsumexp.data);
      REQUIRE(first.alpha.data == again.alpha.data);
    }
  }
}

TEST_CASE("attention drops the edges that the host drops", "[attention]") {
  test::check_dropout(test::device_attention{});
}

TEST_CASE("gradients of attention agree with the oracle", "[attention]") {
  test::check_all_gradients<test::device_gradients, float, float16, bfloat16>({});
}

TEST_CASE("gradients of attention know where nothing passes", "[attention]") {
  test::check_gradient_corners(test::device_gradients{});
}

TEST_CASE("gradients of attention keep their bits, on any stream and in captures", "[attention]") {
  const auto g = test::random_graph(54, 300, 400, 9, 1500);
  for (const auto kind : test::all_kinds) {
    const test::attention_setting s{kind, 2, 32, 1, kind == oracle::attention::transformer};
    const auto p = test::make_gradient_problem<float>(g, s);
    const auto first = test::device_gradients{}(p);
    for (const auto mode : test::run_modes) {
      test::check_gradients<float, std::int32_t, std::int32_t>(test::device_gradients{mode}, g, s);
      for (int k = 0; k < 7; ++k) REQUIRE(first == test::device_gradients{mode}(p));
    }
  }
}

TEST_CASE("heads that no lay-out holds have no gradient on a device", "[attention]") {
  const auto g = test::random_graph(60, 20, 20, 4);
  for (const auto kind : test::all_kinds) {
    INFO("kind " << static_cast<int>(kind));
    test::check_gradients<float, std::int32_t, std::int32_t>(test::device_gradients{}, g,
                                                             {kind, 1, 512});
    for (const std::int64_t dim : {257, 516}) {  // of which 257 are not aligned
      std::string message;
      try {
        (void)test::device_gradients{}(test::make_gradient_problem<float>(g, {kind, 1, dim}));
      } catch (const quipu::error& e) {
        message = e.what();
      }
      REQUIRE(message.find("heads this wide have no gradient") != std::string::npos);
    }
  }
}
