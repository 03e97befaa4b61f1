// SPDX-License-Identifier: Apache-2.0
// Times of the sparse family: both backends on synthetic graphs, and what they are measured by.
//   quipu_bench_sparse --benchmark_filter=REGEX --benchmark_out=F --benchmark_out_format=json
// Names are family/graph/features/element.
#include <memory>
#include <string>
#include <vector>

#include "cusparse_baseline.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"
#include "quipu/sparse/sddmm.hpp"
#include "quipu/sparse/spmm.hpp"
#include "registry.hpp"
#include "timing.hpp"
#include "yardstick.hpp"

namespace {

using namespace quipu;
using bench::add;
using I = std::int32_t;

constexpr std::int64_t widest = 512;

/// One graph at a time lives on the device, with matrices wide enough for every case.
struct stage {
  explicit stage(const std::string& graph_name) : name(graph_name) {
    ctx = check(make_context(bench::own_stream())).with(determinism::any);
    made = check(make_synthetic(ctx, check(parse_synthetic(graph_name))));
    const auto g = made.view();
    nodes = std::max(g.rows(), g.columns());
    x = check(make_device_buffer<float>(ctx, nodes * widest));
    y = check(make_device_buffer<float>(ctx, nodes * widest));
    yardstick::fill(x.data(), x.size(), ctx.stream);
    yardstick::fill(y.data(), y.size(), ctx.stream);
    for (const auto n : {normalisation::none, normalisation::symmetric}) {
      scales[n == normalisation::symmetric] = check(make_node_scales(ctx, g, n));
    }
  }

