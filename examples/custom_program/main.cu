// SPDX-License-Identifier: Apache-2.0
// A layer of one's own: log-sum-exp pooling, which quipu does not have. The one program in
// logsumexp_pool.hpp runs on the host and, where there is one, on a GPU; both are held against a
// loop in double.
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "logsumexp_pool.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/engine/host_engine.hpp"
#include "quipu/graph/make_graph.hpp"

namespace {

using direction = quipu::direction_view<std::int32_t>;
using rows_of_floats = quipu::dense_rows<float>;

constexpr std::int64_t nodes = 1000;
constexpr std::int64_t features = 32;

/// Row 0 receives from every node, the last row from none, every other row from three nodes.
quipu::graph<std::int32_t> make_hub() {
  std::vector<std::int32_t> row, column;
  const auto add = [&](std::int64_t to, std::int64_t from) {
    row.push_back(static_cast<std::int32_t>(to));
    column.push_back(static_cast<std::int32_t>(from % nodes));
  };
  for (std::int64_t i = 0; i < nodes; ++i) add(0, i);
  for (std::int64_t i = 1; i + 1 < nodes; ++i) {
    for (const std::int64_t step : {1, 7, 40}) add(i, i + step);
  }
  const auto edges = static_cast<std::int64_t>(row.size());
  const quipu::coo_view<std::int32_t> list{nodes, nodes, edges, row.data(), column.data()};
  return quipu::check(quipu::make_graph<std::int32_t, std::int32_t>(quipu::host_context{}, list));
}

/// Values of both signs, up to 100: exp overflows a float beyond 88.
std::vector<float> make_input() {
  std::vector<float> x(nodes * features);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k * 7919 % 2001) / 10 - 100;
  return x;
}

std::vector<double> pool_in_double(const direction& graph, const std::vector<float>& x) {
  std::vector<double> y(nodes * features);
  for (std::int64_t i = 0; i < nodes; ++i) {
    for (std::int64_t f = 0; f < features; ++f) {
      double sum = 0;
      for (auto k = graph.csr.offsets[i]; k < graph.csr.offsets[i + 1]; ++k) {
        sum += std::exp(static_cast<double>(x[graph.csr.indices[k] * features + f]));
      }
      y[i * features + f] = std::log(sum);
    }
  }
  return y;
}

/// An addition for each edge may round, and the result does; 16 covers exp and log.
bool agree(const char* where, const direction& graph, const std::vector<double>& want,
           const std::vector<float>& got) {
  double worst = 0;  // difference as a share of what is allowed
  for (std::int64_t i = 0; i < nodes; ++i) {
    const double degree = graph.csr.offsets[i + 1] - graph.csr.offsets[i];
    for (std::int64_t k = i * features; k < (i + 1) * features; ++k) {
      if (got[k] == want[k]) continue;  // -inf too
      const double allowed =
          (degree + 16 + std::fabs(want[k])) * std::numeric_limits<float>::epsilon();
      const double share = std::fabs(got[k] - want[k]) / allowed;
      worst = share <= worst ? worst : share;  // NaN stays
    }
  }
  const bool good = worst <= 1;
  std::printf("%s: %s, largest error %.2f of the bound\n", where, good ? "agrees" : "DIFFERS",
              worst);
  return good;
}

std::vector<float> pool_on_host(const direction& graph, const std::vector<float>& x) {
  std::vector<float> y(nodes * features);
  // [doc: host]
  const logsumexp_pool<float> program{y.data(), features};
  const rows_of_floats rows(quipu::make_matrix_view(x.data(), nodes, features));
  constexpr int edges_at_once = 2;
  quipu::check(
      quipu::traverse<edges_at_once>(quipu::host_context{}, program, rows, graph, features));
  // [doc end]
  return y;
}

// [doc: device]
// 8 lanes of 4 floats cover the 32 features of a row; 4 edges of it are in flight.
constexpr quipu::engine_policy policy{
    .lanes = 8, .vectors = 1, .width = 4, .unroll = 4, .threads = 128};

auto carve(quipu::arena& scratch, const direction& graph) {
  return quipu::carve_partials<policy, logsumexp_pool<float>>(scratch, graph.schedule, features);
}

std::size_t pool_bytes(const direction& graph) {
  quipu::arena counting;
  carve(counting, graph);
  return counting.bytes();
}

quipu::status pool(const quipu::context& ctx, const direction& graph, const rows_of_floats& rows,
                   float* output, quipu::workspace space) {
  quipu::arena scratch(space);
  const auto partial = carve(scratch, graph);
  if (auto s = scratch.fits(); !s.ok()) return s;
  const logsumexp_pool<float> program{output, features};
  return quipu::traverse<policy>(ctx, program, rows, graph, features, partial);
}
// [doc end]

std::vector<float> pool_on_device(const quipu::context& ctx,
                                  const quipu::graph<std::int32_t>& on_host,
                                  const std::vector<float>& x) {
  const auto graph = quipu::check(quipu::to_device(ctx, on_host));
  const auto direction = graph.view().forward;
  const auto input = quipu::check(quipu::to_device(ctx, x));
  auto output = quipu::check(quipu::make_device_buffer<float>(ctx, nodes * features));
  const auto bytes = pool_bytes(direction);
  auto scratch =
      quipu::check(quipu::make_device_buffer<std::byte>(ctx, static_cast<std::int64_t>(bytes)));
  const rows_of_floats rows(quipu::make_matrix_view(input.data(), nodes, features));
  quipu::check(pool(ctx, direction, rows, output.data(), {scratch.data(), bytes}));
  return quipu::check(quipu::to_host(ctx, output));
}

int run() {
  const auto graph = make_hub();
  const auto forward = graph.view().forward;
  const auto x = make_input();
  const auto want = pool_in_double(forward, x);
  std::printf("graph: %lld rows, of which %lld split into %lld slices\n",
              static_cast<long long>(nodes),
              static_cast<long long>(forward.schedule.split_row_count()),
              static_cast<long long>(forward.schedule.split_slice_count()));
  bool good = agree("host", forward, want, pool_on_host(forward, x));
  const auto ctx = quipu::make_context(cudaStreamPerThread);
  if (ctx.ok()) {
    good = agree("device", forward, want, pool_on_device(*ctx, graph, x)) && good;
  } else if (ctx.error().code == quipu::status_code::no_device) {
    std::printf("device: skipped, %s\n", ctx.error().message);
  } else {
    std::printf("device: %s\n", quipu::describe(ctx.error()).c_str());
    good = false;
  }
  return good ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const quipu::error& e) {
    std::fprintf(stderr, "custom_program: %s\n", e.what());
    return 2;
  }
}
