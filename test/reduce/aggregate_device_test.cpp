// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "quipu/reduce/aggregate.hpp"
#include "reduce/checks.hpp"
#include "reduce/public_cases.hpp"

using quipu::bfloat16;
using quipu::float16;
using test::device_runner;
using test::run_mode;

TEST_CASE("device aggregate agrees with the oracle on every shape") {
  test::check_everything<device_runner, float, float16, bfloat16>({});
}

TEST_CASE("device aggregate runs on a second stream and captured") {
  for (const auto mode : {run_mode::second_stream, run_mode::captured}) {
    test::check_everything<device_runner, float>({mode});
  }
}

TEST_CASE("device aggregate takes every width") {
  test::check_widths<device_runner, float, float16>({});
}

TEST_CASE("device aggregate keeps to its rows in padded and misaligned views") {
  test::check_layouts<device_runner, float, float16>({});
}

TEST_CASE("device aggregate passes the public cases") {
  test::check_public_cases(device_runner{});
  test::check_public_cases(device_runner{run_mode::captured});
}

TEST_CASE("winners' gradients agree whichever way they go") {
  using quipu::backward_method;
  using quipu::determinism;
  for (const auto method : {backward_method::gather, backward_method::scatter}) {
    for (const auto repeat : {determinism::run_to_run, determinism::any}) {
      test::check_everything<device_runner, float, float16>({run_mode::eager, repeat, method});
    }
  }
}

TEST_CASE("gradients that no fixed point holds are gathered") {
  const auto g = test::random_graph(51, 200, 150, 6, 90);
  const test::stored_graph<std::int32_t, std::int32_t> graph(g);
  const auto x = test::random_matrix(52, g.columns, 24);
  const auto check = [&](oracle::matrix dy) {
    const test::stored_matrix<float> stored(dy);
    const auto scattered = device_runner{run_mode::captured, quipu::determinism::run_to_run,
                                         quipu::backward_method::scatter}(
        graph, test::stored_matrix<float>(x), stored, quipu::reduce::max, {}, test::small_slices());
    const auto gathered = device_runner{run_mode::eager, quipu::determinism::run_to_run,
                                        quipu::backward_method::gather}(
        graph, test::stored_matrix<float>(x), stored, quipu::reduce::max, {}, test::small_slices());
    REQUIRE(std::memcmp(scattered.grad_input.data.data(), gathered.grad_input.data.data(),
                        gathered.grad_input.data.size() * sizeof(float)) == 0);
  };
  auto dy = test::random_matrix(53, g.rows, 24);
  dy.at(3, 4) = 1e30;
  check(dy);
  dy.at(3, 4) = NAN;
  check(dy);
  dy.at(3, 4) = -INFINITY;
  check(dy);
}

TEST_CASE("device aggregate gives the same bits in 20 runs") {
  const auto g = test::random_graph(61, 2000, 2000, 100, 3000);  // K40
  const test::stored_graph<std::int32_t, std::int32_t> graph(g);
  const test::stored_matrix<float> x(test::random_matrix(62, g.columns, 64));
  const test::stored_matrix<float> dy(test::random_matrix(63, g.rows, 64));
  using quipu::backward_method;
  for (const auto op : test::all_reductions) {
    for (const auto method : {backward_method::gather, backward_method::scatter}) {
      const auto run = [&](run_mode mode) {
        return device_runner{mode, quipu::determinism::run_to_run, method}(graph, x, dy, op, {},
                                                                           {});
      };
      const auto first = run(run_mode::eager);
      for (int repeat = 0; repeat < 20; ++repeat) {
        const auto next = run(repeat % 2 == 0 ? run_mode::second_stream : run_mode::captured);
        REQUIRE(first.output.data == next.output.data);
        REQUIRE(first.grad_input.data == next.grad_input.data);
        REQUIRE(first.edges == next.edges);
      }
    }
  }
}

TEST_CASE("many threads share one graph on their own streams") {  // X14
  const auto ctx = test::device_context();
  const auto g = test::random_graph(71, 500, 500, 12, 700);
  const test::stored_graph<std::int32_t, std::int32_t> stored(g);
  const auto host = quipu::check(quipu::make_graph<std::int32_t, std::int32_t>(
      quipu::host_context{1}, stored.view(), test::small_slices()));
  const auto graph = quipu::check(quipu::to_device(ctx, host));
  constexpr std::int64_t width = 32;
  constexpr int thread_count = 8;
  std::vector<int> wrong(thread_count, 0);
  const auto work = [&](int id) {
    const test::own_stream stream;
    const auto mine = ctx.on(stream.get());
    const test::stored_matrix<float> x(
        test::random_matrix(100 + id, g.columns, width, test::filling::integers));
    const auto want = oracle::sum(g, x.rounded());
    const auto input = quipu::check(quipu::to_device(mine, x.data));
    auto output = quipu::check(quipu::make_device_buffer<float>(mine, g.rows * width));
    quipu::aggregate_args<float, std::int32_t> a;
    a.graph = graph.view();
    a.input = quipu::make_matrix_view(input.data(), g.columns, width);
    a.output = quipu::make_matrix_view(output.data(), g.rows, width);
    test::guarded_workspace space(mine, quipu::workspace_bytes(mine, a));
    for (int repeat = 0; repeat < 60; ++repeat) {
      (void)cudaMemsetAsync(output.data(), 0x7f, output.bytes(), mine.stream);
      quipu::check(quipu::aggregate(mine, a, space.get()));
      const auto got = quipu::check(quipu::to_host(mine, output));
      for (std::size_t k = 0; k < got.size(); ++k) wrong[id] += got[k] != want.values[k];
    }
  };
  std::vector<std::thread> threads;
  for (int id = 0; id < thread_count; ++id) threads.emplace_back(work, id);
  for (auto& t : threads) t.join();
  REQUIRE(wrong == std::vector<int>(thread_count, 0));
}
