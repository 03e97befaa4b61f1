// SPDX-License-Identifier: Apache-2.0
// Sizes and times of packed tables, beside a copy and a raw gather of the same rows.
//   quipu_bench_pack --benchmark_filter=REGEX --benchmark_out=F --benchmark_out_format=json
// Names are family/table/width/codec. Rates, bytes_per_second, count rows as they are, not packed;
// ids are random. Families: `ratio` (its time is that of all host threads packing), `unpack` and
// `copy`, `gather_hbm` and `plain_gather`, `pack` on the device, `gather_pinned` and `zero_copy`
// (blocks x vectors a lane has in flight), `host_pack` and `host_unpack` (one thread, first 64 MB
// of a table), `profile` (on the host); of 4 GB of fp32, by width and number of ids,
// `large_zero_copy`, `large_plain` and `large_ordered` (the order is made anew every time); those
// of stream_bench.cpp.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "pack_tables.hpp"
#include "pack_yardstick.hpp"
#include "quipu/pack/pack.hpp"
#include "quipu/pack/profile.hpp"
#include "registry.hpp"
#include "timing.hpp"

namespace {

using namespace quipu;
using namespace bench;

constexpr std::int64_t hbm_bytes = 256 * megabyte;
constexpr std::int64_t pinned_bytes = 512 * megabyte;
constexpr std::int64_t most_output = 256 * megabyte;
constexpr std::int64_t most_ids = std::int64_t{1} << 20;

// --- stages --------------------------------------------------------------------------------------

/// What any stage has: a table, room for what a case writes and for what it should write.
struct stage {
  stage(const std::string& table_name, std::int64_t table_bytes)
      : name(table_name),
        ctx(check(make_context(bench::own_stream()))),
        table(ctx, table_name, table_bytes),
        output(check(make_device_buffer<std::byte>(ctx, most_output))),
        expected(check(make_device_buffer<std::byte>(ctx, most_output))),
        found(check(make_device_buffer<unsigned long long>(ctx, 1))),
        faults(check(make_device_buffer<row_faults>(ctx, 1))) {
    const auto count = std::min({most_ids, table.rows, most_output / table.row_bytes()});
    ids = check(make_device_buffer<std::int32_t>(ctx, count));
    yardstick::fill_ids(ids.data(), count, table.rows, 11, ctx.stream);
  }
  std::int64_t gathered_bytes() const { return ids.size() * table.row_bytes(); }

  gather_rows_args<std::int32_t> gather_args(packed_rows& from, row_faults* f) {
    gather_rows_args<std::int32_t> a;
    a.packed = from.table.view();
    a.ids = make_vector_view<const std::int32_t>(ids.data(), ids.size());
    a.output = table.rows_at(output.data(), ids.size());
    a.faults = f;
    return a;
  }
  void gather_raw(const std::byte* rows, std::byte* to, yardstick::gather_launch how) const {
    yardstick::gather(rows, table.row_bytes(), ids.data(), ids.size(), to, how, ctx.stream);
  }
  void poison() { (void)cudaMemsetAsync(output.data(), 0xa5, output.bytes(), ctx.stream); }
  /// Throws unless the output begins with these bytes and no faults were found.
  void verify(const std::byte* expected_bytes, std::int64_t bytes) {
    yardstick::count_differences(output.data(), expected_bytes, bytes, found.data(), ctx.stream);
    if (check(to_host(ctx, found)).front() != 0) throw std::runtime_error("other bits");
    const auto f = check(to_host(ctx, faults)).front();
    if (f.id != -1 || f.row != -1) throw std::runtime_error("faults in sound rows");
  }

  std::string name;
  context ctx;
  drawn_table table;
  buffer<std::byte> output, expected;
  buffer<unsigned long long> found;
  buffer<row_faults> faults;
  buffer<std::int32_t> ids;
};

void measure(benchmark::State& state, const stage& s, std::int64_t bytes,
             const std::function<void()>& work) {
  bench::device_timer(s.ctx).measure(state, work);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * bytes);
}

/// The same on the host's clock. An iteration is the median of some runs after one that is not
/// counted, which finds no pages of its output: runs of the same work were seen to differ by half.
void measure_on_host(benchmark::State& state, std::int64_t bytes,
                     const std::function<void()>& work) {
  work();
  for (auto _ : state) {
    std::array<double, 7> seconds;
    for (auto& s : seconds) s = seconds_of(work);
    const auto median = seconds.begin() + seconds.size() / 2;
    std::nth_element(seconds.begin(), median, seconds.end());
    state.SetIterationTime(*median);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * bytes);
}

// --- tables in device memory ---------------------------------------------------------------------

