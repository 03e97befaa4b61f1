// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include "graph/launch.cuh"
#include "quipu/core/buffer.hpp"
#include "quipu/sparse/detail/product_program.hpp"
#include "sparse/plan_state.hpp"

namespace quipu::detail {

template <class I>
__global__ void write_codes(const I* indices, const std::uint32_t* code_of, std::int64_t edges,
                            int id_bits, I* coded) {
  using bits_type = std::make_unsigned_t<I>;
  const auto k = thread_index();
  if (k >= edges) return;
  const I id = indices[k];
  coded[k] =
      static_cast<I>(static_cast<bits_type>(id) | static_cast<bits_type>(code_of[id]) << id_bits);
}

/// Which scales get a code: those of the columns with the most edges, as many as there is room for.
struct code_book {
  bool complete = true;
  std::vector<float> table;
  std::vector<std::uint32_t> code_of;  // [columns]
};
inline code_book make_code_book(const std::vector<float>& scales,
                                const std::vector<std::int64_t>& edges_of, std::size_t room) {
  // By their bits: NaNs are not equal to themselves, and -0 is not +0.
  const auto bits_of = [](float scale) { return std::bit_cast<std::uint32_t>(scale); };
  std::unordered_map<std::uint32_t, std::int64_t> edges_by_scale;
  for (std::size_t c = 0; c < scales.size(); ++c) edges_by_scale[bits_of(scales[c])] += edges_of[c];
  std::vector<std::pair<std::int64_t, std::uint32_t>> ranked;
  for (const auto& [scale, edges] : edges_by_scale) ranked.emplace_back(-edges, scale);
  std::sort(ranked.begin(), ranked.end());
  code_book book;
  book.complete = ranked.size() <= room;
  ranked.resize(std::min(ranked.size(), room));
  std::unordered_map<std::uint32_t, std::uint32_t> codes;
  for (const auto& [edges, scale] : ranked) {
    codes.emplace(scale, static_cast<std::uint32_t>(book.table.size()));
    book.table.push_back(std::bit_cast<float>(scale));
  }
  const auto elsewhere = static_cast<std::uint32_t>(room);
  for (const float scale : scales) {
    const auto found = codes.find(bits_of(scale));
    book.code_of.push_back(found == codes.end() ? elsewhere : found->second);
  }
  return book;
}

/// Makes the coded columns of a direction with scales of columns. `opposite` counts a column's
/// edges.
template <class I, class O>
coded_columns<I> code_columns(const context& ctx, const csr_view<I, O>& csr, const float* scales,
                              const csr_view<I, O>& opposite, direction_plan& plan) {
  constexpr int most_code_bits = 16;  // a table larger than that leaves the L1 cache
  const int id_bits =
      csr.columns <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(csr.columns - 1));
  const int code_bits = std::min(most_code_bits, 8 * static_cast<int>(sizeof(I)) - id_bits);
  const std::size_t room = (std::size_t{1} << code_bits) - 1;
  std::vector<std::int64_t> edges_of(static_cast<std::size_t>(csr.columns), 1);
  if (opposite.offsets != nullptr) {
    const auto offsets = require(to_host(ctx, opposite.offsets, csr.columns + 1));
    for (std::size_t c = 0; c < edges_of.size(); ++c) edges_of[c] = offsets[c + 1] - offsets[c];
  }
  const auto book = make_code_book(require(to_host(ctx, scales, csr.columns)), edges_of, room);
  plan.code_table = require(to_device(ctx, book.table));
  plan.coded =
      require(make_device_buffer<std::byte>(ctx, csr.edges * static_cast<std::int64_t>(sizeof(I))));
  const auto code_of = require(to_device(ctx, book.code_of));
  auto* coded = reinterpret_cast<I*>(plan.coded.data());
  enqueue(ctx, write_codes<I>, csr.edges, csr.indices, code_of.data(), csr.edges, id_bits, coded);
  require(synchronize(ctx));  // code_of goes
  plan.code = {id_bits, static_cast<std::uint64_t>(room)};
  plan.code_complete = book.complete;
  return coded_of<I>(plan);
}

}  // namespace quipu::detail
