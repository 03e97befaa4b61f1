// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "attention/attention_cases.hpp"
#include "attention/gradient_checks.hpp"

using quipu::bfloat16;
using quipu::check;
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

TEST_CASE("host attention drops what the mask says", "[attention]") {
  test::check_dropout(test::host_attention{});
}

TEST_CASE("gradients of host attention agree with the oracle", "[attention]") {
  test::check_all_gradients<test::host_gradients, float, float16, bfloat16>({});
  test::check_gradient_corners(test::host_gradients{});
}

TEST_CASE("gradients of host attention keep their bits on any number of threads", "[attention]") {
  const auto g = test::random_graph(58, 500, 400, 9, 700);
  for (const auto kind : test::all_kinds) {
    const auto p = test::make_gradient_problem<float>(g, {kind, 2, 24});
    REQUIRE(test::host_gradients{1}(p) == test::host_gradients{3}(p));
  }
}

namespace {

/// Every number of an operand moved up and down: the loss must change as the gradient says.
void compare_with_differences(const oracle::graph& g, const test::attention_setting& s) {
  using inputs = oracle::attention_inputs;
  const auto p = test::make_gradient_problem<double>(g, s);
  const auto got = test::host_gradients{}(p);
  const auto cotangent = p.grad_output.rounded();
  const auto loss = [&](const inputs& in) {
    const auto y = oracle::attend(g, in).output;
    double sum = 0;
    for (std::size_t k = 0; k < y.values.size(); ++k) sum += y.values[k] * cotangent.values[k];
    return sum;
  };
  const auto start = p.forward.rounded();
  const auto compare = [&](oracle::matrix inputs::*operand, const oracle::matrix& gradient) {
    constexpr double step = 1e-5;
    for (std::size_t k = 0; k < gradient.values.size(); ++k) {
      auto up = start, down = start;
      (up.*operand).values[k] += step;
      (down.*operand).values[k] -= step;
      const double slope = (loss(up) - loss(down)) / (2 * step);
      REQUIRE(std::fabs(slope - gradient.values[k]) <= 1e-7 * (1 + std::fabs(slope)));
    }
  };
  compare(&inputs::senders, got.senders.rounded());
  if (s.kind == oracle::attention::gat) {
    compare(&inputs::receiver_scores, got.receiver_scores.rounded());
    compare(&inputs::sender_scores, got.sender_scores.rounded());
  } else {
    compare(&inputs::receivers, got.receivers.rounded());
  }
  if (s.kind == oracle::attention::gatv2) compare(&inputs::vector, got.vector.rounded());
  if (s.kind == oracle::attention::transformer) {
    compare(&inputs::values, got.values.rounded());
    compare(&inputs::bias, got.bias.rounded());
  }
}

}  // namespace

TEST_CASE("gradients of attention equal central differences", "[attention]") {
  const auto g = test::random_graph(55, 9, 7, 3, 12);
  for (const auto kind : test::all_kinds) {
    const bool bias = kind == oracle::attention::transformer;
    compare_with_differences(g, {kind, 2, 3, 1, bias});
    compare_with_differences(g, {kind, 2, 3, 1, bias, 0.2, {}, {0.4, 5, 6}});
  }
}

namespace {

/// Forward and backward arguments of a small problem, to be spoiled one by one.
struct small_attention {
  static constexpr std::int64_t nodes = 4, heads = 2, dim = 3;
  quipu::host_context ctx{1};
  quipu::graph<std::int32_t, std::int32_t> graph;
  std::vector<float> data = std::vector<float>(16 * nodes * heads * dim, 0.5f);
  quipu::transformer_forward_args<float, std::int32_t> forward;
  quipu::transformer_backward_args<float, std::int32_t> backward;

  small_attention() {
    const auto g = test::random_graph(56, nodes, nodes, 3);
    graph = check(quipu::make_graph<std::int32_t, std::int32_t>(
        ctx, test::stored_graph<std::int32_t, std::int32_t>(g).view()));
    int next = 0;
    const auto take = [&] {
      return quipu::make_heads_view(data.data() + next++ * nodes * heads * dim, nodes, heads, dim);
    };
    const auto numbers =
        quipu::make_matrix_view(data.data() + 15 * nodes * heads * dim, nodes, heads);
    forward.graph = backward.graph = graph.view();
    forward.query = backward.query = take();
    forward.key = backward.key = take();
    forward.value = backward.value = take();
    forward.output = take();
    forward.scale = backward.scale = 1;
    forward.logsumexp = numbers;
    backward.output = forward.output;
    backward.logsumexp = numbers;
    backward.grad_output = take();
    backward.grad_query = take();
    backward.grad_key = take();
    backward.grad_value = take();
  }
  void refuses(const quipu::status& s, const std::string& start) const {
    INFO(quipu::describe(s));
    REQUIRE(s.code == quipu::status_code::invalid_argument);
    REQUIRE(quipu::describe(s).find(start) != std::string::npos);
  }
};

}  // namespace

