// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>
#include <string>

#include "attention/gradient_checks.hpp"

using quipu::check;
using quipu::make_heads_view;
using quipu::make_matrix_view;

namespace {

constexpr std::int64_t nodes = 4, heads = 2, dim = 3;

/// Arguments of a small problem, to be spoiled one by one.
template <class Args>
struct small_gradient {
  quipu::host_context ctx{1};
  quipu::graph<std::int32_t, std::int32_t> graph;
  std::vector<float> data = std::vector<float>(16 * nodes * heads * dim, 0.5f);
  Args a;

  small_gradient() {
    const auto g = test::random_graph(56, nodes, nodes, 3);
    graph = check(quipu::make_graph<std::int32_t, std::int32_t>(
        ctx, test::stored_graph<std::int32_t, std::int32_t>(g).view()));
    a.graph = graph.view();
    int next = 0;
    const auto room = [&] { return data.data() + next++ * nodes * heads * dim; };
    const auto rows = [&] { return make_heads_view(room(), nodes, heads, dim); };
    const auto numbers = [&] { return make_matrix_view(room(), nodes, heads); };
    a.output = rows();
    a.grad_output = rows();
    a.logsumexp = numbers();
    a.source = rows();
    a.grad_source = rows();
    if constexpr (requires { a.target; }) {
      a.target = rows();
      a.grad_target = rows();
      a.attention = make_matrix_view(room(), heads, dim);
      a.grad_attention = make_matrix_view(room(), heads, dim);
    } else {
      a.target_score = numbers();
      a.source_score = numbers();
      a.grad_target_score = numbers();
      a.grad_source_score = numbers();
    }
  }
};
using gat = small_gradient<quipu::gat_backward_args<float, std::int32_t>>;
using gatv2 = small_gradient<quipu::gatv2_backward_args<float, std::int32_t>>;

template <class Problem>
using spoils = std::vector<std::pair<const char*, std::function<void(Problem&)>>>;

/// What both have.
template <class Problem>
spoils<Problem> common_spoils() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  return {{"output: rows", [](auto& s) { s.a.output = {}; }},
          {"logsumexp: [rows, heads]", [](auto& s) { s.a.logsumexp = {}; }},
          {"graph: made without its reverse", [](auto& s) { s.a.graph.reverse = {}; }},
          {"source: dim",
           [](auto& s) { s.a.source = make_heads_view<const float>(s.data.data(), 4, 2, 2); }},
          {"source: strides",
           [](auto& s) { s.a.source = make_heads_view<const float>(s.data.data(), 4, 2, 3, 4); }},
          {"grad_source: heads",
           [](auto& s) { s.a.grad_source = make_heads_view(s.data.data(), 4, 3, 2); }},
          {"grad_source: null",
           [](auto& s) { s.a.grad_source = make_heads_view<float>(nullptr, 4, 2, 3); }},
          {"slope: not finite", [nan](auto& s) { s.a.slope = nan; }},
          {"slope: not finite", [infinity](auto& s) { s.a.slope = -infinity; }},
          {"dropout: probability", [](auto& s) { s.a.dropout.probability = 1; }},
          {"dropout: probability", [nan](auto& s) { s.a.dropout.probability = nan; }},
          {"graph: dropout and a stash need its edge map",
           [](auto& s) {
             s.a.dropout.probability = 0.5;
             s.a.graph.edge_map = nullptr;
           }},
          {"stash: [edges, 2 * heads]",
           [](auto& s) { s.a.stash = make_matrix_view(s.data.data(), 1, 4); }},
          {"grad_source: overlaps an operand", [](auto& s) {
             s.a.grad_source =
                 make_heads_view(const_cast<float*>(s.a.source.data_handle()), nodes, heads, dim);
           }}};
}

template <class Problem>
void check_refusals(const spoils<Problem>& all) {
  {
    Problem s;
    REQUIRE(test::backward(s.ctx, s.a).ok());
  }
  for (const auto& [start, change] : all) {
    Problem s;
    change(s);
    const auto before = s.data;
    const auto outcome = test::backward(s.ctx, s.a);
    INFO(start << " wanted, but: " << quipu::describe(outcome));
    REQUIRE(outcome.code == quipu::status_code::invalid_argument);
    REQUIRE(std::string(outcome.message).starts_with(start));
    REQUIRE(s.data == before);
  }
}

}  // namespace

TEST_CASE("gradients of gat and gatv2 refuse what does not fit, and name it", "[attention]") {
  auto of_gat = common_spoils<gat>();
  of_gat.insert(
      of_gat.end(),
      {{"target_score: [rows, heads]",
        [](auto& s) { s.a.target_score = make_matrix_view<const float>(s.data.data(), 3, 2); }},
       {"source_score: [columns, heads]", [](auto& s) { s.a.source_score = {}; }},
       {"grad_target_score: [rows, heads]",
        [](auto& s) { s.a.grad_target_score = make_matrix_view(s.data.data(), 4, 1); }},
       {"grad_source_score: overlaps",
        [](auto& s) { s.a.grad_source_score = s.a.grad_target_score; }}});
  check_refusals(of_gat);
  auto of_gatv2 = common_spoils<gatv2>();
  of_gatv2.insert(
      of_gatv2.end(),
      {{"target: rows",
        [](auto& s) { s.a.target = make_heads_view<const float>(s.data.data(), 3, 2, 3); }},
       {"attention: heads",
        [](auto& s) { s.a.attention = make_matrix_view<const float>(s.data.data(), 1, 3); }},
       {"attention: dim",
        [](auto& s) { s.a.attention = make_matrix_view<const float>(s.data.data(), 2, 2); }},
       {"grad_attention: null",
        [](auto& s) { s.a.grad_attention = make_matrix_view<float>(nullptr, 2, 3); }},
       {"grad_attention: overlaps",
        [](auto& s) {
          s.a.grad_attention = make_matrix_view(s.a.grad_target.data_handle(), 2, 3);
        }},
       {"grad_target: overlaps", [](auto& s) {
          s.a.grad_target =
              make_heads_view(const_cast<float*>(s.a.grad_output.data_handle()), nodes, heads, dim);
        }}});
  check_refusals(of_gatv2);
}
