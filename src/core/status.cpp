// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/status.hpp"

#include <cuda_runtime_api.h>

#include <cstring>

namespace quipu {

namespace {

// The two numbers of a status, in words.
std::string numbers(const status& s) {
  if (s.expected == 0 && s.actual == 0) return {};
  const auto expected = std::to_string(s.expected), actual = std::to_string(s.actual);
  if (s.code == status_code::workspace_too_small) {
    return " (" + expected + " bytes needed, " + actual + " given)";
  }
  if (s.code == status_code::out_of_memory) return " (" + expected + " bytes wanted)";
  return " (expected " + expected + ", got " + actual + ")";
}

// A position follows its noun, which ends the message; of a parse error it is a line, 0 for none.
std::string place(const status& s) {
  if (s.code != status_code::parse_error) {
    return s.position < 0 ? std::string() : " " + std::to_string(s.position);
  }
  return s.position <= 0 ? std::string() : " in line " + std::to_string(s.position);
}

// What the vendor's code means; the codes of other failures add nothing.
std::string cause(const status& s) {
  if (s.native == 0) return {};
  if (s.code == status_code::io_error) return std::string(": ") + std::strerror(s.native);
  if (s.code == status_code::cusparse_error) return ": cuSPARSE status " + std::to_string(s.native);
  if (s.code == status_code::cuda_error || s.code == status_code::no_device ||
      s.code == status_code::out_of_memory) {
    return std::string(": ") + cudaGetErrorString(static_cast<cudaError_t>(s.native));
  }
  return {};
}

}  // namespace

std::string describe(const status& s) {
  if (s.ok()) return "ok";
  return s.message + place(s) + numbers(s) + cause(s);
}

}  // namespace quipu
