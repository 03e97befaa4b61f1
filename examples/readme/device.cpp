// SPDX-License-Identifier: Apache-2.0
// What documents say about devices, as one program: a maximum, its gradient, and a captured replay.
// Ends with 77 (skipped) where there is no GPU.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <vector>

#include "quipu/core/buffer.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/reduce/aggregate.hpp"

namespace {

using quipu::check;
using std::int32_t;

quipu::buffer<std::byte> make_scratch(const quipu::context& ctx, std::size_t bytes) {
  return check(quipu::make_device_buffer<std::byte>(ctx, static_cast<std::int64_t>(bytes)));
}

int run(const quipu::context& ctx) {
  const std::vector<int32_t> row{0, 0, 2, 2, 2}, column{1, 2, 0, 1, 3};
  const std::vector<float> x{1, 8, 2, 7, 3, 6, 4, 5}, dy(8, 1.0f);
  // [doc: to_device]
  const auto on_device_row = check(quipu::to_device(ctx, row));
  const auto on_device_column = check(quipu::to_device(ctx, column));
  const quipu::coo_view<int32_t> edges{4, 4, 5, on_device_row.data(), on_device_column.data()};
  const auto graph = check(quipu::make_graph<int32_t, int32_t>(ctx, edges));

  const auto input = check(quipu::to_device(ctx, x));
  auto output = check(quipu::make_device_buffer<float>(ctx, 8));
  auto winners = check(quipu::make_device_buffer<std::byte>(
      ctx, static_cast<std::int64_t>(quipu::argument_bytes(graph.view(), 2))));
  // [doc end]

  // [doc: verb]
  quipu::aggregate_args<float, int32_t> args;
  args.graph = graph.view();
  args.input = quipu::make_matrix_view(input.data(), 4, 2);
  args.output = quipu::make_matrix_view(output.data(), 4, 2);
  args.argument = quipu::make_argument_view(graph.view(), winners.data(), 2);
  args.op = quipu::reduce::max;

  auto scratch = make_scratch(ctx, quipu::workspace_bytes(ctx, args));
  check(quipu::aggregate(ctx, args, {scratch.data(), scratch.bytes()}));
  const std::vector<float> y = check(quipu::to_host(ctx, output));  // waits
  // [doc end]

  // [doc: backward]
  const auto gradient = check(quipu::to_device(ctx, dy));
  auto grad_input = check(quipu::make_device_buffer<float>(ctx, 8));
  quipu::aggregate_backward_args<float, int32_t> back;
  back.graph = graph.view();
  back.grad_output = quipu::make_matrix_view<const float>(gradient.data(), 4, 2);
  back.grad_input = quipu::make_matrix_view(grad_input.data(), 4, 2);
  back.argument = args.argument;  // what aggregate wrote
  back.op = quipu::reduce::max;
  auto more = make_scratch(ctx, quipu::workspace_bytes(ctx, back));
  check(quipu::aggregate_backward(ctx, back, {more.data(), more.bytes()}));
  // [doc end]

  // [doc: capture]
  cudaGraph_t recorded = nullptr;
  check(quipu::from_cuda(cudaStreamBeginCapture(ctx.stream, cudaStreamCaptureModeGlobal), "begin"));
  check(quipu::aggregate(ctx, args, {scratch.data(), scratch.bytes()}));
  check(quipu::aggregate_backward(ctx, back, {more.data(), more.bytes()}));
  check(quipu::from_cuda(cudaStreamEndCapture(ctx.stream, &recorded), "end"));
  // [doc end]
  cudaGraphExec_t replay = nullptr;
  check(quipu::from_cuda(cudaGraphInstantiate(&replay, recorded, 0), "instantiate"));
  check(quipu::from_cuda(cudaGraphLaunch(replay, ctx.stream), "launch"));
  const std::vector<float> dx = check(quipu::to_host(ctx, grad_input));
  (void)cudaGraphExecDestroy(replay);
  (void)cudaGraphDestroy(recorded);

  for (std::size_t i = 0; i < 4; ++i) {
    std::printf("node %zu: %g %g, gradient %g %g\n", i, y[2 * i], y[2 * i + 1], dx[2 * i],
                dx[2 * i + 1]);
  }
  const std::vector<float> want_y{3, 7, 0, 0, 4, 8, 0, 0}, want_dx{0, 1, 0, 1, 1, 0, 1, 0};
  return y == want_y && dx == want_dx ? 0 : 1;
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return 77;
  // [doc: context]
  const auto ctx = quipu::make_context(stream);
  if (!ctx) {
    std::printf("%s\n", quipu::describe(ctx.error()).c_str());
    return 77;
  }
  // [doc end]
  int code = 2;
  try {
    code = run(*ctx);
  } catch (const quipu::error& e) {
    std::fprintf(stderr, "readme_device: %s\n", e.what());
  }
  (void)cudaStreamDestroy(stream);
  return code;
}
