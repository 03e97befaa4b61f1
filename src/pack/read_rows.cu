// SPDX-License-Identifier: Apache-2.0
#include "pack/read_rows.hpp"

#include "pack/check_pack.hpp"
#include "pack/row_ids.cuh"
#include "pack/warp_bytes.cuh"
#include "pack/with_word.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/engine/device_engine.cuh"
#include "quipu/pack/pack.hpp"
#include "quipu/pack/row_reader.cuh"

namespace quipu {

namespace {

/// Which row becomes an output row: the next one.
struct rows_in_order {
  static constexpr bool by_address = false;
  std::int64_t first;

  __device__ std::int64_t place(std::int64_t j) const { return j; }
  __device__ bool is_place(std::int64_t, std::int64_t) const { return true; }
  __device__ std::int64_t operator()(std::int64_t k) const { return first + k; }
  __device__ bool is_there(std::int64_t) const { return true; }
};

/// Or that of an id.
struct rows_by_id {
  const void* ids;
  const void* order;  // null: as they come
  std::int64_t rows;
  std::int32_t id_bytes;
  id_policy policy;
  bool by_address = order != nullptr;

  /// The output row that is made as number j.
  __device__ std::int64_t place(std::int64_t j) const {
    return order == nullptr ? j : detail::id_at(order, id_bytes, j);
  }
  /// An order names output rows; any other number is passed over.
  __device__ bool is_place(std::int64_t k, std::int64_t output_rows) const {
    return order == nullptr || (k >= 0 && k < output_rows);
  }
  __device__ std::int64_t operator()(std::int64_t k) const {
    const std::int64_t id = detail::id_at(ids, id_bytes, k);
    if (policy != id_policy::clamp) return id;
    return id < 0 ? 0 : id >= rows ? rows - 1 : id;
  }
  __device__ bool is_there(std::int64_t id) const {
    return policy == id_policy::trusted || (id >= 0 && id < rows);
  }
};

/// Writes elements of a record to a row of the output.
template <class Word>
struct row_sink {
  Word* to;
  bool takes_vectors;  // begins at a multiple of 16 bytes

