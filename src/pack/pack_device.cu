// SPDX-License-Identifier: Apache-2.0
#include "graph/launch.cuh"
#include "graph/scratch.hpp"
#include "pack/check_pack.hpp"
#include "pack/pack_kernels.cuh"
#include "pack/record_sums.cuh"
#include "quipu/core/trace.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/pack/pack.hpp"

namespace quipu {

namespace {

using namespace detail;

struct overflows {
  const std::uint32_t* sizes = nullptr;
  std::uint32_t slot_bytes = 1;
  __host__ __device__ std::uint32_t operator()(std::int64_t r) const {
    return sizes[r] > slot_bytes ? 1u : 0u;
  }
};
struct granules_of {
  const std::uint32_t* sizes = nullptr;
  std::uint32_t granule = 1;
  __host__ __device__ std::int64_t operator()(std::int64_t r) const {
    return ((sizes[r] & ~whole_flag) + granule - 1) / granule;
  }
};

/// *used = what all rows take; the largest number if addresses do not tell it.
__global__ void tell_used(const std::int64_t* granules, const std::uint32_t* overflows,
                          std::int64_t records, std::int64_t slots, std::int64_t each,
                          std::int64_t* used) {
  if (granules != nullptr) {
    constexpr auto endless = static_cast<std::int64_t>(0x7fffffffffffffff);
    *used = granules[records] < whole_flag ? granules[records] * each : endless;
  } else {
    *used = slots + (overflows != nullptr ? overflows[records] * each : 0);
  }
}

struct device_parts {
  buffer<std::byte> bytes, columns;
  buffer<std::uint32_t> addresses;
  buffer<std::int64_t> used;

  void make(const context& ctx, std::int64_t size, std::int64_t spare) {
    bytes = require(make_device_buffer<std::byte>(ctx, round_up(size + spare, 4)));
    used = require(make_device_buffer<std::int64_t>(ctx, 1));
    require(copy_bytes(ctx, used.data(), &size, sizeof size));
  }
};

/// One codec's way from a table to packed rows: measure and add up, then write.
template <class Writer>
class device_packer {
  static constexpr bool in_slots = Writer::in_slots;
  using sum = std::conditional_t<in_slots, std::uint32_t, std::int64_t>;
  using counted = std::conditional_t<in_slots, overflows, granules_of>;

 public:
  device_packer(const context& ctx, const table_view& t, const packing& p, const std::byte* columns,
                arena& memory)
      : ctx_(ctx),
        input_(t),
        writer_(p, columns),
        slot_bytes_(p.slot_bytes),
        granule_(p.granule),
        sizes_(memory.take<std::uint32_t>(input_.all)),
        sums_(ctx, memory, input_.all) {}

  /// Sizes of all records, and their sums. Slots are as long as they are, so that only those who
  /// must know the overflow beforehand ask.
  status measure() const {
    const auto s = launch(ctx_, measure_records<Writer>, grid(), pack_threads, start::in_order,
                          writer_, input_, sizes_);
    return s.ok() ? add() : s;
  }
  status add() const {
    return sums_.add(ctx_, {sizes_, static_cast<std::uint32_t>(in_slots ? slot_bytes_ : granule_)});
  }

  /// Writes all records; addressed ones have been measured.
  status write(const packed_view& v) const {
    status s;
    if constexpr (in_slots) {
      s = launch(ctx_, write_slots<Writer>, grid(), pack_threads, start::in_order, writer_, input_,
                 sizes_, v.bytes, slot_bytes_);
      if (s.ok()) s = add();
      if (s.ok()) {
        s = launch(ctx_, write_overflow, grid(), pack_threads, start::in_order, input_,
                   static_cast<const std::uint32_t*>(sizes_),
                   static_cast<const std::uint32_t*>(sums_.values), v.bytes, v.byte_count,
                   slot_bytes_);
      }
    } else {
      s = launch(ctx_, write_addressed<Writer>, grid(), pack_threads, start::in_order, writer_,
                 input_, static_cast<const std::uint32_t*>(sizes_),
                 static_cast<const std::int64_t*>(sums_.values), v.bytes, v.byte_count,
                 static_cast<int>(granule_), v.addresses);
    }
    return s.ok() ? tell(v.used) : s;
  }