/// Every packing of the table, each made when it is first asked for.
struct hbm_stage : stage {
  explicit hbm_stage(const std::string& table_name) : stage(table_name, hbm_bytes) {}
  packed_rows& packed(const std::string& label) {
    if (auto at = made_.find(label); at != made_.end()) return at->second;
    return made_.try_emplace(label, ctx, table, label, false).first->second;
  }

 private:
  std::map<std::string, packed_rows> made_;
};

hbm_stage& in_hbm(const std::string& name) { return bench::on_stage<hbm_stage>(name); }

void tell_ratio(benchmark::State& state, const std::string& name, const std::string& label) {
  auto& s = in_hbm(name);
  const auto& p = s.packed(label);
  for (auto _ : state) state.SetIterationTime(p.pack_seconds);
  const auto raw = static_cast<double>(s.table.bytes());
  state.counters["ratio"] = raw / p.stored;
  state.counters["payload_ratio"] = raw / p.used;
  state.counters["expected_ratio"] =
      static_cast<double>(s.table.row_bytes()) / p.estimate.row_bytes;
  tell_picks(state, s.table.profile, p.estimate);
}

void time_copy(benchmark::State& state, const std::string& name) {
  auto& s = in_hbm(name);
  measure(state, s, s.table.bytes(), [&] {
    (void)cudaMemcpyAsync(s.output.data(), s.table.device.data(), s.table.device.bytes(),
                          cudaMemcpyDeviceToDevice, s.ctx.stream);
  });
}

void time_unpack(benchmark::State& state, const std::string& name, const std::string& label) {
  auto& s = in_hbm(name);
  auto& p = s.packed(label);
  const auto out = s.table.rows_at(s.output.data(), s.table.rows);
  s.poison();
  check(unpack(s.ctx, {p.table.view(), out, 0, s.faults.data()}));
  s.verify(s.table.device.data(), s.table.bytes());
  tell_picks(state, s.table.profile, p.estimate);
  measure(state, s, s.table.bytes(), [&] { check(unpack(s.ctx, {p.table.view(), out, 0})); });
}

void time_plain_gather(benchmark::State& state, const std::string& name, int depth) {
  auto& s = in_hbm(name);
  measure(state, s, s.gathered_bytes(), [&] {
    s.gather_raw(s.table.device.data(), s.expected.data(), {0, depth});
  });
}

void time_gather(benchmark::State& state, stage& s, packed_rows& p, const std::byte* raw_rows) {
  s.gather_raw(raw_rows, s.expected.data(), {0, 4});
  s.poison();
  check(gather_rows(s.ctx, s.gather_args(p, s.faults.data())));
  s.verify(s.expected.data(), s.gathered_bytes());
  tell_picks(state, s.table.profile, p.estimate);
  state.SetLabel(label_of(p.estimate.how));
  state.counters["packed_row_bytes"] = p.used / static_cast<double>(s.table.rows);
  const auto a = s.gather_args(p, nullptr);
  measure(state, s, s.gathered_bytes(), [&] { check(gather_rows(s.ctx, a)); });
}

void time_gather_hbm(benchmark::State& state, const std::string& name, const std::string& label) {
  auto& s = in_hbm(name);
  time_gather(state, s, s.packed(label), s.table.device.data());
}

/// Into memory that is there.
void time_pack(benchmark::State& state, const std::string& name, const std::string& label) {
  auto& s = in_hbm(name);
  const auto& p = s.packed(label);
  packed_options options;
  options.growth = expansion::allow;
  auto made = check(make_packed(s.ctx, s.table.on_device(), p.estimate.how, options));
  const pack_args a{s.table.on_device(), made.view()};
  auto scratch =
      check(make_device_buffer<char>(s.ctx, static_cast<std::int64_t>(workspace_bytes(s.ctx, a))));
  const auto work = [&] { check(pack(s.ctx, a, {scratch.data(), scratch.bytes()})); };
  work();
  s.poison();
  check(unpack(s.ctx,
               {made.view(), s.table.rows_at(s.output.data(), s.table.rows), 0, s.faults.data()}));
  s.verify(s.table.device.data(), s.table.bytes());
  tell_picks(state, s.table.profile, p.estimate);
  measure(state, s, s.table.bytes(), work);
}

// --- tables in pinned memory ---------------------------------------------------------------------

struct pinned_stage : stage {
  explicit pinned_stage(const std::string& table_name) : stage(table_name, pinned_bytes) {
    table.device = {};
  }
};

pinned_stage& in_pinned(const std::string& name) { return bench::on_stage<pinned_stage>(name); }

