// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <cstring>

namespace quipu::cli {

void fail(const std::string& where, const status& s) {
  std::string text = where;
  if (s.code == status_code::parse_error && s.position > 0)
    text += ":" + std::to_string(s.position);
  text += ": " + describe(s);
  if (s.code == status_code::io_error && s.native != 0) {
    text += std::string(": ") + std::strerror(s.native);
  }
  if (is_bad_input(s.code)) throw bad_input(text);
  throw std::runtime_error(text);
}

}  // namespace quipu::cli
