// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "options.hpp"
#include "quipu/core/buffer.hpp"
#include "quipu/graph/make_graph.hpp"

// One piece of code serves both executors: these overloads hide where arrays lie.
namespace quipu::cli {

/// A stream, or an event, for the length of a scope.
class stream_owner {
 public:
  stream_owner() {
    require("stream",
            from_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "CUDA"));
  }
  stream_owner(const stream_owner&) = delete;
  stream_owner& operator=(const stream_owner&) = delete;
  ~stream_owner() { (void)cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class event_owner {
 public:
  event_owner() { require("event", from_cuda(cudaEventCreate(&event_), "CUDA")); }
  event_owner(const event_owner&) = delete;
  event_owner& operator=(const event_owner&) = delete;
  ~event_owner() { (void)cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Calls `work(executor, name)` with a context or a host_context.
template <class Work>
void on_chosen_device(const run_options& options, Work&& work) {
  const host_context host{options.threads};
  if (options.device == device_choice::host) return work(host, std::string("host"));
  const auto found = make_context(cudaStreamPerThread);  // its own stream follows
  if (!found.ok() && found.error().code == status_code::no_device) {
    if (options.device == device_choice::cuda) throw bad_input("--device: no usable GPU");
    return work(host, std::string("host (no usable GPU)"));
  }
  require("--device", found.error());
  cudaDeviceProp properties{};
  require("--device", from_cuda(cudaGetDeviceProperties(&properties, found->device), "CUDA"));
  const stream_owner stream;
  work(found->on(stream.get()), std::string(properties.name));
}

template <class T>
buffer<T> place(const context& ctx, const std::vector<T>& values) {
  return require("arrays", to_device(ctx, values));
}
template <class T>
buffer<T> place(const host_context&, const std::vector<T>& values) {
  auto b = require("arrays", make_host_buffer<T>(static_cast<std::int64_t>(values.size())));
  if (!values.empty()) std::memcpy(b.data(), values.data(), b.bytes());
  return b;
}

template <class T>
buffer<T> make_buffer(const context& ctx, std::int64_t size) {
  return require("arrays", make_device_buffer<T>(ctx, size));
}
template <class T>
buffer<T> make_buffer(const host_context&, std::int64_t size) {
  return require("arrays", make_host_buffer<T>(size));
}

template <class T>
std::vector<T> fetch(const context& ctx, const buffer<T>& b) {
  return require("arrays", to_host(ctx, b));
}
template <class T>
std::vector<T> fetch(const host_context&, const buffer<T>& b) {
  return std::vector<T>(b.data(), b.data() + b.size());
}

template <class I, class O>
graph<I, O> fetch(const context& ctx, const graph<I, O>& g) {
  return require("graph", to_host(ctx, g));
}
template <class I, class O>
graph<I, O> fetch(const host_context&, graph<I, O>& g) {
  return std::move(g);
}

/// Milliseconds that one call takes on its executor.
template <class Call>
double time_once(const context& ctx, Call&& call) {
  const event_owner begin, end;
  require("timing", from_cuda(cudaEventRecord(begin.get(), ctx.stream), "CUDA"));
  call();
  require("timing", from_cuda(cudaEventRecord(end.get(), ctx.stream), "CUDA"));
  require("timing", from_cuda(cudaEventSynchronize(end.get()), "CUDA"));
  float milliseconds = 0;
  require("timing", from_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "CUDA"));
  return static_cast<double>(milliseconds);
}
template <class Call>
double time_once(const host_context&, Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  return spent.count();
}

}  // namespace quipu::cli
