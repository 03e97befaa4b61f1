// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "quipu/core/status.hpp"

namespace quipu::cli {

/// The caller's mistake: exit code 2. The text says where and what.
struct bad_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// True for what a different file or option would cure.
inline bool is_bad_input(status_code code) {
  return code == status_code::invalid_argument || code == status_code::out_of_range ||
         code == status_code::unsupported || code == status_code::io_error ||
         code == status_code::parse_error;
}

/// Throws `where: what`, or `where:LINE: what` when a text file has a bad line; bad_input where
/// `is_bad_input`.
[[noreturn]] void fail(const std::string& where, const status& s);

inline void require(const std::string& where, const status& s) {
  if (!s.ok()) fail(where, s);
}
template <class T>
T require(const std::string& where, result<T>&& r) {
  if (!r.ok()) fail(where, r.error());
  return *std::move(r);
}

}  // namespace quipu::cli
