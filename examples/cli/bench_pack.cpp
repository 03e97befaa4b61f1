// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "names.hpp"
#include "packed_array.hpp"
#include "quipu/math/random.hpp"
#include "table.hpp"
#include "timing.hpp"
#include "verbs.hpp"

namespace quipu::cli {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::int64_t most_ids = std::int64_t{1} << 20;

/// A packing: what it takes and how quick it is, beside what moves the same rows as they are.
struct measurement {
  packing how;
  std::int64_t stored = 0;
  timing pack, unpack, copy;  // of all rows
  timing gather, raw_gather;  // of random rows
};

/// As many rows as there are, up to a million, in any order and any of them more than once.
std::vector<std::int64_t> draw_ids(std::int64_t rows, std::uint64_t seed) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(rows, most_ids)));
  const auto stream = mix_bits(~seed);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    ids[k] = static_cast<std::int64_t>(random_bits(stream, k) % static_cast<std::uint64_t>(rows));
  }
  return ids;
}

bytes rows_of(const table_view& t, const std::vector<std::int64_t>& ids) {
  const auto row = static_cast<std::size_t>(t.row_bytes());
  bytes rows(ids.size() * row);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    std::memcpy(rows.data() + k * row, t.row(ids[k]), row);
  }
  return rows;
}

/// The yardstick of packing and unpacking; on the host a piece a thread.
void copy(const context& ctx, const buffer<std::byte>& from, buffer<std::byte>& to) {
  require("copy", from_cuda(cudaMemcpyAsync(to.data(), from.data(), from.bytes(),
                                            cudaMemcpyDeviceToDevice, ctx.stream),
                            "CUDA"));
}
void copy(const host_context& host, const buffer<std::byte>& from, buffer<std::byte>& to) {
  const std::size_t threads = host.threads > 0 ? static_cast<std::size_t>(host.threads)
                                               : std::max(1u, std::thread::hardware_concurrency());
  const auto piece = from.bytes() / threads + 1;
  std::vector<std::jthread> others;
  for (auto at = piece; at < from.bytes(); at += piece) {
    others.emplace_back([&, at] {
      std::memcpy(to.data() + at, from.data() + at, std::min(piece, from.bytes() - at));
    });
  }
  std::memcpy(to.data(), from.data(), std::min(piece, from.bytes()));
}

/// The host reads what a device has counted.
std::int64_t stored_bytes(const context& ctx, packed_view v) {
  auto used = require("packed", to_host(ctx, v.used, 1));
  v.used = used.data();
  return v.stored_bytes();
}
std::int64_t stored_bytes(const host_context&, const packed_view& v) { return v.stored_bytes(); }

template <class Context>
class pack_bench {
 public:
  pack_bench(const bench_pack_options& options, const Context& ctx, const table_view& t)
      : options_(options),
        ctx_(ctx),
        shape_(t),
        rows_(t.data, t.data + t.rows * t.row_bytes()),
        input_(place(ctx, rows_)),
        output_(make_buffer<std::byte>(ctx, input_.size())) {
    const auto ids = draw_ids(t.rows, options.table.look.seed);
    some_rows_ = rows_of(t, ids);
    ids_ = place(ctx, ids);
    raw_ = require("raw", make_packed(ctx, table_at(input_), raw_packing(t)));
  }

  std::int64_t ids() const { return ids_.size(); }

  measurement run(const packing& how) {
    packed_options options;
    options.growth = expansion::allow;  // what a codec does, also where raw would be smaller
    auto packed = require(codec_text(how), make_packed(ctx_, table_at(input_), how, options));
    measurement m;
    m.how = how;
    m.stored = stored_bytes(ctx_, packed.view());
    m.pack = time_pack(packed);
    m.unpack = time([&] {
      require("unpack", unpack(ctx_, unpack_args{packed.view(), table_at(output_)}));
    });
    require_output("unpack", rows_);
    m.copy = time([&] { copy(ctx_, input_, output_); });
    m.gather = time_gather(packed);
    require_output("gather", some_rows_);
    m.raw_gather = time_gather(raw_);
    return m;
  }

 private:
  template <class Once>
  timing time(Once&& once) const {
    return time_many(options_.measuring.repeat, ctx_, once);
  }

  /// Into memory that is there.
  timing time_pack(packed_table& packed) {
    const pack_args args{table_at(input_), packed.view()};
    auto scratch = make_scratch(ctx_, args);
    return time([&] { require("pack", start(ctx_, args, scratch)); });
  }

