// SPDX-License-Identifier: Apache-2.0
// Times of attention on synthetic graphs, beside the floor: the plain row kernel of the same width.
//   quipu_bench_attention --benchmark_filter=REGEX --benchmark_out=F --benchmark_out_format=json
// Names are family/graph/features/element/heads; features are those of all heads together. `both`
// is forward and backward, `stash` the same with two numbers left for each edge between halves.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "quipu/attention/gat.hpp"
#include "quipu/attention/gatv2.hpp"
#include "quipu/attention/transformer.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"
#include "registry.hpp"
#include "timing.hpp"
#include "yardstick.hpp"

namespace {

using namespace quipu;
using bench::add;
using I = std::int32_t;

constexpr std::int64_t widest = 256;

/// One graph at a time lives on the device, with operands wide enough for every case: numbers in
/// [-1, 1), in fp32 and in fp16.
struct stage {
  explicit stage(const std::string& graph_name) : name(graph_name) {
    ctx = check(make_context(bench::own_stream()));
    made = check(make_synthetic(ctx, check(parse_synthetic(graph_name))));
    const auto g = made.view();
    const auto count = std::max(g.rows(), g.columns()) * widest;
    for (auto* b : {&receivers, &senders, &values, &grad_output}) {
      *b = check(make_device_buffer<float>(ctx, count));
      yardstick::fill(b->data(), count, ctx.stream);
    }
    for (auto& b : gradients) b = check(make_device_buffer<float>(ctx, count));
    narrow = check(make_device_buffer<float16>(ctx, count));
    yardstick::fill_half(narrow.data(), count, ctx.stream);
    output = check(make_device_buffer<float>(ctx, count));
    logsumexp = check(make_device_buffer<float>(ctx, g.rows() * 16));
    scratch = check(make_device_buffer<char>(ctx, std::int64_t{1} << 29));
  }
  /// The same numbers serve every 16-bit operand.
  template <class T>
  const T* operand(const buffer<float>& wide) const {
    if constexpr (sizeof(T) == 4) {
      return wide.data();
    } else {
      return reinterpret_cast<const T*>(narrow.data());
    }
  }