  __device__ void put(int first, int count, const Word (&elements)[elements_of_lane<Word>]) const {
    constexpr int each = elements_of_lane<Word>;
    if (count == each && takes_vectors) {
      uint4 v;
      memcpy(&v, elements, sizeof v);
      __stcs(reinterpret_cast<uint4*>(to + first), v);
      return;
    }
#pragma unroll
    for (int k = 0; k < each; ++k) {
      if (k < count) to[first + k] = elements[k];
    }
  }
  __device__ void fill(int lane, int lanes, int count, Word x) const {
    constexpr int each = elements_of_lane<Word>;
    const int whole = takes_vectors ? count / each * each : 0;
    Word all[each];
#pragma unroll
    for (Word& one : all) one = x;
    uint4 v;
    memcpy(&v, all, sizeof v);
    // They may yet be written over, and are not to leave the cache before.
    for (int i = lane * each; i < whole; i += lanes * each) *reinterpret_cast<uint4*>(to + i) = v;
    for (int i = whole + lane; i < count; i += lanes) to[i] = x;
  }
  __device__ void set(int place, Word x) const { to[place] = x; }
  __device__ void put_bytes(int first, int count, const std::uint32_t (&words)[4]) const {
    auto* const at = reinterpret_cast<std::byte*>(to) + first;
    if (count == 16 && takes_vectors) {
      __stcs(reinterpret_cast<uint4*>(at), make_uint4(words[0], words[1], words[2], words[3]));
      return;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    if (address % 4 == 0) {
      put_parts<std::uint32_t>(at, count, words);
    } else if (address % 2 == 0) {
      put_parts<std::uint16_t>(at, count, words);
    } else {
      put_parts<std::uint8_t>(at, count, words);
    }
  }

 private:
  /// As whole parts as there are, and the bytes behind them.
  template <class Part>
  __device__ static void put_parts(std::byte* at, int count, const std::uint32_t (&words)[4]) {
    constexpr int part = static_cast<int>(sizeof(Part));
#pragma unroll
    for (int b = 0; b < 16; b += part) {
      const std::uint32_t x = words[b / 4] >> (8 * (b % 4));
      if (b + part <= count) {
        *reinterpret_cast<Part*>(at + b) = static_cast<Part>(x);
        continue;
      }
#pragma unroll
      for (int k = 0; k < part - 1; ++k) {
        if (b + k < count) at[b + k] = static_cast<std::byte>(x >> (8 * k));
      }
    }
  }
};

/// Records that one launch reads: 32 bits count them.
struct read_range {
  std::int64_t first_row;  // of the output
  std::uint32_t count;     // of records
  std::uint32_t of_row;
  std::uint32_t of_block = 0;  // that lie side by side; 0: blocks take turns
};

/// A group of lanes a record. Rows that keep few lanes busy have but one.
template <class Reader, class Choice, class Word, int Lanes>
__global__ void __launch_bounds__(Reader::residence::threads, Reader::residence::blocks)
    read_rows_kernel(const Reader reader, const Choice choice, const read_range range,
                     const mutable_table_view output, const std::int64_t record_bytes,
                     row_faults* faults) {
  const unsigned groups = blockDim.x / Lanes;
  const int lane = static_cast<int>(threadIdx.x % Lanes);
  const bool takes_turns = range.of_block == 0;
  const auto begin = blockIdx.x * (takes_turns ? groups : range.of_block);
  const auto end = takes_turns ? range.count : min(range.count, begin + range.of_block);
  for (auto g = begin + threadIdx.x / Lanes; g < end; g += (takes_turns ? gridDim.x : 1) * groups) {
    const bool whole_row = Lanes < detail::warp_lanes || range.of_row == 1;
    const auto row_of_range = whole_row ? g : g / range.of_row;
    const int part = whole_row ? 0 : static_cast<int>(g - row_of_range * range.of_row);
    const std::int64_t k = choice.place(range.first_row + row_of_range);
    if (!choice.is_place(k, output.rows)) continue;
    const std::int64_t row = choice(k);
    if (!choice.is_there(row)) {
      if (faults != nullptr && lane == 0) detail::note(&faults->id, k);
      continue;
    }
    auto* const to = output.data + k * output.row_stride + std::int64_t{part} * record_bytes;
    const row_sink<Word> sink{reinterpret_cast<Word*>(to),
                              reinterpret_cast<std::uintptr_t>(to) % 16 == 0};
    if (!reader.read(lane, row, part, sink) && faults != nullptr) {
      detail::note(&faults->row, row);
    }
  }
}

template <class Choice>
struct read_job {
  const context& ctx;
  packed_view packed;
  mutable_table_view output;
  Choice choice;
  row_faults* faults;
  std::int32_t most_multiprocessors;
  detail::stage_window stage = {};

  template <class Word, int Lanes, class Reader>
  status run(const Reader& reader) const {
    constexpr std::int64_t most_records = 1 << 30;
    const record_shape shape(packed.how->width);
    const auto most_rows = std::max<std::int64_t>(1, most_records / shape.records);
    for (std::int64_t first = 0; first < output.rows; first += most_rows) {
      const auto rows = std::min(most_rows, output.rows - first);
      const read_range range{first, static_cast<std::uint32_t>(rows * shape.records),
                             static_cast<std::uint32_t>(shape.records)};
      if (auto s = launch<Word, Lanes>(reader, range, shape); !s.ok()) return s;
    }
    return success();
  }
  /// Where few multiprocessors are to work each has one large block; else all have small ones. An
  /// order would be undone by more rows at a time than some of them keep under way, or by
  /// multiprocessors that share a page, for each translates its addresses for itself.
  template <class Word, int Lanes, class Reader>
  status launch(const Reader& reader, read_range range, const record_shape& shape) const {
    constexpr int of = detail::link_tuning::multiprocessors_by_order;
    const std::int64_t few = most_multiprocessors > 0 ? most_multiprocessors
                             : choice.by_address      ? (ctx.multiprocessors + of - 1) / of
                                                      : 0;
    const int threads = few > 0 ? Reader::residence::threads : 256;
    const auto groups = threads / Lanes;
    const auto wanted = (std::int64_t{range.count} + groups - 1) / groups;
    const auto blocks = few > 0 ? std::min(wanted, few) : wanted;
    if (choice.by_address) {
      range.of_block = static_cast<std::uint32_t>((range.count + blocks - 1) / blocks);
    }
    return detail::launch(ctx, read_rows_kernel<Reader, Choice, Word, Lanes>,
                          dim3(static_cast<unsigned>(blocks)), static_cast<unsigned>(threads),
                          detail::start::in_order, reader, choice, range, output,
                          shape.elements * packed.how->element_bytes, faults);
  }

