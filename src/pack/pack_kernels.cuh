// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/record_kernels.cuh"

namespace quipu::detail {

/// sizes[record]: bytes, or those of its elements with whole_flag.
template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    measure_records(const Writer writer, const device_input input, std::uint32_t* sizes) {
  constexpr int lanes = Writer::lanes;
  __shared__ typename Writer::block_shared block;
  writer.prepare(block);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (auto r = first_record<lanes>(); r < input.all; r += record_step<lanes>()) {
    const auto part = input[r];
    const int size = writer.size(lane, part.elements, part.column, part.count, block);
    if (lane == 0) sizes[r] = stored_size(size, part.count * input.element_bytes);
  }
}

/// Slots; sizes[record] becomes more than a slot's where a record does not fit.
template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    write_slots(const Writer writer, const device_input input, std::uint32_t* sizes,
                std::byte* bytes, const std::int64_t slot_bytes) {
  constexpr int lanes = Writer::lanes;
  __shared__ typename Writer::block_shared block;
  __shared__ typename Writer::warp_shared own[pack_groups<lanes>];
  writer.prepare(block);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (auto r = first_record<lanes>(); r < input.all; r += record_step<lanes>()) {
    const auto part = input[r];
    const bool fits = writer.write(lane, part.elements, part.column, part.count,
                                   bytes + r * slot_bytes, block, own[threadIdx.x / lanes]);
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
      point_to_overflow(lane, bytes + r * slot_bytes, static_cast<int>(slot_bytes), number);
      const auto at = input.all * slot_bytes + std::int64_t{number} * record_bytes;
      if (at + record_bytes > room) continue;
      put_whole(lane, part.elements, bytes + at, part.count * input.element_bytes, record_bytes);
    }
  }
}

/// Records one behind the other, and their addresses.
template <class Writer>
__global__ void __launch_bounds__(pack_threads)
    write_addressed(const Writer writer, const device_input input, const std::uint32_t* sizes,
                    const std::int64_t* granules, std::byte* bytes, const std::int64_t room,
                    const int granule, std::uint32_t* addresses) {
  constexpr int lanes = Writer::lanes;
  __shared__ typename Writer::warp_shared own[pack_groups<lanes>];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (auto r = first_record<lanes>(); r < input.all; r += record_step<lanes>()) {
    const auto part = input[r];
    const auto flag = sizes[r] & whole_flag;
    const auto size = static_cast<int>(sizes[r] & ~whole_flag);
    if (granules[r] >= whole_flag) continue;  // its address does not fit
    if (granules[r] * granule + round_up(size, granule) > room) continue;
    std::byte* to = bytes + granules[r] * granule;
    if (lane == 0) addresses[r] = static_cast<std::uint32_t>(granules[r]) | flag;
    put_addressed(writer, lane, part, sizes[r], granule, to, own[threadIdx.x / lanes]);
  }
}

/// As with_writer, but records that are short take no more lanes than they have vectors.
template <class Use>
auto with_narrow_writer(const packing& p, Use&& use) {
  const auto vectors = (record_shape(p.width).elements * p.element_bytes + 15) / 16;
  if (p.how == codec::exponent) {
    return with_exponents(p, [&]<class Word, int Kept>() {
      return with_lanes(vectors, [&]<int Lanes>() {
        return use.template operator()<exponent_writer<Word, Kept, Lanes>>();
      });
    });
  }
  if (p.how == codec::sparse) {
    return with_word(p.element_bytes, [&]<class Word>() {
      return with_lanes(vectors, [&]<int Lanes>() {
        return use.template operator()<sparse_writer<Word, Lanes>>();
      });
    });
  }
  return with_writer(p, use);
}

}  // namespace quipu::detail
