// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/buffer.hpp"

#include <cstring>
#include <new>

namespace quipu::detail {

namespace {
constexpr std::align_val_t host_alignment{64};
}

status allocate(memory_kind kind, std::int32_t device, std::size_t bytes, void** out) noexcept {
  *out = nullptr;
  if (bytes == 0) return success();
  if (kind == memory_kind::host) {
    *out = ::operator new(bytes, host_alignment, std::nothrow);
    if (*out != nullptr) return success();
    return failure(status_code::out_of_memory, "host memory", -1, static_cast<std::int64_t>(bytes));
  }
  const device_guard guard(device);
  if (kind == memory_kind::pinned) return from_cuda(cudaMallocHost(out, bytes), "pinned memory");
  return from_cuda(cudaMalloc(out, bytes), "device memory");
}

void release(memory_kind kind, std::int32_t device, void* data) noexcept {
  if (data == nullptr) return;
  if (kind == memory_kind::host) return ::operator delete(data, host_alignment);
  const device_guard guard(device);
  (void)(kind == memory_kind::pinned ? cudaFreeHost(data) : cudaFree(data));
}

status copy_bytes(const context* ctx, void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return success();
  const device_guard guard(ctx->device);
  if (auto e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, ctx->stream); e != cudaSuccess) {
    return from_cuda(e, "copy");
  }
  return from_cuda(cudaStreamSynchronize(ctx->stream), "copy");
}

}  // namespace quipu::detail
