// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/context.hpp"

namespace quipu {

status from_cuda(cudaError_t error, const char* what) noexcept {
  if (error == cudaSuccess) return success();
  (void)cudaGetLastError();  // not sticky: the next call starts clean
  const auto code = error == cudaErrorMemoryAllocation ? status_code::out_of_memory
                    : error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver
                        ? status_code::no_device
                        : status_code::cuda_error;
  status s = failure(code, what);
  s.native = static_cast<std::int32_t>(error);
  return s;
}

status check_stream(cudaStream_t stream) noexcept {
  if (stream != nullptr && stream != cudaStreamLegacy) return success();
  return failure(status_code::invalid_argument, "stream: null or the legacy default; make one");
}

result<context> make_context(cudaStream_t stream, std::int32_t device) {
  if (auto s = check_stream(stream); !s.ok()) return s;
  int count = 0;
  if (auto e = cudaGetDeviceCount(&count); e != cudaSuccess) return from_cuda(e, "no usable GPU");
  if (count == 0) return from_cuda(cudaErrorNoDevice, "no usable GPU");
  if (device < 0) {
    if (auto e = cudaGetDevice(&device); e != cudaSuccess) return from_cuda(e, "cudaGetDevice");
  }
  if (device >= count) {
    return failure(status_code::invalid_argument, "device: no such device", -1, count - 1, device);
  }
  context c;
  c.device = device;
  c.stream = stream;
  int value = 0;
  const auto read = [&](cudaDeviceAttr attribute) {
    return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
  };
  c.arch.major = read(cudaDevAttrComputeCapabilityMajor);
  c.arch.minor = read(cudaDevAttrComputeCapabilityMinor);
  c.multiprocessors = read(cudaDevAttrMultiProcessorCount);
  c.l2_bytes = read(cudaDevAttrL2CacheSize);
  if (c.multiprocessors == 0) return from_cuda(cudaGetLastError(), "device: attributes unreadable");
  return c;
}

status synchronize(const context& ctx) {
  return from_cuda(cudaStreamSynchronize(ctx.stream), "synchronize");
}

device_guard::device_guard(std::int32_t device) noexcept {
  int current = device;
  if (cudaGetDevice(&current) == cudaSuccess && current != device) {
    if (cudaSetDevice(device) == cudaSuccess) former_ = current;
  }
}

device_guard::~device_guard() {
  if (former_ >= 0) (void)cudaSetDevice(former_);
}

status check_device_pointer(const void* data, std::int64_t count, const char* what,
                            std::int32_t device) noexcept {
  if (count == 0) return success();
  if (data == nullptr) return failure(status_code::invalid_argument, what);
  cudaPointerAttributes attributes{};
  if (auto e = cudaPointerGetAttributes(&attributes, data); e != cudaSuccess) {
    return from_cuda(e, what);
  }
  if (attributes.type == cudaMemoryTypeUnregistered) {
    return failure(status_code::invalid_argument, what);
  }
  // Managed and pinned memory can be read from every device.
  if (device >= 0 && attributes.type == cudaMemoryTypeDevice && attributes.device != device) {
    return failure(status_code::invalid_argument, what, -1, device, attributes.device);
  }
  return success();
}

}  // namespace quipu