  std::string name;
  context ctx;
  graph<I, I> made;
  buffer<float> receivers, senders, values, grad_output, output, logsumexp, gradients[3];
  buffer<float16> narrow;
  buffer<char> scratch;
};

stage& on_stage(const std::string& graph_name) { return bench::on_stage<stage>(graph_name); }

template <class Work>
void measure(benchmark::State& state, const stage& s, Work work) {
  bench::device_timer(s.ctx).measure(state, work);
}

enum class kind { gat, gatv2, transformer };

/// Calls use(call), where call() enqueues one forward pass.
template <class T, class Use>
void with_forward(stage& s, kind k, std::int64_t features, std::int64_t heads, Use use) {
  const auto g = s.made.view();
  const auto dim = features / heads;
  const auto operand = [&](const buffer<float>& b, std::int64_t rows) {
    return make_heads_view(s.operand<T>(b), rows, heads, dim);
  };
  const auto output = make_heads_view(reinterpret_cast<T*>(s.output.data()), g.rows(), heads, dim);
  const auto logsumexp = make_matrix_view(s.logsumexp.data(), g.rows(), heads);
  const workspace scratch{s.scratch.data(), static_cast<std::size_t>(s.scratch.bytes())};
  if (k == kind::gat) {
    gat_forward_args<T, I> a;
    a.graph = g;
    a.target_score = make_matrix_view(s.operand<T>(s.receivers), g.rows(), heads);
    a.source_score = make_matrix_view(s.operand<T>(s.senders), g.columns(), heads);
    a.source = operand(s.values, g.columns());
    a.output = output;
    a.logsumexp = logsumexp;
    use([&] { check(gat_forward(s.ctx, a, scratch)); });
  } else if (k == kind::gatv2) {
    gatv2_forward_args<T, I> a;
    a.graph = g;
    a.target = operand(s.receivers, g.rows());
    a.source = operand(s.senders, g.columns());
    a.attention = make_matrix_view(s.operand<T>(s.values), heads, dim);
    a.output = output;
    a.logsumexp = logsumexp;
    use([&] { check(gatv2_forward(s.ctx, a, scratch)); });
  } else {
    transformer_forward_args<T, I> a;
    a.graph = g;
    a.query = operand(s.receivers, g.rows());
    a.key = operand(s.senders, g.columns());
    a.value = operand(s.values, g.columns());
    a.output = output;
    a.scale = 1.0f / std::sqrt(static_cast<float>(dim));
    a.logsumexp = logsumexp;
    use([&] { check(transformer_forward(s.ctx, a, scratch)); });
  }
}

template <class T>
void time_forward(benchmark::State& state, const std::string& name, kind k, int features,
                  int heads) {
  auto& s = on_stage(name);
  with_forward<T>(s, k, features, heads, [&](const auto& call) { measure(state, s, call); });
}

/// What a layer is given and gives, forward and backward, without its workspace: the graph,
/// logsumexp, and the rows of features of either side. Scores and the vector are left out.
double bytes_of_layer(const graph_view<I, I>& g, kind k, double row_bytes, std::int64_t heads) {
  const auto rows = static_cast<double>(g.rows()), columns = static_cast<double>(g.columns());
  const double ids = sizeof(I) * (3.0 * static_cast<double>(g.edges()) + rows + columns);
  const double receivers = k == kind::gat ? 2 : 4;  // output, its gradient; target, its gradient
  const double senders = k == kind::transformer ? 4 : 2;
  return ids + row_bytes * (receivers * rows + senders * columns) +
         sizeof(float) * rows * static_cast<double>(heads);
}

/// Calls use(call, workspace bytes), where call() enqueues one backward pass of what with_forward
/// leaves.
template <class T, class Use>
void with_backward(stage& s, kind k, std::int64_t features, std::int64_t heads, bool stash,
                   Use use) {
  const auto g = s.made.view();
  const auto dim = features / heads;
  const auto read = [&](const buffer<float>& b, std::int64_t rows) {
    return make_heads_view(s.operand<T>(b), rows, heads, dim);
  };
  const auto write = [&](buffer<float>& b, std::int64_t rows) {
    return make_heads_view(reinterpret_cast<T*>(b.data()), rows, heads, dim);
  };
  const auto numbers = [&](buffer<float>& b, std::int64_t rows, std::int64_t width) {
    return make_matrix_view(reinterpret_cast<T*>(b.data()), rows, width);
  };
  buffer<float> stashed;
  if (stash) stashed = check(make_device_buffer<float>(s.ctx, g.edges() * 2 * heads));
  const workspace scratch{s.scratch.data(), static_cast<std::size_t>(s.scratch.bytes())};
  const auto run = [&](auto& b, const auto& call) {
    b.graph = g;
    b.output = make_heads_view(reinterpret_cast<const T*>(s.output.data()), g.rows(), heads, dim);
    b.logsumexp = make_matrix_view<const float>(s.logsumexp.data(), g.rows(), heads);
    b.grad_output = read(s.grad_output, g.rows());
    if (stash) b.stash = make_matrix_view(stashed.data(), g.edges(), 2 * heads);
    use(call, workspace_bytes(s.ctx, b));
  };
  if (k == kind::gat) {
    gat_backward_args<T, I> b;
    b.target_score = make_matrix_view(s.operand<T>(s.receivers), g.rows(), heads);
    b.source_score = make_matrix_view(s.operand<T>(s.senders), g.columns(), heads);
    b.source = read(s.values, g.columns());
    b.grad_target_score = numbers(s.gradients[0], g.rows(), heads);
    b.grad_source_score = numbers(s.gradients[1], g.columns(), heads);
    b.grad_source = write(s.gradients[2], g.columns());
    run(b, [&] { check(gat_backward(s.ctx, b, scratch)); });
  } else if (k == kind::gatv2) {
    gatv2_backward_args<T, I> b;
    b.target = read(s.receivers, g.rows());
    b.source = read(s.senders, g.columns());
    b.attention = make_matrix_view(s.operand<T>(s.values), heads, dim);
    b.grad_target = write(s.gradients[0], g.rows());
    b.grad_source = write(s.gradients[1], g.columns());
    b.grad_attention = numbers(s.gradients[2], heads, dim);
    run(b, [&] { check(gatv2_backward(s.ctx, b, scratch)); });
  } else {
    transformer_backward_args<T, I> b;
    b.query = read(s.receivers, g.rows());
    b.key = read(s.senders, g.columns());
    b.value = read(s.values, g.columns());
    b.scale = 1.0f / std::sqrt(static_cast<float>(dim));
    b.grad_query = write(s.gradients[0], g.rows());
    b.grad_key = write(s.gradients[1], g.columns());
    b.grad_value = write(s.gradients[2], g.columns());
    run(b, [&] { check(transformer_backward(s.ctx, b, scratch)); });
  }
}

/// Forward and backward, one after the other.
template <class T>
void time_both(benchmark::State& state, const std::string& name, kind k, int features, int heads,
               bool stash) {
  auto& s = on_stage(name);
  with_forward<T>(s, k, features, heads, [&](const auto& forward) {
    with_backward<T>(s, k, features, heads, stash, [&](const auto& backward, std::size_t bytes) {
      state.counters["workspace_share"] =
          static_cast<double>(bytes) /
          bytes_of_layer(s.made.view(), k, static_cast<double>(features) * sizeof(T), heads);
      measure(state, s, [&] {
        forward();
        backward();
      });
    });
  });
}

/// Replays of a captured call on a small graph.
void time_replay(benchmark::State& state, const std::string& name, kind k, int features) {
  auto& s = on_stage(name);
  with_forward<float>(s, k, features, 1, [&](const auto& call) {
    const bench::captured_work work(s.ctx.stream, call);
    bench::device_timer timer(s.ctx);
    (void)timer.once([&] { work.replay(); });
    for (auto _ : state) {
      state.SetIterationTime(timer.once([&] { work.replay(); }) * 1e-3 / work.replays);
    }
  });
}

void time_floor(benchmark::State& state, const std::string& name, int features) {
  auto& s = on_stage(name);
  const auto& csr = s.made.view().forward.csr;
  const auto chunks = yardstick::make_chunks(check(to_host(s.ctx, csr.offsets, csr.rows + 1)));
  const auto on_device = check(to_device(s.ctx, chunks));
  measure(state, s, [&] {
    yardstick::sum_rows(features, on_device.data(), static_cast<int>(chunks.size()), csr.indices,
                        s.senders.data(), s.output.data(), csr.rows, s.ctx.stream);
  });
}

constexpr std::pair<const char*, kind> kinds[] = {
    {"gat", kind::gat}, {"gatv2", kind::gatv2}, {"transformer", kind::transformer}};

void add_graph(const std::string& g, bool is_twin) {
  const auto tail = [&](int f, const char* element, int heads) {
    return "/" + g + "/" + std::to_string(f) + "/" + element + "/h" + std::to_string(heads);
  };
  const int n = 7;
  for (const auto& [family, k] : kinds) {
    const std::string forward = std::string(family) + "_forward";
    const std::string both = std::string(family) + "_both";
    add(forward + tail(128, "f32", 1), n, time_forward<float>, g, k, 128, 1);
    add(both + tail(128, "f32", 1), n, time_both<float>, g, k, 128, 1, false);
    if (is_twin) continue;
    add(forward + tail(64, "f32", 1), n, time_forward<float>, g, k, 64, 1);
    add(forward + tail(256, "f32", 1), n, time_forward<float>, g, k, 256, 1);
    add(forward + tail(128, "f32", 4), n, time_forward<float>, g, k, 128, 4);
    add(forward + tail(128, "f32", 8), n, time_forward<float>, g, k, 128, 8);
    add(forward + tail(128, "f16", 1), n, time_forward<float16>, g, k, 128, 1);
    add(forward + tail(256, "f16", 1), n, time_forward<float16>, g, k, 256, 1);
    add(both + tail(64, "f32", 1), n, time_both<float>, g, k, 64, 1, false);
    add(both + tail(256, "f32", 1), n, time_both<float>, g, k, 256, 1, false);
    add(both + tail(128, "f32", 8), n, time_both<float>, g, k, 128, 8, false);
    add(both + tail(128, "f16", 1), n, time_both<float16>, g, k, 128, 1, false);
    add(std::string(family) + "_stash" + tail(128, "f32", 1), n, time_both<float>, g, k, 128, 1,
        true);
  }
  if (is_twin) return;
  for (const int f : {64, 128, 256}) {
    add("floor/" + g + "/" + std::to_string(f) + "/f32/h1", n, time_floor, g, f);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* g : {"roads_like", "arxiv_like", "reviews_like", "tolokers_like", "hm_like",
                        "avazu_like", "twitch_like", "web_like", "reddit_like", "products_like"}) {
    add_graph(g, false);
  }
  for (const char* g : {"avazu-ctr", "hm-categories", "twitch-views", "web-fraud"}) {
    add_graph(g, true);
    add_graph(std::string(g) + ",flat", true);
  }
  for (const auto& [family, k] : kinds) {
    add(std::string("replay_") + family + "/cora/64/f32/h1", 20, time_replay, "cora", k, 64);
  }
  return bench::run(argc, argv);
}
