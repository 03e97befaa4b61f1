// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/edge_list.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void demand(bool truth) {
  if (!truth) std::abort();
}

}  // namespace

/// The first byte picks the options. Any text gives edges between the nodes or an error with a
/// line, the same for any thread count.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr char separators[] = {'\0', ' ', ',', ';'};
  const quipu::edge_list_options options{
      .base = (data[0] & 1) != 0 ? quipu::id_base::one : quipu::id_base::zero,
      .nodes = (data[0] & 2) != 0 ? 1000 : 0,
      .separator = separators[data[0] >> 2 & 3]};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto one = quipu::parse_edge_list(text, options, 1);
  const auto three = quipu::parse_edge_list(text, options, 3);
  demand(one.ok() == three.ok());
  if (!one.ok()) {
    demand(one.error().position == three.error().position && one.error().position >= 1);
    demand(std::string_view(one.error().message) == three.error().message);
    return 0;
  }
  demand(one->row == three->row && one->column == three->column && one->rows == three->rows);
  demand(one->row.size() == one->column.size() && one->row.size() <= size);
  demand(one->value.empty() || one->value.size() == one->row.size());
  for (std::size_t k = 0; k < one->row.size(); ++k) {
    demand(one->row[k] >= 0 && one->row[k] < one->rows);
    demand(one->column[k] >= 0 && one->column[k] < one->columns);
  }
  for (std::size_t k = 0; k < one->value.size(); ++k) {
    demand(std::bit_cast<std::uint64_t>(one->value[k]) ==
           std::bit_cast<std::uint64_t>(three->value[k]));
  }
  return 0;
}
