// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/npy.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace {

void demand(bool truth) {
  if (!truth) std::abort();
}

}  // namespace

/// Any bytes give an array whose data matches its shape, and which converts or says why not.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto array = quipu::parse_npy(std::as_bytes(std::span(data, size)));
  if (!array.ok()) {
    demand(array.error().message[0] != '\0');
    return 0;
  }
  const std::int64_t count = quipu::npy_count(array->shape, array->kind);
  demand(count >= 0 && array->data.size() <= size);
  const auto as_double = quipu::npy_as<double>(*array);
  demand(as_double.ok() && as_double->size() == static_cast<std::size_t>(count));
  const auto accept = [&](const auto& converted) {
    demand(converted.ok() ? converted->size() == static_cast<std::size_t>(count)
                          : converted.error().position < count);
  };
  accept(quipu::npy_as<float>(*array));
  accept(quipu::npy_as<std::int64_t>(*array));
  accept(quipu::npy_as<std::int32_t>(*array));
  return 0;
}