  /// Calls read<Lanes, Batch>() with as many lanes as a record of `vectors` keeps busy, two vectors
  /// a lane where it has them: one sum over fewer lanes serves both.
  template <class Read>
  static status by_lanes(std::int64_t vectors, const Read& read) {
    if (vectors <= 4) return read.template operator()<4, 1>();
    if (vectors <= 8) return read.template operator()<4, 2>();
    if (vectors <= 16) return read.template operator()<8, 2>();
    if (vectors <= 32) return read.template operator()<16, 2>();
    return read.template operator()<32, 2>();
  }
  std::int64_t vectors() const {
    return (record_shape(packed.how->width).elements * packed.how->element_bytes + 15) / 16;
  }
  template <template <class, int, int> class Reader>
  status by_word(std::int32_t bytes) const {
    return detail::with_word(bytes, [&]<class Word>() {
      return by_lanes(vectors(), [&]<int Lanes, int Batch>() {
        return run<Word, Lanes>(Reader<Word, Lanes, Batch>(packed, stage));
      });
    });
  }
  status read_raw() const {
    return detail::with_word(packed.how->element_bytes, [&]<class Word>() {
      return detail::with_lanes(vectors(), [&]<int Lanes>() {
        return run<Word, Lanes>(raw_reader<Word, Lanes>(packed, stage));
      });
    });
  }
  template <class Word, int CodeBits, int Kept>
  status read_exponents() const {
    return by_lanes(vectors(), [&]<int Lanes, int Batch>() {
      return run<Word, Lanes>(exponent_reader<Word, CodeBits, Kept, Lanes, Batch>(packed, stage));
    });
  }
  /// Kept bits of plain numbers, and of fp32 that once was bf16 or fp16.
  template <int CodeBits>
  status by_kept() const {
    const auto kept = detail::kept_mask(*packed.how);
    const int bits = count_runs(kept) <= 2 ? std::popcount(kept) : 0;
    if (packed.how->element_bytes == 4) {
      if (bits == 24) return read_exponents<std::uint32_t, CodeBits, 24>();
      if (bits == 11) return read_exponents<std::uint32_t, CodeBits, 11>();
      if (bits == 8) return read_exponents<std::uint32_t, CodeBits, 8>();
      return read_exponents<std::uint32_t, CodeBits, 0>();
    }
    if (bits == 11) return read_exponents<std::uint16_t, CodeBits, 11>();
    if (packed.how->format == number_format::bfloat16 && bits == 8) {
      return read_exponents<std::uint16_t, CodeBits, 8>();
    }
    return read_exponents<std::uint16_t, CodeBits, 0>();
  }

