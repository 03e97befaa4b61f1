// SPDX-License-Identifier: Apache-2.0
// Order on streams, lifetimes, leaks, several devices.
#include <chrono>
#include <thread>

#include "quipu/reduce/aggregate.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"
#include "support/random_graph.hpp"

using namespace quipu;

namespace {

constexpr std::int64_t width = 64;

void hold(cudaStream_t stream, int milliseconds) {
  static int wait;
  wait = milliseconds;
  check(from_cuda(cudaLaunchHostFunc(
                      stream,
                      [](void* ms) {
                        std::this_thread::sleep_for(
                            std::chrono::milliseconds(*static_cast<int*>(ms)));
                      },
                      &wait),
                  "host function"));
}

struct sum_setup {
  explicit sum_setup(const context& where) : ctx(where) {
    const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
    made = check(to_device(ctx, check(make_graph<std::int32_t, std::int32_t>(
                                    host_context{1}, stored.view(), test::small_slices()))));
    input = check(
        to_device(ctx, std::vector<float>(static_cast<std::size_t>(truth.columns * width), -1.0f)));
    output = check(make_device_buffer<float>(ctx, truth.rows * width));
    a.graph = made.view();
    a.input = make_matrix_view<const float>(input.data(), truth.columns, width);
    a.output = make_matrix_view(output.data(), truth.rows, width);
    space =
        check(make_device_buffer<char>(ctx, static_cast<std::int64_t>(workspace_bytes(ctx, a))));
  }
  workspace scratch() { return {space.data(), space.bytes()}; }

  context ctx;
  oracle::graph truth = test::random_graph(85, 300, 200, 7, 500);
  graph<std::int32_t, std::int32_t> made;
  buffer<float> input, output;
  buffer<char> space;
  aggregate_args<float, std::int32_t> a;
};

}  // namespace

TEST_CASE("work is ordered behind the producer on its own stream") {  // X05
  const test::own_stream stream;
  sum_setup s(check(make_context(stream.get())));
  const auto x = test::random_matrix(86, s.truth.columns, width, test::filling::integers);
  auto fresh = check(make_pinned_buffer<float>(s.ctx, s.truth.columns * width));
  for (std::int64_t k = 0; k < fresh.size(); ++k) fresh.data()[k] = static_cast<float>(x.values[k]);
  hold(stream.get(), 100);
  (void)cudaMemcpyAsync(s.input.data(), fresh.data(), fresh.bytes(), cudaMemcpyDefault,
                        stream.get());
  check(aggregate(s.ctx, s.a, s.scratch()));
  check(synchronize(s.ctx));
  const auto got = check(to_host(s.ctx, s.output));
  const auto want = oracle::sum(s.truth, x);
  bool same = true;
  for (std::size_t k = 0; k < got.size(); ++k) same &= got[k] == want.values[k];
  REQUIRE(same);
}

TEST_CASE("a graph may go while its last call is still under way") {  // X13
  const test::own_stream stream;
  const auto ctx = check(make_context(stream.get()));
  auto s = std::make_unique<sum_setup>(ctx);
  auto result = std::move(s->output);
  hold(stream.get(), 100);
  check(aggregate(s->ctx, s->a, s->scratch()));
  const auto want = oracle::sum(s->truth, oracle::matrix(s->truth.columns, width, -1.0));
  s.reset();
  check(synchronize(ctx));
  const auto got = check(to_host(ctx, result));
  bool same = true;
  for (std::size_t k = 0; k < got.size(); ++k) same &= got[k] == want.values[k];
  REQUIRE(same);
}

TEST_CASE("making and dropping graphs leaks nothing", "[slow]") {  // X11
  const auto ctx = test::device_context();
  const auto truth = test::random_graph(87, 100, 100, 5, 200);
  const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
  const auto offsets = check(to_device(ctx, stored.offsets));
  const auto indices = check(to_device(ctx, stored.indices));
  auto csr = stored.view();
  csr.offsets = offsets.data();
  csr.indices = indices.data();
  const auto free_bytes = [] {
    std::size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    return static_cast<double>(free);
  };
  double at_start = 0;
  for (int k = 0; k < 600; ++k) {
    const auto made = check(make_graph<std::int32_t, std::int32_t>(ctx, csr, test::small_slices()));
    if (k == 100) at_start = free_bytes();
  }
  check(synchronize(ctx));
  REQUIRE(at_start - free_bytes() < 1 << 20);
}

TEST_CASE("a context of another device leaves the current device alone") {  // X01, X03
  int devices = 0;
  (void)cudaGetDeviceCount(&devices);
  if (devices < 2) {
    WARN("skipped: one GPU only");
    return;
  }
  (void)cudaSetDevice(1);
  const test::own_stream stream;
  (void)cudaSetDevice(0);
  sum_setup s(check(make_context(stream.get(), 1)));
  check(aggregate(s.ctx, s.a, s.scratch()));
  check(synchronize(s.ctx));
  int current = -1;
  (void)cudaGetDevice(&current);
  REQUIRE(current == 0);
  cudaPointerAttributes attributes{};
  (void)cudaPointerGetAttributes(&attributes, s.made.view().forward.csr.indices);
  REQUIRE(attributes.device == 1);
  const auto got = check(to_host(s.ctx, s.output));
  const auto want = oracle::sum(s.truth, oracle::matrix(s.truth.columns, width, -1.0));
  bool same = true;
  for (std::size_t k = 0; k < got.size(); ++k) same &= got[k] == want.values[k];
  REQUIRE(same);
}
