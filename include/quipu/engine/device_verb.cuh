// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/core/trace.hpp"
#include "quipu/engine/argument_check.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/engine/row_tuning.hpp"

namespace quipu::detail {

/// How much a program's lanes hold, which chooses its lay-outs; verbs specialise it.
template <class Program>
inline constexpr state_weight weight_of = state_weight::heavy;

/// True if every row of the matrix starts on a 16-byte border and ends with a whole vector.
template <class T>
bool on_vector_border(const matrix_view<T>& m) {
  return m.data_handle() == nullptr ||
         (reinterpret_cast<std::uintptr_t>(m.data_handle()) % 16 == 0 &&
          (m.extent(0) <= 1 || m.stride(0) * static_cast<std::int64_t>(sizeof(T)) % 16 == 0) &&
          m.extent(1) * static_cast<std::int64_t>(sizeof(T)) % 16 == 0);
}

/// Calls use.operator()<policy>() with the policy for this width.
template <class Tuning, int Index = 0, class Use>
auto with_policy(int index, Use&& use) {
  if constexpr (Index + 1 < static_cast<int>(Tuning::table.size())) {
    if (index != Index) return with_policy<Tuning, Index + 1>(index, use);
  }
  return use.template operator()<Tuning::table[Index]>();
}

/// How to store a verb's output: kept in the cache if inputs and outputs, `elements` of T in all,
/// fit it.
template <class T>
store_hint hint_for(const context& ctx, std::int64_t elements) {
  const auto bytes = elements * static_cast<std::int64_t>(sizeof(T));
  return bytes <= ctx.l2_bytes ? store_hint::keep : store_hint::stream;
}

/// Runs one program over one direction; with a counting arena it only lays scratch out.
template <class T>
struct device_run {
  const context& ctx;
  std::int64_t features;
  bool aligned;
  arena& scratch;
  bool count_only;

  template <class Program, class Rows, class I, class O>
  status operator()(Program program, const Rows& rows, const direction_view<I, O>& d) const {
    constexpr int width = 16 / static_cast<int>(sizeof(T));
    if constexpr (requires { program.hint; }) {
      program.hint = hint_for<T>(ctx, (d.csr.rows + d.csr.columns) * features);
    }
    return aligned && features % width == 0 ? run<width>(program, rows, d)
                                            : run<1>(program, rows, d);
  }

 private:
  template <int Width, class Program, class Rows, class I, class O>
  status run(const Program& program, const Rows& rows, const direction_view<I, O>& d) const {
    using tuning = row_tuning<Width, weight_of<Program>>;
    const auto degree = d.csr.rows > 0 ? d.csr.edges / d.csr.rows : 0;
    return with_policy<tuning>(tuning::choose(features, degree), [&]<engine_policy P>() {
      const auto partial = carve_partials<P, Program>(scratch, d.schedule, features);
      if (count_only) return check_launch<P>(d.schedule, partial);
      return traverse<P>(ctx, program, rows, d, features, partial);
    });
  }
};

/// Shared frame of the verbs. A body lays scratch out and, unless it only counts, enqueues; it runs
/// once to count, so that a workspace too small is told before anything is written.
template <class Body>
std::size_t count_bytes(Body body) {
  arena counting;
  (void)body(counting, true);
  return counting.bytes();
}
template <class Check, class Body>
status run_verb(const context& ctx, workspace w, const char* name, Check check_arguments,
                Body body) {
  const trace_range range(name);
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_arguments(); !s.ok()) return s;
  arena scratch(w);
  if (auto s = body(scratch, true); !s.ok()) return s;
  if (auto s = scratch.fits(); !s.ok()) return s;
  if (auto s = check_device_pointer(w.data, static_cast<std::int64_t>(scratch.bytes()),
                                    "workspace: not memory of the context's device", ctx.device);
      !s.ok()) {
    return s;
  }
  scratch = arena(w);
  return body(scratch, false);
}

}  // namespace quipu::detail
