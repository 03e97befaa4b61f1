// SPDX-License-Identifier: Apache-2.0
// Bad arguments: a status that names the field, nothing written, the next call works.
#include "quipu/reduce/aggregate.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"
#include "support/random_graph.hpp"

using namespace quipu;

namespace {

struct bench_setup {
  context ctx = test::device_context();
  oracle::graph truth = test::random_graph(81, 40, 50, 5, 60);
  graph<std::int32_t, std::int32_t> device_graph = [&] {
    const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
    return check(to_device(ctx, check(make_graph<std::int32_t, std::int32_t>(
                                    host_context{1}, stored.view(), test::small_slices()))));
  }();
  std::vector<float> host_input = std::vector<float>(50 * 8, 1.0f);
  buffer<float> x = check(to_device(ctx, host_input));
  buffer<float> y = check(to_device(ctx, std::vector<float>(40 * 8, -7.0f)));

  aggregate_args<float, std::int32_t> good() {
    aggregate_args<float, std::int32_t> a;
    a.graph = device_graph.view();
    a.input = make_matrix_view<const float>(x.data(), 50, 8);
    a.output = make_matrix_view(y.data(), 40, 8);
    return a;
  }
};

}  // namespace

TEST_CASE("bad arguments are refused by name before anything is written") {
  bench_setup s;
  test::guarded_workspace space(s.ctx, workspace_bytes(s.ctx, s.good()));
  const auto refused = [&](aggregate_args<float, std::int32_t> a, workspace w, const char* word) {
    const auto outcome = aggregate(s.ctx, a, w);
    REQUIRE(!outcome.ok());
    INFO(outcome.message);
    REQUIRE(std::string(outcome.message).find(word) != std::string::npos);
    REQUIRE(check(to_host(s.ctx, s.y)) == std::vector<float>(40 * 8, -7.0f));
    REQUIRE(cudaGetLastError() == cudaSuccess);
  };
  auto a = s.good();
  a.input = make_matrix_view<const float>(s.x.data(), 49, 8);
  refused(a, space.get(), "input");
  a = s.good();
  a.input = make_matrix_view<const float>(s.host_input.data(), 50, 8);  // K50
  refused(a, space.get(), "input");
  a = s.good();
  a.input = make_matrix_view<const float>(nullptr, 50, 8);
  refused(a, space.get(), "input");
  a = s.good();
  a.output = make_matrix_view(s.y.data(), 40, 8, 4);
  refused(a, space.get(), "output");
  a = s.good();
  a.output = make_matrix_view(s.y.data(), 39, 8);
  refused(a, space.get(), "output");
  a = s.good();
  a.output = make_matrix_view(const_cast<float*>(s.x.data()), 40, 8);
  refused(a, space.get(), "overlaps");
  a = s.good();
  a.argument = make_argument_view(a.graph, s.x.data(), 8);
  refused(a, space.get(), "argument");
  a.op = quipu::reduce::max;
  a.argument.wide_rows = 5;
  refused(a, space.get(), "argument");
  refused(s.good(), {}, "workspace");
  const auto small = aggregate(s.ctx, s.good(), {space.get().data, 16});
  REQUIRE(small.code == status_code::workspace_too_small);
  REQUIRE(small.expected == static_cast<std::int64_t>(workspace_bytes(s.ctx, s.good())));
  REQUIRE(small.actual == 16);
  check(aggregate(s.ctx, s.good(), space.get()));
  check(synchronize(s.ctx));
  REQUIRE(check(to_host(s.ctx, s.y)) != std::vector<float>(40 * 8, -7.0f));
}

TEST_CASE("backward asks for what it needs") {
  bench_setup s;
  graph_options o;
  o.reverse = edge_option::keep;
  const test::stored_graph<std::int32_t, std::int32_t> stored(s.truth);
  const auto one_way =
      check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view(), o));
  std::vector<float> dy(40 * 8), dx(50 * 8);
  aggregate_backward_args<float, std::int32_t> b;
  b.graph = one_way.view();
  b.grad_output = make_matrix_view<const float>(dy.data(), 40, 8);
  b.grad_input = make_matrix_view(dx.data(), 50, 8);
  REQUIRE(std::string(aggregate_backward(host_context{1}, b).message).find("reverse") !=
          std::string::npos);
  b.graph = s.device_graph.view();
  b.grad_output = make_matrix_view<const float>(s.y.data(), 40, 8);
  b.grad_input = make_matrix_view(s.x.data(), 50, 8);
  b.op = quipu::reduce::max;
  REQUIRE(std::string(aggregate_backward(s.ctx, b).message).find("argument") != std::string::npos);
}

TEST_CASE("workspace of tiny graphs is small") {  // K48
  const auto ctx = test::device_context();
  for (const std::int64_t n : {0, 1, 2}) {
    oracle::graph g;
    g.rows = g.columns = n;
    for (std::int64_t k = 0; k < n; ++k) {
      g.indices.push_back(k);
      g.offsets.push_back(k + 1);
    }
    const test::stored_graph<std::int32_t, std::int32_t> stored(g);
    const auto graph = check(to_device(
        ctx, check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view()))));
    auto x = check(to_device(ctx, std::vector<float>(4, 3.0f)));
    auto y = check(make_device_buffer<float>(ctx, 4));
    aggregate_args<float, std::int32_t> a;
    a.graph = graph.view();
    a.input = make_matrix_view<const float>(x.data(), n, n);
    a.output = make_matrix_view(y.data(), n, n);
    REQUIRE(workspace_bytes(ctx, a) <= 64 << 20);
    check(aggregate(ctx, a));
    check(synchronize(ctx));
  }
}