  timing time_gather(packed_table& packed) {
    gather_rows_args<std::int64_t> args;
    args.packed = packed.view();
    args.ids = make_vector_view<const std::int64_t>(ids_.data(), ids());
    args.output = table_at(output_);
    args.output.rows = ids();
    return time([&] { require("gather", gather_rows(ctx_, args)); });
  }

  /// The output begins with these bytes.
  void require_output(const char* verb, const bytes& wanted) const {
    const auto found = fetch(ctx_, output_);
    if (std::equal(wanted.begin(), wanted.end(), found.begin())) return;
    throw std::runtime_error(std::string(verb) + ": gives other bits");
  }

  mutable_table_view table_at(buffer<std::byte>& b) const {
    return {b.data(),           shape_.rows,  shape_.width, shape_.element_bytes,
            shape_.row_bytes(), shape_.format};
  }

  const bench_pack_options& options_;
  const Context& ctx_;
  table_view shape_;
  bytes rows_, some_rows_;
  buffer<std::byte> input_, output_;
  buffer<std::int64_t> ids_;
  packed_table raw_;
};

json to_json(const timing& t, double amount) {
  return {{"median_ms", t.median},
          {"min_ms", t.lowest},
          {"gb_per_s", per_second_in_billions(amount, t.median)}};
}

json to_json(const measurement& m, double all_bytes, double some_bytes) {
  json r{{"codec", name_of(m.how.how)}};
  if (m.how.how == codec::exponent) r["code_bits"] = m.how.exponent.code_bits;
  r["stored_bytes"] = m.stored;
  r["ratio"] = all_bytes / static_cast<double>(m.stored);
  r["pack"] = to_json(m.pack, all_bytes);
  r["unpack"] = to_json(m.unpack, all_bytes);
  r["copy"] = to_json(m.copy, all_bytes);
  r["gather"] = to_json(m.gather, some_bytes);
  r["raw_gather"] = to_json(m.raw_gather, some_bytes);
  return r;
}

std::string to_text(const json& report, const std::vector<measurement>& all) {
  std::string out = facts({{"input", report["input"].get<std::string>()},
                           {"device", report["device"].get<std::string>()},
                           {"rows", grouped(report["rows"].get<std::int64_t>())},
                           {"width", grouped(report["width"].get<std::int64_t>())},
                           {"element", report["element"].get<std::string>()},
                           {"bytes", grouped(report["bytes"].get<std::int64_t>())},
                           {"gathered", grouped(report["ids"].get<std::int64_t>()) + " rows"}});
  table t({{"codec", align::left},
           {"stored bytes"},
           {"ratio"},
           {"pack GB/s"},
           {"unpack GB/s"},
           {"copy GB/s"},
           {"gather GB/s"},
           {"raw gather GB/s"}});
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto& r = report["results"][k];
    std::vector<std::string> cells{codec_text(all[k].how), grouped(all[k].stored),
                                   rounded(r["ratio"].get<double>())};
    for (const char* what : {"pack", "unpack", "copy", "gather", "raw_gather"}) {
      cells.push_back(rounded(r[what]["gb_per_s"].get<double>()));
    }
    t.add(std::move(cells));
  }
  return out + "\n" + t.text();
}

}  // namespace

void run(const bench_pack_options& options) {
  const auto& path = options.table.path;
  const auto table = read_table(options.table);
  const auto t = table.view();
  if (t.rows == 0 || t.width == 0) throw bad_input(path + ": has no elements to measure");
  const host_context host{options.run.threads};
  const auto profile = require(path, make_profile(host, t, options.table.look));
  on_chosen_device(options.run, [&](const auto& ctx, const std::string& device) {
    pack_bench bench(options, ctx, t);
    progress shown(profile.packings.size());
    json report{{"input", path},
                {"device", device},
                {"rows", t.rows},
                {"width", t.width},
                {"element", table.element()},
                {"bytes", t.rows * t.row_bytes()},
                {"ids", bench.ids()},
                {"repeat", options.measuring.repeat}};
    std::vector<measurement> all;
    for (const auto& e : profile.packings) {
      all.push_back(bench.run(e.how));
      shown.step();
      report["results"].push_back(to_json(all.back(), static_cast<double>(t.rows * t.row_bytes()),
                                          static_cast<double>(bench.ids() * t.row_bytes())));
    }
    publish(options.measuring, report, to_text(report, all));
  });
}

}  // namespace quipu::cli
