// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

namespace quipu::cli {

void fail(const std::string& where, const status& s) {
  std::string text = where;
  status rest = s;
  if (s.code == status_code::parse_error && s.position > 0) {
    text += ":" + std::to_string(s.position);
    rest.position = -1;  // said
  }
  text += ": " + describe(rest);
  if (is_bad_input(s.code)) throw bad_input(text);
  throw std::runtime_error(text);
}

}  // namespace quipu::cli
