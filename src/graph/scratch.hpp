// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "quipu/core/context.hpp"

namespace quipu::detail {

/// Device memory for the length of one make_* call, taken and given back in stream order.
template <class T>
class scratch {
 public:
  scratch() = default;
  scratch(scratch&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(o.size_), stream_(o.stream_) {}
  scratch& operator=(scratch&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(stream_, o.stream_);
    return *this;
  }
  ~scratch() {
    if (data_ != nullptr) (void)cudaFreeAsync(data_, stream_);
  }

  static result<scratch> make(const context& ctx, std::int64_t size) {
    scratch s;
    s.stream_ = ctx.stream;
    s.size_ = size;
    void* data = nullptr;
    if (size > 0) {
      const auto bytes = static_cast<std::size_t>(size) * sizeof(T);
      if (auto e = cudaMallocAsync(&data, bytes, ctx.stream); e != cudaSuccess) {
        status failed = from_cuda(e, "scratch memory");
        if (failed.code == status_code::out_of_memory) {
          failed.expected = static_cast<std::int64_t>(bytes);
        }
        return failed;
      }
    }
    s.data_ = static_cast<T*>(data);
    return result<scratch>(std::move(s));
  }

  T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return size_; }

 private:
  T* data_ = nullptr;
  std::int64_t size_ = 0;
  cudaStream_t stream_ = nullptr;
};

/// Inside make_* calls a failure unwinds as an exception; the public function turns it back into a
/// status (see `as_result`). Nothing escapes.
struct build_failure {
  status reason;
};
inline void require(const status& s) {
  if (!s.ok()) throw build_failure{s};
}
inline void require(cudaError_t e, const char* what) { require(from_cuda(e, what)); }
template <class T>
T require(result<T>&& r) {
  if (!r.ok()) throw build_failure{r.error()};
  return *std::move(r);
}

template <class Result, class Body>
Result as_result(Body&& body) noexcept {
  try {
    return body();
  } catch (const build_failure& f) {
    return f.reason;
  } catch (const std::exception&) {
    return failure(status_code::out_of_memory, "host memory");
  }
}

}  // namespace quipu::detail
