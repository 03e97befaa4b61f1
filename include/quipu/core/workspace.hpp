// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "quipu/core/status.hpp"

namespace quipu {

/// Scratch memory lent by the caller for one call. Device verbs want device memory here.
struct workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Lays scratch out. A counting arena (no memory) and a binding arena run the same code, so the
/// size query and the call cannot drift apart.
class arena {
 public:
  arena() = default;
  explicit arena(workspace w) : base_(static_cast<std::byte*>(w.data)), limit_(w.bytes) {}

  /// `count` elements on a 256-byte border; null while counting or when the space ran out.
  template <class T>
  T* take(std::int64_t count) noexcept {
    const std::size_t begin = (used_ + alignment - 1) / alignment * alignment;
    used_ = begin + static_cast<std::size_t>(count) * sizeof(T);
    peak_ = used_ > peak_ ? used_ : peak_;
    if (base_ == nullptr || used_ > limit_) return nullptr;
    return reinterpret_cast<T*>(base_ + begin);
  }

  /// What is taken while a loan lives is given back when it ends, to kernels that come after it on
  /// the same stream, and that wait before they write.
  class loan {
   public:
    explicit loan(arena& from) : from_(from), used_(from.used_) {}
    ~loan() { from_.used_ = used_; }
    loan(const loan&) = delete;
    loan& operator=(const loan&) = delete;

   private:
    arena& from_;
    std::size_t used_;
  };

  /// The most that was taken at a time.
  std::size_t bytes() const noexcept { return peak_; }

  /// Errors: workspace_too_small with both sizes, invalid_argument for a misaligned start.
  status fits() const noexcept {
    if (peak_ == 0) return success();
    if (base_ == nullptr || peak_ > limit_) {
      return failure(status_code::workspace_too_small, "workspace: too small", -1,
                     static_cast<std::int64_t>(peak_), static_cast<std::int64_t>(limit_));
    }
    if (reinterpret_cast<std::uintptr_t>(base_) % 16 != 0) {
      return failure(status_code::invalid_argument, "workspace: not aligned to 16 bytes");
    }
    return success();
  }

 private:
  static constexpr std::size_t alignment = 256;
  std::byte* base_ = nullptr;
  std::size_t limit_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace quipu
