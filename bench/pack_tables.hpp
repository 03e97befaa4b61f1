// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tables that packing is measured on, and what is said of their packings.

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

#include "pack_yardstick.hpp"
#include "quipu/core/buffer.hpp"
#include "quipu/pack/packed_table.hpp"
#include "quipu/pack/profile.hpp"
#include "registry.hpp"

namespace bench {

using namespace quipu;

constexpr std::int64_t megabyte = std::int64_t{1} << 20;

struct table_kind {
  const char* name;
  yardstick::numbers numbers;
  number_format format;
};
inline constexpr table_kind table_kinds[] = {
    {"bf16_normal", yardstick::numbers::normal, number_format::bfloat16},
    {"f32_normal", yardstick::numbers::small_normal, number_format::float32},
    {"f32_relu", yardstick::numbers::relu, number_format::float32},
    {"f32_ones", yardstick::numbers::ones, number_format::float32},
    {"f32_once_f16", yardstick::numbers::once_fp16, number_format::float32}};

inline const table_kind& kind_of(const std::string& table_name) {
  for (const auto& k : table_kinds) {
    if (table_name.substr(0, table_name.find('/')) == k.name) return k;
  }
  throw std::invalid_argument("no such table");
}

/// A table called kind/width, in pinned memory and on the device.
struct drawn_table {
  drawn_table(const context& ctx, const std::string& name, std::int64_t wanted_bytes)
      : kind(kind_of(name)),
        width(std::stoll(name.substr(name.find('/') + 1))),
        element_bytes(kind.format == number_format::bfloat16 ? 2 : 4),
        rows(wanted_bytes / row_bytes()) {
    device = check(make_device_buffer<std::byte>(ctx, bytes()));
    host = check(make_pinned_buffer<std::byte>(ctx, bytes()));
    constexpr std::uint64_t seed = 7;
    if (kind.format == number_format::bfloat16) {
      yardstick::fill_numbers(kind.numbers, reinterpret_cast<bfloat16*>(device.data()),
                              rows * width, seed, ctx.stream);
    } else {
      yardstick::fill_numbers(kind.numbers, reinterpret_cast<float*>(device.data()), rows * width,
                              seed, ctx.stream);
    }
    check(detail::copy_bytes(ctx, host.data(), device.data(), host.bytes()));
    profile = check(make_profile(host_context{0}, on_host()));
  }
  std::int64_t row_bytes() const { return width * element_bytes; }
  std::int64_t bytes() const { return rows * row_bytes(); }

  /// Rows of this shape that lie elsewhere.
  mutable_table_view rows_at(std::byte* data, std::int64_t count) const {
    return {data, count, width, element_bytes, row_bytes(), kind.format};
  }
  table_view on_host() { return rows_at(host.data(), rows); }
  table_view on_device() { return rows_at(device.data(), rows); }
  table_view beginning() { return rows_at(host.data(), 64 * megabyte / row_bytes()); }

  const table_kind& kind;
  std::int64_t width;
  std::int32_t element_bytes;
  std::int64_t rows;
  buffer<std::byte> device, host;
  table_profile profile;
};

inline std::string label_of(const packing& p) {
  const std::string name = name_of(p.how);
  return p.how == codec::exponent ? name + std::to_string(p.exponent.code_bits) : name;
}

/// `label`: of a packing of the profile, or "link", what is picked for one.
inline packing_estimate estimate_of(const table_profile& profile, const std::string& label) {
  if (label == "link") return choose_packing(profile, packing_goal::link);
  for (const auto& e : profile.packings) {
    if (label_of(e.how) == label) return e;
  }
  throw std::invalid_argument("the profile has no such packing");
}

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Rows packed on the host, moved to where a case reads them.
struct packed_rows {
  packed_rows(const context& ctx, drawn_table& t, const std::string& label, bool pinned)
      : estimate(estimate_of(t.profile, label)) {
    packed_options options;
    options.growth = expansion::allow;
    packed_table made;
    pack_seconds = seconds_of(
        [&] { made = check(make_packed(host_context{0}, t.on_host(), estimate.how, options)); });
    used = static_cast<double>(*made.view().used);
    stored = static_cast<double>(made.view().stored_bytes());
    table = check(pinned ? to_pinned(ctx, made.view()) : to_device(ctx, made.view()));
  }
  packing_estimate estimate;
  packed_table table;
  double pack_seconds = 0;
  double stored = 0, used = 0;  // bytes, with and without addresses
};

inline bool is_picked(const table_profile& profile, const packing_estimate& e, packing_goal goal) {
  return label_of(choose_packing(profile, goal).how) == label_of(e.how);
}

/// Which packing a case is about, for bench/pack_summary.py.
inline void tell_picks(benchmark::State& state, const table_profile& profile,
                       const packing_estimate& e) {
  state.counters["picked_smallest"] = is_picked(profile, e, packing_goal::smallest);
  state.counters["picked_memory"] = is_picked(profile, e, packing_goal::memory);
}

/// A case that throws is one that failed; the others go on.
template <class Function, class... Args>
void add_case(const std::string& name, int iterations, Function f, Args... args) {
  bench::add(name, iterations, [=](benchmark::State& state) {
    try {
      f(state, args...);
    } catch (const std::exception& e) {
      state.SkipWithError(e.what());
    }
  });
}

/// Those of stream_bench.cpp.
void add_stream_cases();

}  // namespace bench