void time_zero_copy(benchmark::State& state, const std::string& name, int blocks, int depth) {
  auto& s = in_pinned(name);
  measure(state, s, s.gathered_bytes(), [&] {
    s.gather_raw(s.table.host.data(), s.expected.data(), {blocks, depth});
  });
}

void time_gather_pinned(benchmark::State& state, const std::string& name,
                        const std::string& label) {
  auto& s = in_pinned(name);
  packed_rows p(s.ctx, s.table, label, true);
  time_gather(state, s, p, s.table.host.data());
}

// --- tables beyond the reach of address translation ----------------------------------------------

/// 4 GB of fp32 in pinned memory, as they are and packed, and ids in no order.
struct large_stage {
  explicit large_stage(const std::string& width_name)
      : name(width_name),
        ctx(check(make_context(bench::own_stream()))),
        width(std::stoll(width_name)),
        rows(4096 * megabyte / (width * 4)) {
    auto device = check(make_device_buffer<float>(ctx, rows * width));
    yardstick::fill_numbers(yardstick::numbers::small_normal, device.data(), device.size(), 7,
                            ctx.stream);
    raw = check(make_pinned_buffer<float>(ctx, rows * width));
    check(detail::copy_bytes(ctx, raw.data(), device.data(), raw.bytes()));
    const auto profile =
        check(make_profile(host_context{0}, make_table_view(raw.data(), rows, width)));
    const auto table = make_table_view(device.data(), rows, width);
    for (const char* label : {"raw", "link"}) {
      auto made = check(make_packed(ctx, table, estimate_of(profile, label).how));
      packed[label] = check(to_pinned(ctx, made.view()));
    }
    ids = check(make_device_buffer<std::int32_t>(ctx, most_ids));
    yardstick::fill_ids(ids.data(), most_ids, rows, 11, ctx.stream);
    order = check(make_device_buffer<std::int32_t>(ctx, most_ids));
    device = {};
    output = check(make_device_buffer<float>(ctx, most_ids * width));
    expected = check(make_device_buffer<float>(ctx, most_ids * width));
    found = check(make_device_buffer<unsigned long long>(ctx, 1));
    scratch = check(make_device_buffer<char>(
        ctx, static_cast<std::int64_t>(workspace_bytes(ctx, order_of(most_ids)))));
  }
  order_rows_args<std::int32_t> order_of(std::int64_t count) {
    return {make_vector_view<const std::int32_t>(ids.data(), count),
            make_vector_view(order.data(), count), rows};
  }

  std::string name;
  context ctx;
  std::int64_t width, rows;
  buffer<float> raw, output, expected;
  std::map<std::string, packed_table> packed;
  buffer<std::int32_t> ids, order;
  buffer<unsigned long long> found;
  buffer<char> scratch;
};

large_stage& in_large(const std::string& width) { return bench::on_stage<large_stage>(width); }

void gather_large_raw(large_stage& s, std::int64_t count, yardstick::gather_launch how) {
  yardstick::gather(s.raw.data(), s.width * 4, s.ids.data(), count, s.expected.data(), how,
                    s.ctx.stream);
}

void time_zero_copy_large(benchmark::State& state, const std::string& width, std::int64_t count,
                          int blocks) {
  auto& s = in_large(width);
  bench::device_timer(s.ctx).measure(state, [&] { gather_large_raw(s, count, {blocks, 8}); });
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * count * s.width * 4);
}

/// `ordered`: by an order that is made anew every time.
void time_gather_large(benchmark::State& state, const std::string& width, std::int64_t count,
                       const std::string& label, bool ordered) {
  auto& s = in_large(width);
  gather_rows_args<std::int32_t> a;
  a.packed = s.packed.at(label).view();
  a.ids = make_vector_view<const std::int32_t>(s.ids.data(), count);
  a.output = make_table_view(s.output.data(), count, s.width);
  if (ordered) a.order = make_vector_view<const std::int32_t>(s.order.data(), count);
  const auto work = [&] {
    if (ordered) {
      check(order_rows(s.ctx, s.order_of(count), {s.scratch.data(), s.scratch.bytes()}));
    }
    check(gather_rows(s.ctx, a));
  };
  gather_large_raw(s, count, {0, 4});
  work();
  yardstick::count_differences(s.output.data(), s.expected.data(), count * s.width * 4,
                               s.found.data(), s.ctx.stream);
  if (check(to_host(s.ctx, s.found)).front() != 0) throw std::runtime_error("other bits");
  state.counters["order_pays"] = order_pays(a.packed, count);
  bench::device_timer(s.ctx).measure(state, work);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * count * s.width * 4);
}

// --- the host ------------------------------------------------------------------------------------

