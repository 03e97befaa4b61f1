// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/status.hpp"

#include <cuda_runtime_api.h>

#include <cstring>

namespace quipu {

std::string describe(const status& s) {
  if (s.ok()) return "ok";
  std::string text = s.message;
  if (s.code == status_code::workspace_too_small) {
    text += " (" + std::to_string(s.expected) + " bytes needed, " + std::to_string(s.actual) +
            " given)";
  } else if (s.expected != 0 || s.actual != 0) {
    text += " (expected " + std::to_string(s.expected) + ", got " + std::to_string(s.actual) + ")";
  }
  if (s.position >= 0) {
    const bool line = s.code == status_code::parse_error;
    text += (line ? " in line " : " ") + std::to_string(s.position);
  }
  if (s.code == status_code::io_error && s.native != 0) {
    text += std::string(": ") + std::strerror(s.native);
  }
  if (s.code == status_code::cuda_error || s.code == status_code::no_device) {
    text += std::string(": ") + cudaGetErrorString(static_cast<cudaError_t>(s.native));
  }
  return text;
}

}  // namespace quipu
