// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/record_writers.cuh"
#include "quipu/pack/table.hpp"

namespace quipu::detail {

constexpr int pack_threads = 256;
constexpr int pack_warps = pack_threads / warp_lanes;

/// The table, record by record.
struct device_input {
  const std::byte* data;
  std::int64_t stride, records, width, all;
  std::int32_t elements, element_bytes;

  explicit device_input(const table_view& t)
      : data(t.data), stride(t.row_stride), width(t.width), element_bytes(t.element_bytes) {
    const record_shape shape(t.width);
    records = shape.records;
    elements = static_cast<std::int32_t>(shape.elements);
    all = t.rows * records;
  }
  struct part {
    const std::byte* elements;
    std::int64_t column;
    int count;
  };
  __device__ part operator[](std::int64_t record) const {
    const auto row = records == 1 ? record : record / records;
    const auto k = records == 1 ? 0 : record - row * records;
    const auto column = k * elements;
    return {data + row * stride + column * element_bytes, column,
            k + 1 < records ? elements : static_cast<int>(width - column)};
  }
};

__device__ inline std::int64_t first_record() {
  return std::int64_t{blockIdx.x} * pack_warps + threadIdx.x / warp_lanes;
}
__device__ inline std::int64_t record_step() { return std::int64_t{gridDim.x} * pack_warps; }

/// sizes[record]: bytes, or those of its elements with whole_flag.
template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    measure_records(const Writer writer, const device_input input, std::uint32_t* sizes) {
  __shared__ typename Writer::block_shared block;
  writer.prepare(block);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  for (auto r = first_record(); r < input.all; r += record_step()) {
    const auto part = input[r];
    const int size = writer.size(lane, part.elements, part.column, part.count, block);
    if (lane == 0) {
      sizes[r] = size < 0
                     ? static_cast<std::uint32_t>(part.count * input.element_bytes) | whole_flag
                     : static_cast<std::uint32_t>(size);
    }
  }
}

__device__ inline void copy_record(int lane, const std::byte* from, std::byte* to, int bytes) {
  for (int b = lane; b < bytes; b += warp_lanes) to[b] = from[b];
}

/// Slots; sizes[record] becomes more than a slot's where a record does not fit.
template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    write_slots(const Writer writer, const device_input input, std::uint32_t* sizes,
                std::byte* bytes, const std::int64_t slot_bytes) {
  __shared__ typename Writer::block_shared block;
  __shared__ typename Writer::warp_shared own[pack_warps];
  writer.prepare(block);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  for (auto r = first_record(); r < input.all; r += record_step()) {
    const auto part = input[r];
    const bool fits = writer.write(lane, part.elements, part.column, part.count,
                                   bytes + r * slot_bytes, block, own[threadIdx.x / warp_lanes]);
    if (lane == 0) sizes[r] = static_cast<std::uint32_t>(slot_bytes) + (fits ? 0u : 1u);
  }
}

/// Records that do not fit their slots, behind all slots. numbers[record]: how many of the records
/// before it do not. A warp looks at 32 records at a time.
static __global__ void __launch_bounds__(pack_threads)
    write_overflow(const device_input input, const std::uint32_t* sizes,
                   const std::uint32_t* numbers, std::byte* bytes, const std::int64_t room,
                   const std::int64_t slot_bytes) {
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const int record_bytes = input.elements * input.element_bytes;
  for (auto first = first_record() * warp_lanes; first < input.all;
       first += record_step() * warp_lanes) {
    const bool over = first + lane < input.all && sizes[first + lane] > slot_bytes;
    for (auto left = __ballot_sync(~0u, over); left != 0; left &= left - 1) {
      const auto r = first + __ffs(static_cast<int>(left)) - 1;
      const auto part = input[r];
      const auto number = numbers[r];
      std::byte* slot = bytes + r * slot_bytes;
      clear_bytes(lane, slot, 4, static_cast<int>(slot_bytes) - 1);
      if (lane < 4) slot[lane] = static_cast<std::byte>(number >> (8 * lane));
      if (lane == 0) slot[slot_bytes - 1] = overflow_tag;
      const auto at = input.all * slot_bytes + std::int64_t{number} * record_bytes;
      if (at + record_bytes > room) continue;
      copy_record(lane, part.elements, bytes + at, part.count * input.element_bytes);
      clear_bytes(lane, bytes + at, part.count * input.element_bytes, record_bytes);
    }
  }
}

/// Records one behind the other, and their addresses.
template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    write_addressed(const Writer writer, const device_input input, const std::uint32_t* sizes,
                    const std::int64_t* granules, std::byte* bytes, const std::int64_t room,
                    const int granule, std::uint32_t* addresses) {
  __shared__ typename Writer::block_shared block;
  __shared__ typename Writer::warp_shared own[pack_warps];
  writer.prepare(block);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  for (auto r = first_record(); r < input.all; r += record_step()) {
    const auto part = input[r];
    const auto flag = sizes[r] & whole_flag;
    const auto size = static_cast<int>(sizes[r] & ~whole_flag);
    if (granules[r] >= whole_flag) continue;  // its address does not fit
    if (granules[r] * granule + round_up(size, granule) > room) continue;
    std::byte* to = bytes + granules[r] * granule;
    if (lane == 0) addresses[r] = static_cast<std::uint32_t>(granules[r]) | flag;
    if (flag != 0) {
      copy_record(lane, part.elements, to, size);
    } else {
      writer.write(lane, part.elements, part.column, part.count, to, block,
                   own[threadIdx.x / warp_lanes]);
    }
    clear_bytes(lane, to, size, static_cast<int>(round_up(size, granule)));
  }
}

}  // namespace quipu::detail
