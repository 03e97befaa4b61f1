// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "quipu/core/buffer.hpp"
#include "yardstick.hpp"

namespace bench {

/// A stream that does not wait for the default one, for the whole program.
inline cudaStream_t own_stream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    (void)cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return made;
  }();
  return stream;
}

/// The stage of a graph. One graph at a time lives on the device.
template <class Stage>
Stage& on_stage(const std::string& graph_name) {
  static std::unique_ptr<Stage> current;
  if (current == nullptr || current->name != graph_name) {
    current.reset();
    current = std::make_unique<Stage>(graph_name);
  }
  return *current;
}

/// A captured piece of work, to be replayed: what a launch-bound engine pays for.
class captured_work {
 public:
  template <class Work>
  captured_work(cudaStream_t stream, Work work) : stream_(stream) {
    (void)cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    work();
    (void)cudaStreamEndCapture(stream, &graph_);
    (void)cudaGraphInstantiate(&executable_, graph_, 0);
  }
  ~captured_work() {
    (void)cudaGraphExecDestroy(executable_);
    (void)cudaGraphDestroy(graph_);
  }
  captured_work(const captured_work&) = delete;
  captured_work& operator=(const captured_work&) = delete;

  /// One event pair goes around many replays: an event costs as much as the work.
  static constexpr int replays = 50;
  void replay() const {
    for (int k = 0; k < replays; ++k) (void)cudaGraphLaunch(executable_, stream_);
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

/// Times device work with events; optionally drives everything out of L2 before each run.
class device_timer {
 public:
  explicit device_timer(const quipu::context& ctx) : ctx_(ctx) {
    (void)cudaEventCreate(&begin_);
    (void)cudaEventCreate(&end_);
  }
  ~device_timer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  device_timer(const device_timer&) = delete;
  device_timer& operator=(const device_timer&) = delete;

  /// Milliseconds of one run. The stream is held while the host enqueues, so that its pace is not
  /// timed. Long runs are followed by rests: after half a minute of full load an H200 reaches its
  /// power cap, and what comes last would be timed at two thirds of the clock
  /// (docs/performance.md).
  double once(const std::function<void()>& work) {
    yardstick::hold(60, ctx_.stream);
    (void)cudaEventRecord(begin_, ctx_.stream);
    work();
    (void)cudaEventRecord(end_, ctx_.stream);
    (void)cudaEventSynchronize(end_);
    float ms = 0;
    (void)cudaEventElapsedTime(&ms, begin_, end_);
    if (ms > 1) std::this_thread::sleep_for(std::chrono::duration<float, std::milli>(2 * ms));
    return ms;
  }

  /// Median milliseconds of `repeats` runs after two that are not counted.
  double median(int repeats, const std::function<void()>& work) {
    for (int k = 0; k < 2; ++k) (void)once(work);
    std::vector<double> ms(static_cast<std::size_t>(repeats));
    for (double& m : ms) m = once(work);
    std::nth_element(ms.begin(), ms.begin() + repeats / 2, ms.end());
    return ms[static_cast<std::size_t>(repeats / 2)];
  }

  /// Times every iteration of a benchmark, after two runs that are not counted.
  template <class State>
  void measure(State& state, const std::function<void()>& work) {
    for (int k = 0; k < 2; ++k) (void)once(work);
    for (auto _ : state) state.SetIterationTime(once(work) * 1e-3);
  }

  void clear_cache() {
    if (sweep_.empty())
      sweep_ = quipu::check(quipu::make_device_buffer<char>(ctx_, 3 * ctx_.l2_bytes));
    (void)cudaMemsetAsync(sweep_.data(), 1, sweep_.bytes(), ctx_.stream);
  }

 private:
  const quipu::context ctx_;
  cudaEvent_t begin_{}, end_{};
  quipu::buffer<char> sweep_;
};

}  // namespace bench
