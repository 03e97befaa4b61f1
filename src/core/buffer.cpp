// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/buffer.hpp"

#include <cstring>
#include <new>

namespace quipu::detail {

namespace {
constexpr std::align_val_t host_alignment{64};

status out_of_memory(const char* message, std::size_t bytes) noexcept {
  return failure(status_code::out_of_memory, message, -1, static_cast<std::int64_t>(bytes));
}
}  // namespace

status allocate(memory_kind kind, std::int32_t device, std::size_t bytes, void** out) noexcept {
  *out = nullptr;
  if (bytes == 0) return success();
  if (kind == memory_kind::host) {
    *out = ::operator new(bytes, host_alignment, std::nothrow);
    if (*out != nullptr) return success();
    return out_of_memory("out of host memory", bytes);
  }
  const device_guard guard(device);
  const bool pinned = kind == memory_kind::pinned;
  const auto error = pinned ? cudaMallocHost(out, bytes) : cudaMalloc(out, bytes);
  const status s = from_cuda(error, pinned ? "pinned memory" : "device memory");
  if (s.code != status_code::out_of_memory) return s;
  return out_of_memory(pinned ? "out of pinned memory" : "out of device memory", bytes);
}

void release(memory_kind kind, std::int32_t device, void* data) noexcept {
  if (data == nullptr) return;
  if (kind == memory_kind::host) return ::operator delete(data, host_alignment);
  const device_guard guard(device);
  (void)(kind == memory_kind::pinned ? cudaFreeHost(data) : cudaFree(data));
}

status copy_bytes(const context& ctx, void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return success();
  const device_guard guard(ctx.device);
  if (auto e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, ctx.stream); e != cudaSuccess) {
    return from_cuda(e, "copy");
  }
  return from_cuda(cudaStreamSynchronize(ctx.stream), "copy");
}

}  // namespace quipu::detail
