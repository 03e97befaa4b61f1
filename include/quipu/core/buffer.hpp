// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "quipu/core/context.hpp"
#include "quipu/core/status.hpp"

namespace quipu {

enum class memory_kind : std::uint8_t { host, pinned, device };

namespace detail {
// Zero bytes give a null pointer and no error.
status allocate(memory_kind, std::int32_t device, std::size_t bytes, void** out) noexcept;
void release(memory_kind, std::int32_t device, void* data) noexcept;
status copy_bytes(const context&, void* to, const void* from, std::size_t bytes) noexcept;

/// True if the bytes of `size` elements can be counted.
template <class T>
constexpr bool addressable(std::int64_t size) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return size <= most / static_cast<std::int64_t>(sizeof(T));
}
}  // namespace detail

/// Owns memory of trivially copyable elements on the host, in pinned host memory or on a device.
/// Contents start undefined. Move-only. Errors of `make`: invalid_argument for a negative size,
/// out_of_memory with the bytes wanted in `expected`.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  buffer(buffer&& other) noexcept { swap(other); }
  buffer& operator=(buffer&& other) noexcept {
    buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~buffer() { detail::release(kind_, device_, data_); }

  static result<buffer> make(memory_kind kind, std::int32_t device, std::int64_t size) {
    if (size < 0) return failure(status_code::invalid_argument, "buffer: size is negative");
    if (!detail::addressable<T>(size)) {
      return failure(status_code::out_of_memory, "buffer: larger than any memory");
    }
    buffer b;
    void* data = nullptr;
    const auto bytes = static_cast<std::size_t>(size) * sizeof(T);
    if (auto s = detail::allocate(kind, device, bytes, &data); !s.ok()) return s;
    b.data_ = static_cast<T*>(data);
    b.size_ = size;
    b.kind_ = kind;
    b.device_ = device;
    return result<buffer>(std::move(b));
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(T); }
  memory_kind kind() const noexcept { return kind_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  void swap(buffer& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(kind_, o.kind_);
    std::swap(device_, o.device_);
  }
  T* data_ = nullptr;
  std::int64_t size_ = 0;
  memory_kind kind_ = memory_kind::host;
  std::int32_t device_ = 0;
};

template <class T>
result<buffer<T>> make_device_buffer(const context& ctx, std::int64_t size) {
  return buffer<T>::make(memory_kind::device, ctx.device, size);
}
template <class T>
result<buffer<T>> make_pinned_buffer(const context& ctx, std::int64_t size) {
  return buffer<T>::make(memory_kind::pinned, ctx.device, size);
}
template <class T>
result<buffer<T>> make_host_buffer(std::int64_t size) {
  return buffer<T>::make(memory_kind::host, 0, size);
}

/// Copies host elements into a new device buffer; waits for the copy.
template <class T>
result<buffer<T>> to_device(const context& ctx, const T* data, std::int64_t size) {
  auto b = make_device_buffer<T>(ctx, size);
  if (!b) return b;
  if (auto s = detail::copy_bytes(ctx, b->data(), data, b->bytes()); !s.ok()) return s;
  return b;
}
template <class T>
result<buffer<T>> to_device(const context& ctx, const std::vector<T>& v) {
  return to_device(ctx, v.data(), static_cast<std::int64_t>(v.size()));
}

/// Copies device elements into a vector; waits for the stream. Errors: invalid_argument for a
/// negative size, out_of_memory, cuda_error.
template <class T>
result<std::vector<std::remove_const_t<T>>> to_host(const context& ctx, T* data,
                                                    std::int64_t size) {
  if (size < 0) return failure(status_code::invalid_argument, "to_host: size is negative");
  std::vector<std::remove_const_t<T>> v;
  try {
    v.resize(static_cast<std::size_t>(size));
  } catch (const std::exception&) {  // bad_alloc or length_error
    return failure(status_code::out_of_memory, "out of host memory", -1,
                   detail::addressable<T>(size) ? size * static_cast<std::int64_t>(sizeof(T)) : 0);
  }
  if (auto s = detail::copy_bytes(ctx, v.data(), data, v.size() * sizeof(T)); !s.ok()) return s;
  return v;
}
template <class T>
result<std::vector<T>> to_host(const context& ctx, const buffer<T>& b) {
  return to_host(ctx, b.data(), b.size());
}

}  // namespace quipu
