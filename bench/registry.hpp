// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <string>

namespace bench {

/// Registers a case that sets its own iteration times (see `device_timer`), in milliseconds.
template <class Function, class... Args>
void add(const std::string& name, int iterations, Function f, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { f(state, args...); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(iterations);
}

inline int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace bench