  std::string name;
  context ctx;
  graph<I, I> made;
  std::int64_t nodes = 0;
  buffer<float> x, y;
  node_scales scales[2];
};

stage& on_stage(const std::string& graph_name) { return bench::on_stage<stage>(graph_name); }

template <class Work>
void measure(benchmark::State& state, const stage& s, Work work) {
  bench::device_timer(s.ctx).measure(state, work);
}

template <class T>
spmm_args<T, I> arguments(stage& s, const graph_view<I, I>& g, std::int64_t features,
                          const scales_view& scales = {}) {
  spmm_args<T, I> a;
  a.graph = g;
  a.scales = scales;
  a.input = make_matrix_view(reinterpret_cast<const T*>(s.x.data()), g.columns(), features);
  a.output = make_matrix_view(reinterpret_cast<T*>(s.y.data()), g.rows(), features);
  return a;
}

spmm_options options_of(spmm_backend backend, cusparse_algorithm algorithm) {
  spmm_options o;
  o.backend = backend;
  o.algorithm = algorithm;
  o.backward = edge_option::keep;
  return o;
}

void time_weighted(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  auto a = arguments<float>(s, s.made.view(), features);
  auto w = check(make_device_buffer<float>(s.ctx, s.made.view().edges()));
  yardstick::fill(w.data(), w.size(), s.ctx.stream);
  a.weights = make_vector_view<const float>(w.data(), w.size());
  auto plan = check(
      make_spmm_plan(s.ctx, a, options_of(spmm_backend::engine, cusparse_algorithm::automatic)));
  measure(state, s, [&] { check(spmm(s.ctx, plan, a)); });
}

void report_choice(benchmark::State& state, const spmm_choice& c) {
  state.counters["engine_ms"] = c.engine_ms;
  state.counters["csr2_ms"] = c.csr2_ms;
  state.counters["csr3_ms"] = c.csr3_ms;
  state.counters["picked_engine"] = c.backend == spmm_backend::engine ? 1 : 0;
}

template <class T>
void time_product(benchmark::State& state, const std::string& name, int features,
                  spmm_backend backend, cusparse_algorithm algorithm, normalisation norm) {
  auto& s = on_stage(name);
  const auto a =
      arguments<T>(s, s.made.view(), features, s.scales[norm == normalisation::symmetric].view());
  auto plan = check(make_spmm_plan(s.ctx, a, options_of(backend, algorithm)));
  measure(state, s, [&] { check(spmm(s.ctx, plan, a)); });
  report_choice(state, plan.forward());
}

/// backward, or the forward product of the reverse graph that it is held against.
void time_backward(benchmark::State& state, const std::string& name, int features,
                   bool as_forward) {
  auto& s = on_stage(name);
  const auto g = s.made.view();
  auto options = options_of(spmm_backend::engine, cusparse_algorithm::automatic);
  if (as_forward) {
    graph_view<I, I> turned;
    turned.forward = g.reverse;
    const auto a = arguments<float>(s, turned, features);
    auto plan = check(make_spmm_plan(s.ctx, a, options));
    measure(state, s, [&] { check(spmm(s.ctx, plan, a)); });
    return;
  }
  options.backward = edge_option::apply;
  auto plan = check(make_spmm_plan(s.ctx, arguments<float>(s, g, features), options));
  spmm_backward_args<float, I> b;
  b.graph = g;
  b.grad_output = make_matrix_view<const float>(s.x.data(), g.rows(), features);
  b.grad_input = make_matrix_view(s.y.data(), g.columns(), features);
  measure(state, s, [&] { check(spmm_backward(s.ctx, plan, b)); });
}

/// What the peers do backward: op = TRANSPOSE over the forward graph; and, for the record, csr3
/// with the preprocessing that plans leave out.
void time_raw_cusparse(benchmark::State& state, const std::string& name, int features,
                       cusparseOperation_t op, cusparseSpMMAlg_t algorithm) {
  auto& s = on_stage(name);
  bench::cusparse_baseline product(s.ctx, s.made.view(), features, s.x.data(), s.y.data(),
                                   algorithm, op);
  measure(state, s, [&] {
    if (!product.run()) state.SkipWithError("cusparseSpMM failed");
  });
}

template <class T>
void time_sddmm(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  const auto g = s.made.view();
  auto d = check(make_device_buffer<float>(s.ctx, g.edges()));
  sddmm_args<T, I> a;
  a.graph = g;
  a.left = make_matrix_view(reinterpret_cast<const T*>(s.x.data()), g.rows(), features);
  a.right = make_matrix_view(reinterpret_cast<const T*>(s.y.data()), g.columns(), features);
  a.output = make_vector_view(d.data(), g.edges());
  measure(state, s, [&] { check(sddmm(s.ctx, a)); });
}

void time_two_rows(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  const auto& csr = s.made.view().forward.csr;
  const auto offsets = check(to_host(s.ctx, csr.offsets, csr.rows + 1));
  std::vector<std::int32_t> receivers(static_cast<std::size_t>(csr.edges));
  for (std::int64_t r = 0; r < csr.rows; ++r) {
    std::fill(receivers.begin() + offsets[r], receivers.begin() + offsets[r + 1],
              static_cast<std::int32_t>(r));
  }
  const auto chunks = yardstick::make_chunks(offsets);
  const auto on_device = check(to_device(s.ctx, chunks));
  const auto ids = check(to_device(s.ctx, receivers));
  auto written =
      check(make_device_buffer<float>(s.ctx, static_cast<std::int64_t>(chunks.size()) * 128));
  measure(state, s, [&] {
    yardstick::multiply_two_rows(features, on_device.data(), static_cast<int>(chunks.size()),
                                 ids.data(), csr.indices, s.x.data(), s.y.data(), written.data(),
                                 s.ctx.stream);
  });
}

void time_floor(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  const auto& csr = s.made.view().forward.csr;
  const auto chunks = yardstick::make_chunks(check(to_host(s.ctx, csr.offsets, csr.rows + 1)));
  const auto on_device = check(to_device(s.ctx, chunks));
  measure(state, s, [&] {
    yardstick::sum_rows(features, on_device.data(), static_cast<int>(chunks.size()), csr.indices,
                        s.x.data(), s.y.data(), csr.rows, s.ctx.stream);
  });
}

/// Replays of a captured call on a small graph.
void time_replay(benchmark::State& state, const std::string& name, int features,
                 spmm_backend backend, cusparse_algorithm algorithm) {
  auto& s = on_stage(name);
  const auto a = arguments<float>(s, s.made.view(), features);
  auto plan = check(make_spmm_plan(s.ctx, a, options_of(backend, algorithm)));
  const bench::captured_work work(s.ctx.stream, [&] { check(spmm(s.ctx, plan, a)); });
  bench::device_timer timer(s.ctx);
  (void)timer.once([&] { work.replay(); });
  for (auto _ : state) {
    state.SetIterationTime(timer.once([&] { work.replay(); }) * 1e-3 / work.replays);
  }
}

void add_graph(const std::string& g) {
  const auto engine = spmm_backend::engine, cusparse = spmm_backend::cusparse;
  const auto automatic = cusparse_algorithm::automatic;
  const auto none = normalisation::none, symmetric = normalisation::symmetric;
  for (const int f : {32, 64, 128, 256, 512}) {
    const std::string tail = "/" + g + "/" + std::to_string(f) + "/f32";
    add("spmm_engine" + tail, 7, time_product<float>, g, f, engine, automatic, none);
    add("spmm_auto" + tail, 7, time_product<float>, g, f, spmm_backend::automatic, automatic, none);
    add("spmm_csr2" + tail, 3, time_product<float>, g, f, cusparse, cusparse_algorithm::csr2, none);
    add("spmm_csr3" + tail, 3, time_product<float>, g, f, cusparse, cusparse_algorithm::csr3, none);
    add("csr3_preprocessed" + tail, 3, time_raw_cusparse, g, f, CUSPARSE_OPERATION_NON_TRANSPOSE,
        CUSPARSE_SPMM_CSR_ALG3);
  }
  for (const int f : {64, 128, 256}) {
    const std::string tail = "/" + g + "/" + std::to_string(f) + "/f32";
    add("spmm_symmetric" + tail, 7, time_product<float>, g, f, engine, automatic, symmetric);
    add("spmm_weighted" + tail, 7, time_weighted, g, f);
    add("floor" + tail, 7, time_floor, g, f);
    add("sddmm" + tail, 7, time_sddmm<float>, g, f);
    add("two_rows" + tail, 7, time_two_rows, g, f);
  }
  const std::string tail = "/" + g + "/128";
  add("spmm_engine" + tail + "/f16", 7, time_product<float16>, g, 128, engine, automatic, none);
  add("spmm_engine" + tail + "/bf16", 7, time_product<bfloat16>, g, 128, engine, automatic, none);
  add("sddmm" + tail + "/f16", 7, time_sddmm<float16>, g, 128);
  add("backward" + tail + "/f32", 7, time_backward, g, 128, false);
  add("forward_on_reverse" + tail + "/f32", 7, time_backward, g, 128, true);
  add("cusparse_transpose" + tail + "/f32", 3, time_raw_cusparse, g, 128,
      CUSPARSE_OPERATION_TRANSPOSE, CUSPARSE_SPMM_ALG_DEFAULT);
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* g :
       {"roads_like", "arxiv_like", "reviews_like", "tolokers_like", "hm_like", "avazu_like",
        "twitch_like", "web_like", "reddit_like", "products_like", "twitch-views", "avazu-ctr",
        "hm-categories", "pokec-regions", "web-fraud"}) {
    add_graph(g);
  }
  const std::string cora = "cora";
  add("replay_engine/cora/64/f32", 20, time_replay, cora, 64, spmm_backend::engine,
      cusparse_algorithm::automatic);
  for (const auto& [label, algorithm] :
       {std::pair{"csr1", cusparse_algorithm::csr1}, std::pair{"csr2", cusparse_algorithm::csr2},
        std::pair{"csr3", cusparse_algorithm::csr3}}) {
    add(std::string("replay_") + label + "/cora/64/f32", 20, time_replay, cora, 64,
        spmm_backend::cusparse, algorithm);
  }
  return bench::run(argc, argv);
}