void time_host_pack(benchmark::State& state, const std::string& name, packing_goal goal) {
  auto& s = in_hbm(name);
  const auto how = choose_packing(s.table.profile, goal).how;
  const auto input = s.table.beginning();
  state.SetLabel(label_of(how));
  packed_table made;
  measure_on_host(state, input.rows * input.row_bytes(),
                  [&] { made = check(make_packed(host_context{1}, input, how)); });
}

void time_host_unpack(benchmark::State& state, const std::string& name, packing_goal goal) {
  auto& s = in_hbm(name);
  const auto how = choose_packing(s.table.profile, goal).how;
  const auto input = s.table.beginning();
  const auto bytes = input.rows * input.row_bytes();
  state.SetLabel(label_of(how));
  auto made = check(make_packed(host_context{0}, input, how));
  auto output = check(make_host_buffer<std::byte>(bytes));
  const auto to = s.table.rows_at(output.data(), input.rows);
  const auto work = [&] { check(unpack(host_context{1}, {made.view(), to})); };
  work();
  if (std::memcmp(output.data(), input.data, output.bytes()) != 0) {
    throw std::runtime_error("other bits");
  }
  measure_on_host(state, bytes, work);
}

void time_profile(benchmark::State& state, const std::string& name) {
  auto& s = in_hbm(name);
  measure_on_host(state, s.table.bytes(), [&] {
    benchmark::DoNotOptimize(check(make_profile(host_context{0}, s.table.on_host())));
  });
}

// --- all cases -----------------------------------------------------------------------------------

/// What a profile of floats offers.
constexpr const char* labels[] = {"raw", "invariant", "exponent3", "exponent2", "sparse"};

void add_hbm_table(const std::string& name) {
  const int n = 11;
  const auto tail = "/" + name + "/";
  add_case("profile" + tail + "sampled", 1, time_profile, name);
  for (const std::string label : labels)
    add_case("ratio" + tail + label, 1, tell_ratio, name, label);
  add_case("copy" + tail + "raw", n, time_copy, name);
  for (const std::string label : labels)
    add_case("unpack" + tail + label, n, time_unpack, name, label);
  for (const int depth : {4, 8}) {
    add_case("plain_gather" + tail + "0x" + std::to_string(depth), n, time_plain_gather, name,
             depth);
  }
  for (const std::string label : labels) {
    add_case("gather_hbm" + tail + label, n, time_gather_hbm, name, label);
  }
  for (const std::string label : labels) add_case("pack" + tail + label, 5, time_pack, name, label);
  for (const auto& [label, goal] :
       {std::pair{"smallest", packing_goal::smallest}, std::pair{"memory", packing_goal::memory}}) {
    add_case("host_pack" + tail + label, 1, time_host_pack, name, goal);
    add_case("host_unpack" + tail + label, 1, time_host_unpack, name, goal);
  }
}

void add_pinned_table(const std::string& name) {
  const int n = 5;
  const auto tail = "/" + name + "/";
  for (const int blocks : {32, 132, 528}) {
    for (const int depth : {4, 8}) {
      add_case("zero_copy" + tail + std::to_string(blocks) + "x" + std::to_string(depth), n,
               time_zero_copy, name, blocks, depth);
    }
  }
  for (const std::string label : {"raw", "exponent2", "exponent3", "invariant", "link"}) {
    add_case("gather_pinned" + tail + label, n, time_gather_pinned, name, label);
  }
}

void add_large_table(const std::string& width) {
  const int n = 5;
  for (const std::int64_t count : {std::int64_t{65536}, most_ids}) {
    const auto tail = "/" + width + "/" + std::to_string(count) + "/";
    for (const int blocks : {33, 132, 528}) {
      add_case("large_zero_copy" + tail + std::to_string(blocks), n, time_zero_copy_large, width,
               count, blocks);
    }
    for (const std::string label : {"raw", "link"}) {
      add_case("large_plain" + tail + label, n, time_gather_large, width, count, label, false);
      add_case("large_ordered" + tail + label, n, time_gather_large, width, count, label, true);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* name :
       {"bf16_normal/4096", "bf16_normal/128", "f32_normal/512", "f32_normal/128", "f32_normal/32",
        "f32_relu/128", "f32_ones/1024", "f32_ones/128", "f32_once_f16/128"}) {
    add_hbm_table(name);
  }
  for (const char* name :
       {"f32_normal/32", "f32_normal/64", "f32_normal/128", "f32_normal/256", "f32_normal/1024",
        "f32_once_f16/64", "f32_once_f16/128", "bf16_normal/128", "bf16_normal/4096"}) {
    add_pinned_table(name);
  }
  for (const char* width : {"32", "64", "128"}) add_large_table(width);
  add_stream_cases();
  return bench::run(argc, argv);
}
