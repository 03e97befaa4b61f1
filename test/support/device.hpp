// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "quipu/core/buffer.hpp"
#include "quipu/core/context.hpp"
#include "quipu/core/workspace.hpp"

namespace test {

/// A non-blocking stream of its own for as long as it lives.
class own_stream {
 public:
  own_stream() {
    quipu::check(quipu::from_cuda(cudaStreamCreateWithFlags(&s_, cudaStreamNonBlocking), "stream"));
  }
  ~own_stream() { (void)cudaStreamDestroy(s_); }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  cudaStream_t get() const { return s_; }

 private:
  cudaStream_t s_ = nullptr;
};

/// Work on one stream that all device tests share. Programs with device tests end early without a
/// GPU.
inline quipu::context device_context() {
  static own_stream stream;
  return quipu::check(quipu::make_context(stream.get()));
}

enum class run_mode { eager, second_stream, captured };
inline constexpr run_mode run_modes[] = {run_mode::eager, run_mode::second_stream,
                                         run_mode::captured};

/// Runs device work in one mode: at once; on another stream; or captured in global mode, where any
/// hidden allocation or synchronisation fails, and replayed twice. `poison` spoils the outputs
/// before every run, so that an element that is not written shows.
inline void run(const quipu::context& ctx, run_mode mode,
                const std::function<void(const quipu::context&)>& poison,
                const std::function<quipu::status(const quipu::context&)>& work) {
  using quipu::check;
  using quipu::from_cuda;
  check(quipu::synchronize(ctx));
  if (mode == run_mode::eager) {
    poison(ctx);
    check(work(ctx));
    check(quipu::synchronize(ctx));
    return;
  }
  own_stream other;
  const auto there = ctx.on(other.get());
  if (mode == run_mode::second_stream) {
    poison(there);
    check(work(there));
    check(quipu::synchronize(there));
    return;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(
      from_cuda(cudaStreamBeginCapture(other.get(), cudaStreamCaptureModeGlobal), "begin capture"));
  const auto outcome = work(there);
  check(from_cuda(cudaStreamEndCapture(other.get(), &graph), "end capture"));
  check(outcome);
  check(from_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate"));
  for (int replay = 0; replay < 2; ++replay) {
    poison(there);
    check(from_cuda(cudaGraphLaunch(executable, other.get()), "replay"));
    check(quipu::synchronize(there));
  }
  (void)cudaGraphExecDestroy(executable);
  (void)cudaGraphDestroy(graph);
}

/// Workspace of exactly the size asked for, with a guard behind it that must stay as it was.
class guarded_workspace {
 public:
  guarded_workspace(const quipu::context& ctx, std::size_t bytes)
      : bytes_(bytes),
        memory_(quipu::check(quipu::make_device_buffer<unsigned char>(
            ctx, static_cast<std::int64_t>(bytes + guard)))) {
    (void)cudaMemset(memory_.data(), 0xa5, bytes + guard);
    (void)cudaDeviceSynchronize();  // the tests' streams do not wait for the default one
  }
  quipu::workspace get() { return {bytes_ == 0 ? nullptr : memory_.data(), bytes_}; }
  bool intact() const {
    std::vector<unsigned char> tail(guard);
    (void)cudaMemcpy(tail.data(), memory_.data() + bytes_, guard, cudaMemcpyDeviceToHost);
    for (auto b : tail) {
      if (b != 0xa5) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t guard = 256;
  std::size_t bytes_;
  quipu::buffer<unsigned char> memory_;
};

}  // namespace test
