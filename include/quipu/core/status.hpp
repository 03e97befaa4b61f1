// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace quipu {

enum class status_code : std::int32_t {
  ok = 0,
  invalid_argument,     ///< an argument breaks a stated rule; `message` names it
  out_of_range,         ///< an id or offset lies outside its range; `position` says which
  unsupported,          ///< legal, but not offered for this type or device
  workspace_too_small,  ///< `expected` and `actual` hold both sizes in bytes
  out_of_memory,        ///< `expected` holds the bytes wanted, where they are known
  no_device,            ///< no usable GPU
  cuda_error,           ///< `native` holds the cudaError_t
  io_error,             ///< a file cannot be opened, read or written
  cusparse_error,       ///< `native` holds the cusparseStatus_t
  parse_error,          ///< a file's content is malformed; `position` is the line, 0 when binary
};

/// Outcome of a call. Never allocates; `message` points to static text.
struct [[nodiscard]] status {
  status_code code = status_code::ok;
  std::int32_t native = 0;     ///< vendor code (cudaError_t, errno), 0 when there is none
  const char* message = "";    ///< static text that names the argument or the cause
  std::int64_t position = -1;  ///< row, edge or line the message speaks of, -1 for none
  std::int64_t expected = 0;   ///< with workspace_too_small and size mismatches
  std::int64_t actual = 0;

  constexpr bool ok() const noexcept { return code == status_code::ok; }
  constexpr explicit operator bool() const noexcept { return ok(); }
};

constexpr status success() noexcept { return {}; }

constexpr status failure(status_code code, const char* message, std::int64_t position = -1,
                         std::int64_t expected = 0, std::int64_t actual = 0) noexcept {
  return {code, 0, message, position, expected, actual};
}

/// One line for people: the message, where it happened, the numbers that disagree, and what the
/// system or the CUDA runtime says about `native`. Nothing is said twice, so do not add to it.
std::string describe(const status& s);

/// A value, or the status that says why there is none. A status that says ok is no such reason and
/// becomes invalid_argument.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)) {}
  result(status error) : error_(error) {
    if (error_.ok()) {
      error_ = failure(status_code::invalid_argument, "result: an ok status, but no value");
    }
  }

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const status& error() const noexcept { return error_; }

  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  status error_{};
};

/// What `check` throws.
class error : public std::runtime_error {
 public:
  explicit error(const status& s) : std::runtime_error(describe(s)), status_(s) {}
  const status& what_status() const noexcept { return status_; }

 private:
  status status_;
};

/// For those who like exceptions: throws `error` unless the call went well.
inline void check(const status& s) {
  if (!s.ok()) throw error(s);
}
template <class T>
T check(result<T>&& r) {
  if (!r.ok()) throw error(r.error());
  return *std::move(r);
}

}  // namespace quipu