  /// Bytes of all rows; waits for `add`.
  std::int64_t bytes() const {
    const auto all = static_cast<std::int64_t>(read_back(ctx_, sums_.values + input_.all));
    return in_slots ? input_.all * slot_bytes_ + all * record_bytes() : all * granule_;
  }
  status double_granule() {
    granule_ *= 2;
    return add();
  }
  std::int64_t record_bytes() const { return std::int64_t{input_.elements} * input_.element_bytes; }

 private:
  status tell(std::int64_t* used) const {
    const std::int64_t* granules = nullptr;
    const std::uint32_t* overflows = nullptr;
    if constexpr (in_slots) {
      overflows = sums_.values;
    } else {
      granules = sums_.values;
    }
    return launch(ctx_, tell_used, dim3(1), 1, start::in_order, granules, overflows, input_.all,
                  input_.all * slot_bytes_, in_slots ? record_bytes() : granule_, used);
  }
  dim3 grid() const { return record_grid<Writer::lanes>(ctx_, input_.all); }

  const context& ctx_;
  device_input input_;
  Writer writer_;
  std::int64_t slot_bytes_, granule_;
  std::uint32_t* sizes_;
  record_sums<sum, counted> sums_;
};

/// Packs into memory that it makes. False if the table had better stay raw.
template <class Writer>
bool pack_anew(const context& ctx, const table_view& t, packing& p, const packed_options& o,
               device_parts& parts) {
  arena counting;
  (void)device_packer<Writer>(ctx, t, p, nullptr, counting);
  auto space = require(scratch<char>::make(ctx, static_cast<std::int64_t>(counting.bytes())));
  arena memory(workspace{space.data(), counting.bytes()});
  device_packer<Writer> packer(ctx, t, p, parts.columns.data(), memory);
  require(packer.measure());
  const auto records = t.rows * record_shape(p.width).records;
  const auto spare = [&] {
    const auto each = round_up(packer.record_bytes(), p.has_slots() ? 1 : p.granule);
    return o.spare_rows * record_shape(p.width).records * each;
  };
  auto bytes = packer.bytes();
  while (!p.has_slots() && bytes / p.granule + spare() / p.granule + records >= whole_flag) {
    p.granule *= 2;
    require(packer.double_granule());
    bytes = packer.bytes();
  }
  const auto stored = bytes + (p.has_slots() ? 0 : 4 * records);
  if (o.growth == expansion::keep_raw && !is_no_longer(stored, p, t)) return false;
  parts.make(ctx, bytes, spare());
  if (!p.has_slots()) parts.addresses = require(make_device_buffer<std::uint32_t>(ctx, records));
  packed_view v;
  v.bytes = parts.bytes.data();
  v.byte_count = parts.bytes.size();
  v.addresses = parts.addresses.data();
  v.used = parts.used.data();
  require(packer.write(v));
  return true;
}

void copy_raw(const context& ctx, const table_view& t, device_parts& parts) {
  parts.make(ctx, t.rows * t.row_bytes(), 0);
  parts.addresses = {};
  if (t.rows == 0 || t.row_bytes() == 0) return;
  const auto row = static_cast<std::size_t>(t.row_bytes());
  require(cudaMemcpy2DAsync(parts.bytes.data(), row, t.data, static_cast<std::size_t>(t.row_stride),
                            row, static_cast<std::size_t>(t.rows), cudaMemcpyDefault, ctx.stream),
          "input");
}

status check_input(const context& ctx, const table_view& t, const packing& how,
                   const packed_options& o) {
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = validate(how); !s.ok()) return s;
  if (auto s = check_table(t, how, input_messages); !s.ok()) return s;
  if (auto s = check_spare(t, how, o.spare_rows); !s.ok()) return s;
  if (!is_aligned(t)) return wrong_argument("input: elements are not aligned");
  return check_device_pointer(t.data, t.rows * t.width, input_messages.null, ctx.device);
}

}  // namespace

