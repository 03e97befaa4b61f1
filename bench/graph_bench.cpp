// SPDX-License-Identifier: Apache-2.0
// Times of making graphs on the device: from an edge list in the order of its senders, reverse
// graph and both schedules included; and of the synthetic generator.
//   quipu_bench_graph --benchmark_out=F --benchmark_out_format=json
#include <string>

#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"
#include "registry.hpp"
#include "timing.hpp"

namespace {

using namespace quipu;
using bench::add;
using I = std::int32_t;

context on_own_stream() { return check(make_context(bench::own_stream())); }

/// A graph's edges by sender: neither sorted by receiver nor random, as edge lists often are.
struct edge_list {
  std::int64_t rows, columns;
  buffer<I> row, column;

  edge_list(const context& ctx, const graph_view<I, I>& g) : rows(g.rows()), columns(g.columns()) {
    const auto offsets = check(to_host(ctx, g.reverse.csr.offsets, g.columns() + 1));
    std::vector<I> senders(static_cast<std::size_t>(g.edges()));
    for (std::int64_t j = 0; j < g.columns(); ++j) {
      std::fill(senders.begin() + offsets[j], senders.begin() + offsets[j + 1], static_cast<I>(j));
    }
    column = check(to_device(ctx, senders));
    row = check(to_device(ctx, check(to_host(ctx, g.reverse.csr.indices, g.edges()))));
  }
  coo_view<I> view() const {
    return {rows, columns, row.size(), row.data(), column.data(), nullptr};
  }
};

void time_make_graph(benchmark::State& state, const std::string& name, edge_option reverse) {
  const auto ctx = on_own_stream();
  const edge_list edges(ctx, check(make_synthetic(ctx, check(parse_synthetic(name)))).view());
  graph_options options;
  options.reverse = reverse;
  bench::device_timer timer(ctx);
  const auto work = [&] { (void)check(make_graph<I, I>(ctx, edges.view(), options)); };
  (void)timer.once(work);
  for (auto _ : state) state.SetIterationTime(timer.once(work) * 1e-3);
  state.counters["edges_per_s"] = benchmark::Counter(static_cast<double>(edges.row.size()),
                                                     benchmark::Counter::kIsIterationInvariantRate);
}

void time_synthetic(benchmark::State& state, const std::string& name) {
  const auto ctx = on_own_stream();
  const auto request = check(parse_synthetic(name));
  bench::device_timer timer(ctx);
  const auto work = [&] { (void)check(make_synthetic(ctx, request)); };
  for (auto _ : state) state.SetIterationTime(timer.once(work) * 1e-3);
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::string& g :
       {std::string("arxiv_like"), std::string("reddit_like"), std::string("products_like")}) {
    add("make_graph/" + g, 5, time_make_graph, g, edge_option::apply);
    add("make_graph_one_way/" + g, 5, time_make_graph, g, edge_option::keep);
    add("make_synthetic/" + g, 2, time_synthetic, g);
  }
  return bench::run(argc, argv);
}
