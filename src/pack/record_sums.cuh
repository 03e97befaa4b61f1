// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_scan.cuh>

#include "quipu/core/context.hpp"
#include "quipu/core/workspace.hpp"

namespace quipu::detail {

/// Of a record, and 0 behind the last one.
template <class Sum, class Of>
struct of_record {
  Of of;
  std::int64_t records;
  __host__ __device__ Sum operator()(std::int64_t r) const {
    return r < records ? static_cast<Sum>(of(r)) : Sum{0};
  }
};

/// values[record] = the sum over the records before it, and behind the last one over all; of what
/// an `Of` makes of a record.
template <class Sum, class Of>
struct record_sums {
  Sum* values;

  record_sums(const context& ctx, arena& scratch, std::int64_t records)
      : values(scratch.take<Sum>(records + 1)), records_(records) {
    (void)scan(ctx, Of{}, nullptr, temporary_bytes_);
    temporary_ = scratch.take<char>(static_cast<std::int64_t>(temporary_bytes_));
  }
  status add(const context& ctx, const Of& of) const {
    auto bytes = temporary_bytes_;
    return from_cuda(scan(ctx, of, temporary_, bytes), "pack: sum");
  }

 private:
  /// Called without memory it only tells how much it wants.
  cudaError_t scan(const context& ctx, const Of& of, void* temporary, std::size_t& bytes) const {
    const auto counting = thrust::make_transform_iterator(
        thrust::make_counting_iterator(std::int64_t{0}), of_record<Sum, Of>{of, records_});
    return cub::DeviceScan::ExclusiveSum(temporary, bytes, counting, values, records_ + 1,
                                         ctx.stream);
  }

  std::int64_t records_;
  char* temporary_;
  std::size_t temporary_bytes_ = 0;
};

}  // namespace quipu::detail
