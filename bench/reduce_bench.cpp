// SPDX-License-Identifier: Apache-2.0
// Times of the reduce family against the yardsticks, on synthetic graphs.
//   quipu_bench_reduce --benchmark_filter=REGEX --benchmark_out=F --benchmark_out_format=json
// Names are family/graph/features/element. `cold` runs drive the L2 cache out before each
// iteration.
#include <memory>
#include <string>

#include "cusparse_baseline.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"
#include "quipu/reduce/aggregate.hpp"
#include "registry.hpp"
#include "timing.hpp"
#include "yardstick.hpp"

namespace {

using namespace quipu;
using bench::add;
using I = std::int32_t;

/// One graph at a time lives on the device, with inputs wide enough for every case.
struct stage {
  static constexpr std::int64_t widest = 256;

  explicit stage(const std::string& graph_name)
      : name(graph_name), request(check(parse_synthetic(graph_name))) {
    ctx = check(make_context(bench::own_stream()));
    graph = check(make_synthetic(ctx, request));
    const auto g = graph.view();
    std::vector<float> values(static_cast<std::size_t>(std::max(g.rows(), g.columns()) * widest));
    std::uint32_t state = 1;
    for (float& v : values) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<float>(state >> 8) * (2.0f / 16777216.0f) - 1.0f;
    }
    x = check(to_device(ctx, values));
    std::vector<float16> halves(values.size() / 2);
    for (std::size_t k = 0; k < halves.size(); ++k) halves[k] = __float2half_rn(values[k]);
    x16 = check(to_device(ctx, halves));
    for (auto& y : outputs) y = check(make_device_buffer<float>(ctx, g.rows() * widest / 2));
    wide_output = check(make_device_buffer<float>(ctx, std::max(g.rows(), g.columns()) * widest));
    winners = check(make_device_buffer<unsigned char>(
        ctx, static_cast<std::int64_t>(argument_bytes(g, widest / 2))));
  }

  workspace space(std::size_t bytes) {
    if (scratch.size() < static_cast<std::int64_t>(bytes)) {
      scratch = check(make_device_buffer<char>(ctx, static_cast<std::int64_t>(bytes)));
    }
    return {scratch.data(), scratch.bytes()};
  }

  std::string name;
  synthetic_request request;
  context ctx;
  quipu::graph<I, I> graph;
  buffer<float> x, wide_output, outputs[4];
  buffer<float16> x16;
  buffer<unsigned char> winners;
  buffer<char> scratch;
};

stage& on_stage(const std::string& graph_name) { return bench::on_stage<stage>(graph_name); }

enum class cache { warm, cold };