  status operator()() const {
    if (output.rows == 0 || packed.how->width == 0) return success();
    switch (packed.how->how) {
      case codec::exponent:
        return packed.how->exponent.code_bits == 2 ? by_kept<2>() : by_kept<3>();
      case codec::invariant:
        return by_word<invariant_reader>(packed.how->invariant.unit_bytes);
      case codec::sparse:
        return by_word<sparse_reader>(packed.how->element_bytes);
      default:
        return read_raw();
    }
  }
};

}  // namespace

namespace detail {

status check_read(const context& ctx, const packed_view& v, const mutable_table_view& out,
                  row_faults* faults, std::int32_t most_multiprocessors) {
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (most_multiprocessors < 0)
    return wrong_argument("most_multiprocessors: negative", 0, most_multiprocessors);
  if (auto s = check_packed(v); !s.ok()) return s;
  if (auto s = check_table(out, *v.how, output_messages); !s.ok()) return s;
  if (!is_aligned(out)) return wrong_argument("output: elements are not aligned");
  for (auto s :
       {check_device_pointer(out.data, out.rows * out.width, output_messages.null, ctx.device),
        check_device_pointer(faults, faults != nullptr ? 1 : 0, "faults: not device memory",
                             ctx.device)}) {
    if (!s.ok()) return s;
  }
  if (auto s = check_apart(out, v, "output: overlaps the packed rows"); !s.ok()) return s;
  return check_on_device(ctx, v);
}

status clear(const context& ctx, row_faults* faults) {
  if (faults == nullptr) return success();
  return from_cuda(cudaMemsetAsync(faults, 0xff, sizeof(row_faults), ctx.stream), "faults");
}

status read_rows(const context& ctx, const packed_view& v, const stage_window& stage,
                 std::int64_t first_row, const mutable_table_view& output, row_faults* faults,
                 std::int32_t most_multiprocessors) {
  return read_job<rows_in_order>{ctx,  v, output, {first_row}, faults, most_multiprocessors,
                                 stage}();
}

}  // namespace detail

status unpack(const context& ctx, const unpack_args& a) {
  const detail::trace_range range("unpack");
  const device_guard guard(ctx.device);
  if (auto s = detail::check_read(ctx, a.packed, a.output, a.faults, a.most_multiprocessors);
      !s.ok()) {
    return s;
  }
  if (a.first_row < 0 || a.first_row > a.packed.rows - a.output.rows) {
    return failure(status_code::out_of_range, "first_row: rows that are not there", a.first_row,
                   a.packed.rows, a.first_row);
  }
  if (auto s = detail::clear(ctx, a.faults); !s.ok()) return s;
  return detail::read_rows(ctx, a.packed, {}, a.first_row, a.output, a.faults,
                           a.most_multiprocessors);
}

template <class I>
status gather_rows(const context& ctx, const gather_rows_args<I>& a) {
  const detail::trace_range range("gather_rows");
  const device_guard guard(ctx.device);
  if (auto s = detail::check_read(ctx, a.packed, a.output, a.faults, a.most_multiprocessors);
      !s.ok()) {
    return s;
  }
  if (a.output.rows != a.ids.extent(0)) {
    return detail::wrong_argument("output: rows are not as many as ids", a.ids.extent(0),
                                  a.output.rows);
  }
  if (a.ids.extent(0) > 0 && a.ids.data_handle() == nullptr) {
    return detail::wrong_argument("ids: null");
  }
  if (a.packed.rows == 0 && a.ids.extent(0) > 0) {
    return failure(status_code::out_of_range, "ids: there are no rows", 0);
  }
  const bool ordered = a.order.data_handle() != nullptr;
  if (ordered && a.order.extent(0) != a.ids.extent(0)) {
    return detail::wrong_argument("order: not as long as ids", a.ids.extent(0), a.order.extent(0));
  }
  for (auto s : {check_device_pointer(a.ids.data_handle(), a.ids.extent(0),
                                      "ids: not device memory", ctx.device),
                 check_device_pointer(a.order.data_handle(), ordered ? a.ids.extent(0) : 0,
                                      "order: not device memory", ctx.device)}) {
    if (!s.ok()) return s;
  }
  if (auto s = detail::clear(ctx, a.faults); !s.ok()) return s;
  const rows_by_id choice{a.ids.data_handle(), a.order.data_handle(), a.packed.rows,
                          static_cast<std::int32_t>(sizeof(I)), a.policy};
  return read_job<rows_by_id>{ctx, a.packed, a.output, choice, a.faults, a.most_multiprocessors}();
}
template status gather_rows(const context&, const gather_rows_args<std::int32_t>&);
template status gather_rows(const context&, const gather_rows_args<std::int64_t>&);

}  // namespace quipu