TEST_CASE("attention refuses what does not fit, and names it", "[attention]") {
  using spoil = std::function<void(small_attention&)>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<const char*, spoil> forward[] = {
      {"query: heads",
       [](auto& s) {
         s.forward.query = quipu::make_heads_view<const float>(s.data.data(), 4, 3, 2);
       }},
      {"key: dim",
       [](auto& s) {
         s.forward.key = quipu::make_heads_view<const float>(s.data.data(), 4, 2, 2);
       }},
      {"value: rows",
       [](auto& s) {
         s.forward.value = quipu::make_heads_view<const float>(s.data.data(), 3, 2, 3);
       }},
      {"query: null",
       [](auto& s) { s.forward.query = quipu::make_heads_view<const float>(nullptr, 4, 2, 3); }},
      {"key: strides",
       [](auto& s) {
         s.forward.key = quipu::make_heads_view<const float>(s.data.data(), 4, 2, 3, 4);
       }},
      {"scale: NaN", [nan](auto& s) { s.forward.scale = nan; }},
      {"logsumexp: [rows, heads]",
       [](auto& s) { s.forward.logsumexp = quipu::make_matrix_view(s.data.data(), 4, 1); }},
      {"alpha: [edges, heads]",
       [](auto& s) { s.forward.alpha = quipu::make_matrix_view(s.data.data(), 1, 2); }},
      {"bias: [edges, heads]",
       [](auto& s) { s.forward.bias = quipu::make_matrix_view<const float>(s.data.data(), 1, 2); }},
      {"output: overlaps",
       [](auto& s) {
         s.forward.output =
             quipu::make_heads_view(const_cast<float*>(s.forward.value.data_handle()), 4, 2, 3);
       }},
      {"output: heads without", [](auto& s) {
         s.forward.output = quipu::make_heads_view(s.data.data(), 4, 2, 0);
         s.forward.query = s.forward.key = s.forward.value = s.forward.output;
       }}};
  for (const auto& [start, change] : forward) {
    small_attention s;
    change(s);
    const auto before = s.data;
    s.refuses(quipu::transformer_forward(s.ctx, s.forward), start);
    REQUIRE(s.data == before);
  }
  const std::pair<const char*, spoil> backward[] = {
      {"logsumexp: [rows, heads]", [](auto& s) { s.backward.logsumexp = {}; }},
      {"output: rows", [](auto& s) { s.backward.output = {}; }},
      {"graph: made without its reverse", [](auto& s) { s.backward.graph.reverse = {}; }},
      {"grad_key: overlaps", [](auto& s) { s.backward.grad_key = s.backward.grad_query; }},
      {"grad_query: overlaps",
       [](auto& s) {
         s.backward.grad_query =
             quipu::make_heads_view(const_cast<float*>(s.backward.query.data_handle()), 4, 2, 3);
       }},
      {"scale: NaN", [nan](auto& s) { s.backward.scale = nan; }}};
  for (const auto& [start, change] : backward) {
    small_attention s;
    change(s);
    s.refuses(quipu::transformer_backward(s.ctx, s.backward), start);
  }
  small_attention s;  // gradients packed side by side share no element
  std::vector<float> packed(4 * 3 * 6);
  s.backward.grad_query = quipu::make_heads_view(packed.data(), 4, 2, 3, 18);
  s.backward.grad_key = quipu::make_heads_view(packed.data() + 6, 4, 2, 3, 18);
  s.backward.grad_value = quipu::make_heads_view(packed.data() + 12, 4, 2, 3, 18);
  REQUIRE(quipu::transformer_backward(s.ctx, s.backward).ok());
  s.forward.output = quipu::make_heads_view<float>(nullptr, 4, 0, 3);  // no heads: nothing to do
  s.forward.query = s.forward.key = s.forward.value = s.forward.output;
  s.forward.logsumexp = {};
  REQUIRE(quipu::transformer_forward(s.ctx, s.forward).ok());
}