template <class Work>
void measure(benchmark::State& state, stage& s, double gathered_bytes, cache c, Work work) {
  bench::device_timer timer(s.ctx);
  for (int k = 0; k < 2; ++k) (void)timer.once(work);
  for (auto _ : state) {
    if (c == cache::cold) timer.clear_cache();
    state.SetIterationTime(timer.once(work) * 1e-3);
  }
  state.counters["gathered_GB"] = gathered_bytes * 1e-9;
  state.counters["GB_per_s"] =
      benchmark::Counter(gathered_bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["edges"] = static_cast<double>(s.graph.view().edges());
}

double row_bytes(const stage& s, std::int64_t features, std::size_t element_bytes) {
  return static_cast<double>(s.graph.view().edges() * features) *
         static_cast<double>(element_bytes);
}

void time_floor(benchmark::State& state, const std::string& name, int features, cache c,
                bool reverse, bool by_halves) {
  auto& s = on_stage(name);
  const auto view = s.graph.view();
  const auto& d = reverse ? view.reverse : view.forward;
  const auto chunks = yardstick::make_chunks(check(to_host(s.ctx, d.csr.offsets, d.csr.rows + 1)));
  const auto on_device = check(to_device(s.ctx, chunks));
  measure(state, s, row_bytes(s, features, 4), c, [&] {
    const auto count = static_cast<int>(chunks.size());
    if (by_halves) {
      yardstick::sum_rows_by_halves(on_device.data(), count, d.csr.indices, s.x.data(),
                                    s.wide_output.data(), d.csr.rows, s.ctx.stream);
    } else {
      yardstick::sum_rows(features, on_device.data(), count, d.csr.indices, s.x.data(),
                          s.wide_output.data(), d.csr.rows, s.ctx.stream);
    }
  });
}

template <class T>
aggregate_args<T, I> forward_args(stage& s, std::int64_t features, quipu::reduce op) {
  aggregate_args<T, I> a;
  a.graph = s.graph.view();
  const void* x = sizeof(T) == 4 ? static_cast<const void*>(s.x.data()) : s.x16.data();
  a.input = make_matrix_view(static_cast<const T*>(x), a.graph.columns(), features);
  a.output = make_matrix_view(reinterpret_cast<T*>(s.wide_output.data()), a.graph.rows(), features);
  a.op = op;
  if (op == quipu::reduce::min || op == quipu::reduce::max) {
    a.argument = make_argument_view(a.graph, s.winners.data(), features);
  }
  return a;
}

template <class T>
void time_forward(benchmark::State& state, const std::string& name, int features, quipu::reduce op,
                  cache c) {
  auto& s = on_stage(name);
  const auto a = forward_args<T>(s, features, op);
  const auto w = s.space(workspace_bytes(s.ctx, a));
  measure(state, s, row_bytes(s, features, sizeof(T)), c, [&] { check(aggregate(s.ctx, a, w)); });
}

void time_several(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  aggregate_several_args<float, I> a;
  a.graph = s.graph.view();
  a.input = make_matrix_view<const float>(s.x.data(), a.graph.columns(), features);
  matrix_view<float>* targets[] = {&a.sum, &a.mean, &a.min, &a.max};
  for (int k = 0; k < 4; ++k) {
    *targets[k] = make_matrix_view(s.outputs[k].data(), a.graph.rows(), features);
  }
  const auto w = s.space(workspace_bytes(s.ctx, a));
  measure(state, s, row_bytes(s, features, 4), cache::warm,
          [&] { check(aggregate_several(s.ctx, a, w)); });
}

void time_sum_backward(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  aggregate_backward_args<float, I> a;
  a.graph = s.graph.view();
  a.grad_output = make_matrix_view<const float>(s.x.data(), a.graph.rows(), features);
  a.grad_input = make_matrix_view(s.wide_output.data(), a.graph.columns(), features);
  const auto w = s.space(workspace_bytes(s.ctx, a));
  measure(state, s, row_bytes(s, features, 4), cache::warm,
          [&] { check(aggregate_backward(s.ctx, a, w)); });
}

void time_max_backward(benchmark::State& state, const std::string& name, int features,
                       determinism repeat, backward_method method) {
  auto& s = on_stage(name);
  const auto ctx = s.ctx.with(repeat);
  const auto forward = forward_args<float>(s, features, quipu::reduce::max);
  check(aggregate(ctx, forward, s.space(workspace_bytes(ctx, forward))));
  aggregate_backward_args<float, I> a;
  a.graph = forward.graph;
  a.grad_output = make_matrix_view<const float>(s.x.data(), a.graph.rows(), features);
  a.grad_input = make_matrix_view(s.wide_output.data(), a.graph.columns(), features);
  a.argument = forward.argument;
  a.op = quipu::reduce::max;
  a.method = method;
  const auto w = s.space(workspace_bytes(ctx, a));
  measure(state, s, row_bytes(s, features, 4), cache::warm,
          [&] { check(aggregate_backward(ctx, a, w)); });
}

/// The peers save the winning sender's id; ours is turned into that once, outside the timing.
void time_plain_scatter(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  const auto forward = forward_args<float>(s, features, quipu::reduce::max);
  check(aggregate(s.ctx, forward, s.space(workspace_bytes(s.ctx, forward))));
  const auto g = forward.graph;
  auto edges = check(make_device_buffer<std::int64_t>(s.ctx, g.rows() * features));
  check(expand_argument(s.ctx, g, forward.argument,
                        make_matrix_view(edges.data(), g.rows(), features)));
  const auto positions = check(to_host(s.ctx, edges));
  const auto columns = check(to_host(s.ctx, g.forward.csr.indices, g.edges()));
  std::vector<std::int32_t> senders(positions.size());
  for (std::size_t k = 0; k < senders.size(); ++k) {
    senders[k] = positions[k] < 0 ? -1 : columns[static_cast<std::size_t>(positions[k])];
  }
  edges = {};
  const auto winners = check(to_device(s.ctx, senders));
  measure(state, s, row_bytes(s, features, 4), cache::warm, [&] {
    yardstick::scatter_add(winners.data(), s.x.data(), s.wide_output.data(), g.rows(), g.columns(),
                           features, s.ctx.stream);
  });
}

/// cuSPARSE with everything cached and preprocessed, the best of its algorithms for rows.
void time_cusparse(benchmark::State& state, const std::string& name, int features,
                   cusparseSpMMAlg_t algorithm) {
  auto& s = on_stage(name);
  bench::cusparse_baseline product(s.ctx, s.graph.view(), features, s.x.data(),
                                   s.wide_output.data(), algorithm);
  measure(state, s, row_bytes(s, features, 4), cache::warm, [&] {
    if (!product.run()) state.SkipWithError("cusparseSpMM failed");
  });
}

/// Replays of a captured forward call: what a launch-bound engine pays.
void time_replay(benchmark::State& state, const std::string& name, int features, quipu::reduce op) {
  auto& s = on_stage(name);
  const auto a = forward_args<float>(s, features, op);
  const auto w = s.space(workspace_bytes(s.ctx, a));
  const bench::captured_work work(s.ctx.stream, [&] { check(aggregate(s.ctx, a, w)); });
  bench::device_timer timer(s.ctx);
  (void)timer.once([&] { work.replay(); });
  for (auto _ : state) {
    state.SetIterationTime(timer.once([&] { work.replay(); }) * 1e-3 / work.replays);
  }
}

void add_graph(const std::string& g, bool every_width) {
  const int n = 11;
  for (const int f : {64, 128, 256}) {
    if (!every_width && f != 128) continue;
    const std::string tail = "/" + g + "/" + std::to_string(f);
    add("floor" + tail, n, time_floor, g, f, cache::warm, false, false);
    if (f == 64) add("floor_by_halves" + tail, n, time_floor, g, f, cache::warm, false, true);
    add("sum" + tail + "/f32", n, time_forward<float>, g, f, quipu::reduce::sum, cache::warm);
    for (const auto& [label, algorithm] :
         {std::pair{"default", CUSPARSE_SPMM_ALG_DEFAULT},
          std::pair{"csr2", CUSPARSE_SPMM_CSR_ALG2}, std::pair{"csr3", CUSPARSE_SPMM_CSR_ALG3}}) {
      if (every_width)
        add(std::string("cusparse_") + label + tail, 5, time_cusparse, g, f, algorithm);
    }
  }
  const std::string tail = "/" + g + "/128";
  add("floor_cold" + tail, n, time_floor, g, 128, cache::cold, false, false);
  add("sum_cold" + tail + "/f32", n, time_forward<float>, g, 128, quipu::reduce::sum, cache::cold);
  add("sum" + tail + "/f16", n, time_forward<float16>, g, 128, quipu::reduce::sum, cache::warm);
  add("sum" + tail + "/bf16", n, time_forward<bfloat16>, g, 128, quipu::reduce::sum, cache::warm);
  add("max" + tail + "/f32", n, time_forward<float>, g, 128, quipu::reduce::max, cache::warm);
  add("max" + tail + "/f16", n, time_forward<float16>, g, 128, quipu::reduce::max, cache::warm);
  add("several" + tail + "/f32", n, time_several, g, 128);
  add("floor_reverse" + tail, n, time_floor, g, 128, cache::warm, true, false);
  add("sum_backward" + tail + "/f32", n, time_sum_backward, g, 128);
  add("plain_scatter" + tail, n, time_plain_scatter, g, 128);
  const auto automatic = backward_method::automatic;
  add("max_backward_any" + tail + "/f32", n, time_max_backward, g, 128, determinism::any,
      automatic);
  add("max_backward" + tail + "/f32", n, time_max_backward, g, 128, determinism::run_to_run,
      automatic);
  add("max_backward_gather" + tail + "/f32", 5, time_max_backward, g, 128, determinism::run_to_run,
      backward_method::gather);
  add("max_backward_scatter" + tail + "/f32", 5, time_max_backward, g, 128, determinism::run_to_run,
      backward_method::scatter);
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* g :
       {"roads_like", "arxiv_like", "reviews_like", "tolokers_like", "hm_like", "avazu_like",
        "twitch_like", "web_like", "reddit_like", "products_like", "web-fraud"}) {
    add_graph(g, true);
  }
  for (const char* twin : {"avazu-ctr", "hm-categories", "twitch-views", "web-fraud"}) {
    for (const auto& g : {std::string(twin), std::string(twin) + ",flat"}) {
      add("twin_sum/" + g + "/128/f32", 11, time_forward<float>, g, 128, quipu::reduce::sum,
          cache::warm);
      add("twin_max/" + g + "/128/f32", 11, time_forward<float>, g, 128, quipu::reduce::max,
          cache::warm);
    }
  }
  for (const auto& [label, op] :
       {std::pair{"sum", quipu::reduce::sum}, std::pair{"max", quipu::reduce::max}}) {
    add(std::string("replay_") + label + "/cora/64/f32", 20, time_replay, std::string("cora"), 64,
        op);
  }
  return bench::run(argc, argv);
}
