// SPDX-License-Identifier: Apache-2.0
// Sweeps lay-outs of the sum program: lanes x vectors, unroll, block size, slice length, visit
// order. What it prints is where the rows of engine/row_tuning.hpp come from.
//   quipu_tune_sum [--lengths] GRAPH...    --lengths: every slice length and visit order too
#include <cstdio>
#include <string>

#include "quipu/core/dispatch.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/io/synthetic.hpp"
#include "quipu/reduce/detail/aggregate_program.hpp"
#include "timing.hpp"
#include "yardstick.hpp"

namespace {

using namespace quipu;
using bench::device_timer;

struct setting {
  const context& ctx;
  device_timer& timer;
  const graph_view<std::int32_t, std::int32_t>& graph;
  const void* x;
  void* y;
  void* winners;
  int repeats;
  double floor_ms;
  const char* schedule;
};

/// The programs that are tuned: the sum, and max with its winners.
template <class T>
using sum_of = detail::reduce_sum_program<T, unit_factor>;
template <class T>
auto make_program(const setting& s, std::int64_t features, type_tag<sum_of<T>>) {
  return sum_of<T>{static_cast<T*>(s.y), features, {}, {reduce::sum}, store_hint::stream};
}
template <class T>
auto make_program(const setting& s, std::int64_t features,
                  type_tag<detail::extremum_program<T, std::int32_t, extremum::max>>) {
  return detail::extremum_program<T, std::int32_t, extremum::max>{
      static_cast<T*>(s.y),
      features,
      make_argument_view(s.graph, s.winners, features),
      {static_cast<const T*>(s.x), features, s.graph.forward.csr.indices},
      store_hint::stream};
}

template <engine_policy P, class T, class program_type>
void time_policy(const setting& s, std::int64_t features, double& best, std::string& line) {
  const auto program = make_program(s, features, type_tag<program_type>{});
  dense_rows<T> rows;
  rows.data = static_cast<const T*>(s.x);
  rows.row_stride = features;
  arena counting;
  (void)carve_partials<P, program_type>(counting, s.graph.forward.schedule, features);
  static buffer<char> space;
  if (space.size() < static_cast<std::int64_t>(counting.bytes())) {
    space = check(make_device_buffer<char>(s.ctx, static_cast<std::int64_t>(counting.bytes())));
  }
  arena bound({space.data(), space.bytes()});
  const auto partial = carve_partials<P, program_type>(bound, s.graph.forward.schedule, features);
  const double ms = s.timer.median(s.repeats, [&] {
    check(traverse<P>(s.ctx, program, rows, s.graph.forward, features, partial));
  });
  if (ms >= best) return;
  best = ms;
  char text[160];
  std::snprintf(text, sizeof text, "%8.4f ms %5.3f floor  %2dx%d u%d t%d", ms, ms / s.floor_ms,
                P.lanes, P.vectors, P.unroll, P.threads);
  line = text;
}

/// All block sizes and unrolls of one shape; the best line wins.
template <class T, class Program, int Lanes, int Vectors, int... Unrolls>
void time_program(const setting& s, std::int64_t features, const char* name) {
  constexpr int width = 16 / static_cast<int>(sizeof(T));
  double best = 1e9;
  std::string line;
  (time_policy<engine_policy{Lanes, Vectors, width, Unrolls, 128}, T, Program>(s, features, best,
                                                                               line),
   ...);
  (time_policy<engine_policy{Lanes, Vectors, width, Unrolls, 256}, T, Program>(s, features, best,
                                                                               line),
   ...);
  std::printf("    %-4s %-4s F=%-4d %-14s %s\n", name, sizeof(T) == 4 ? "f32" : "f16",
              static_cast<int>(features), s.schedule, line.c_str());
}
template <class T, int Lanes, int Vectors, int... Unrolls>
void time_shape(const setting& s, std::int64_t features) {
  time_program<T, sum_of<T>, Lanes, Vectors, Unrolls...>(s, features, "sum");
}
template <int Lanes, int Vectors, int... Unrolls>
void time_max(const setting& s, std::int64_t features) {
  using program = detail::extremum_program<float, std::int32_t, extremum::max>;
  time_program<float, program, Lanes, Vectors, Unrolls...>(s, features, "max");
}
double floor_of(const context& ctx, device_timer& timer,
                const graph_view<std::int32_t, std::int32_t>& g, const float* x, float* y,
                int features, int repeats) {
  const auto offsets = check(to_host(ctx, g.forward.csr.offsets, g.rows() + 1));
  const auto chunks = yardstick::make_chunks(offsets);
  const auto device_chunks = check(to_device(ctx, chunks));
  const auto count = static_cast<int>(chunks.size());
  return timer.median(repeats, [&] {
    yardstick::sum_rows(features, device_chunks.data(), count, g.forward.csr.indices, x, y,
                        g.rows(), ctx.stream);
  });
}

void tune(const context& ctx, device_timer& timer, const std::string& name, bool all_lengths) {
  const auto request = check(parse_synthetic(name));
  graph_options options;
  options.reverse = edge_option::keep;
  double floors[3] = {0, 0, 0};
  const bool large = request.shape.edges > 10'000'000;
  const int repeats = large ? 5 : 15;
  buffer<float> x, y;
  buffer<unsigned char> winners;
  const std::vector<std::int32_t> lengths =
      all_lengths ? std::vector<std::int32_t>{32, 64, 128, 256, 512, 1024, 2048}
                  : std::vector<std::int32_t>{0};
  for (const std::int32_t slice : lengths) {
    for (const auto order : {visit_order::natural, visit_order::grouped}) {
      if (!all_lengths && order == visit_order::natural) continue;
      options.schedule = {slice, order};
      const auto graph = check(make_synthetic(ctx, request, options));
      const auto g = graph.view();
      if (x.empty()) {
        std::vector<float> values(static_cast<std::size_t>(g.columns() * 256));
        std::uint32_t state = 1;
        for (float& v : values)
          v = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 1e-7f - 0.8f;
        x = check(to_device(ctx, values));
        y = check(make_device_buffer<float>(ctx, g.rows() * 256));
        winners = check(make_device_buffer<unsigned char>(
            ctx, static_cast<std::int64_t>(argument_bytes(g, 128))));
        std::printf("%s rows %lld edges %lld max %lld\n", name.c_str(),
                    static_cast<long long>(g.rows()), static_cast<long long>(g.edges()),
                    static_cast<long long>(g.forward.degrees.max_degree));
        for (int i = 0; i < 3; ++i) {
          floors[i] = floor_of(ctx, timer, g, x.data(), y.data(), 64 << i, repeats);
          std::printf("    floor F=%-4d %8.4f ms\n", 64 << i, floors[i]);
        }
      }
      const std::string label =
          std::to_string(slice) + (order == visit_order::natural ? " natural" : " grouped");
      const setting base{ctx,       timer,        g, x.data(), y.data(), winners.data(), repeats,
                         floors[0], label.c_str()};
      auto s64 = base, s128 = base, s256 = base;
      s128.floor_ms = floors[1];
      s256.floor_ms = floors[2];
      time_shape<float, 16, 1, 4, 8>(s64, 64);
      time_shape<float, 8, 2, 2, 4>(s64, 64);
      time_shape<float, 32, 1, 4, 8>(s128, 128);
      time_shape<float, 16, 2, 2, 4>(s128, 128);
      time_shape<float16, 16, 1, 4, 8>(s128, 128);
      time_shape<float, 32, 2, 2>(s256, 256);
      time_shape<float, 32, 2, 4>(s256, 256);
      time_shape<float, 32, 1, 4, 8>(s256, 256);
      time_max<32, 1, 4>(s128, 128);
      time_max<32, 1, 8>(s128, 128);
      time_max<16, 2, 2>(s128, 128);
      time_max<16, 2, 4>(s128, 128);
      time_max<16, 1, 4>(s128, 128);
      time_max<16, 1, 8>(s128, 128);
    }
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  cudaStream_t stream = nullptr;
  (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  const auto ctx = check(make_context(stream));
  device_timer timer(ctx);
  const bool all = argc > 1 && std::string(argv[1]) == "--lengths";
  for (int i = all ? 2 : 1; i < argc; ++i) tune(ctx, timer, argv[i], all);
  return 0;
}