result<packed_table> make_packed(const context& ctx, const table_view& t, const packing& how,
                                 const packed_options& options) {
  const trace_range range("make_packed");
  const device_guard guard(ctx.device);
  if (auto s = check_input(ctx, t, how, options); !s.ok()) return s;
  return as_result<result<packed_table>>([&]() -> result<packed_table> {
    packing p = how;
    device_parts parts;
    const auto columns = device_columns(p);
    if (!columns.empty()) parts.columns = require(to_device(ctx, columns));
    const bool is_empty = t.rows == 0 || t.width == 0;
    const bool may_grow = options.growth == expansion::allow;
    if (p.how == codec::raw) {
      copy_raw(ctx, t, parts);
    } else if (is_empty && (may_grow || is_no_longer(0, p, t))) {
      parts.make(ctx, 0, 0);
    } else if (is_empty || !with_narrow_writer(p, [&]<class Writer>() {
                 return pack_anew<Writer>(ctx, t, p, options, parts);
               })) {
      p = raw_packing(t);
      p.format = how.format;
      parts.columns = {};
      copy_raw(ctx, t, parts);
    }
    require(synchronize(ctx));
    return packed_table(std::move(p), t.rows, std::move(parts.bytes), std::move(parts.addresses),
                        std::move(parts.used), std::move(parts.columns));
  });
}

namespace {

status run_pack(const context& ctx, const pack_args& a, arena& scratch, bool count_only) {
  const auto& p = *a.output.how;
  if (a.input.rows == 0 || a.input.width == 0 || p.how == codec::raw) return success();
  return with_narrow_writer(p, [&]<class Writer>() -> status {
    const device_packer<Writer> packer(ctx, a.input, p, a.output.columns, scratch);
    if (count_only) return success();
    if constexpr (!Writer::in_slots) {
      if (auto s = packer.measure(); !s.ok()) return s;
    }
    return packer.write(a.output);
  });
}

status set_used(const context& ctx, const pack_args& a, std::int64_t bytes) {
  return launch(ctx, tell_used, dim3(1), 1, start::in_order,
                static_cast<const std::int64_t*>(nullptr),
                static_cast<const std::uint32_t*>(nullptr), std::int64_t{0}, bytes, std::int64_t{0},
                a.output.used);
}

status check_output(const context& ctx, const pack_args& a) {
  const auto& v = a.output;
  if (auto s = check_packed(v); !s.ok()) return s;
  if (auto s = check_input(ctx, a.input, *v.how, {}); !s.ok()) return s;
  if (v.rows != a.input.rows) {
    return wrong_argument("output: rows are not the input's", a.input.rows, v.rows);
  }
  if (v.used == nullptr) return wrong_argument("output: used is null");
  if (auto s = check_device_pointer(v.used, 1, "output: used is not on the device", ctx.device);
      !s.ok()) {
    return s;
  }
  if (auto s = check_apart(a.input, v, "output: overlaps the input"); !s.ok()) return s;
  return check_on_device(ctx, v);
}

}  // namespace

std::size_t workspace_bytes(const context& ctx, const pack_args& a) {
  if (!check_packed(a.output).ok()) return 0;
  const device_guard guard(ctx.device);
  arena counting;
  (void)run_pack(ctx, a, counting, true);
  return counting.bytes();
}

status pack(const context& ctx, const pack_args& a, workspace w) {
  const trace_range range("pack");
  const device_guard guard(ctx.device);
  if (auto s = check_output(ctx, a); !s.ok()) return s;
  arena scratch(w);
  if (auto s = run_pack(ctx, a, scratch, true); !s.ok()) return s;
  if (auto s = scratch.fits(); !s.ok()) return s;
  const auto& t = a.input;
  const auto row = static_cast<std::size_t>(t.row_bytes());
  if (t.rows == 0 || row == 0) return set_used(ctx, a, 0);
  if (a.output.how->how == codec::raw) {
    const auto copied =
        cudaMemcpy2DAsync(a.output.bytes, row, t.data, static_cast<std::size_t>(t.row_stride), row,
                          static_cast<std::size_t>(t.rows), cudaMemcpyDefault, ctx.stream);
    if (copied != cudaSuccess) return from_cuda(copied, "input");
    return set_used(ctx, a, t.rows * t.row_bytes());
  }
  arena memory(w);
  return run_pack(ctx, a, memory, false);
}

}  // namespace quipu
