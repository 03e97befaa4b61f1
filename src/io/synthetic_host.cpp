// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/radix_sort.hpp"
#include "io/file.hpp"
#include "io/synthetic_plan.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"

namespace quipu {
namespace {

using io_detail::edge_draw;
using io_detail::synthetic_plan;
using key_list = std::vector<std::uint64_t>;

struct compressed_rows {
  std::vector<std::int32_t> offsets;
  std::vector<std::int32_t> indices;
};

void append_draws(const edge_draw& draw, std::uint64_t begin, std::uint64_t end, key_list& keys) {
  const std::uint64_t nothing = draw.nothing();
  keys.reserve(keys.size() + (end - begin));
  for (std::uint64_t counter = begin; counter < end; ++counter) {
    if (const auto key = draw(counter); key != nothing) keys.push_back(key);
  }
}

std::uint64_t count_within(const synthetic_plan& plan, const key_list& keys) {
  if (plan.longest == 0) return keys.size();
  std::uint64_t count = 0;
  for (std::uint64_t k = 0; k < keys.size(); ++k) {
    count += !plan.draw.exceeds(keys.data(), k, plan.longest);
  }
  return count;
}

// From the back, because what `exceeds` looks at lies in front.
void cut_long_rows(const synthetic_plan& plan, key_list& keys) {
  if (plan.longest == 0) return;
  std::uint64_t kept_from = keys.size();
  for (std::uint64_t k = keys.size(); k-- > 0;) {
    if (!plan.draw.exceeds(keys.data(), k, plan.longest)) keys[--kept_from] = keys[k];
  }
  keys.erase(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(kept_from));
}

// The rank of the last key to keep. Only ranks that share the leading bits of the answer are
// sorted.
std::uint64_t last_rank(const edge_draw& draw, const key_list& keys, std::uint64_t wanted) {
  constexpr int bits = 16;
  std::vector<std::uint64_t> count(std::size_t{1} << bits);
  for (const auto key : keys) ++count[draw.rank(key) >> (64 - bits)];
  std::uint64_t bucket = 0;
  std::uint64_t before = 0;
  while (before + count[bucket] < wanted) before += count[bucket++];
  key_list ranks;
  for (const auto key : keys) {
    if (const auto rank = draw.rank(key); rank >> (64 - bits) == bucket) ranks.push_back(rank);
  }
  const auto nth = ranks.begin() + static_cast<std::ptrdiff_t>(wanted - before - 1);
  std::nth_element(ranks.begin(), nth, ranks.end());
  return *nth;
}

// Distinct keys in order, exactly as many as wanted.
result<key_list> draw_keys(const synthetic_plan& plan) {
  key_list keys;
  std::uint64_t drawn = 0;
  std::uint64_t draws = io_detail::first_draws(plan);
  for (;;) {
    append_draws(plan.draw, drawn, draws, keys);
    detail::radix_sort(keys, 2 * plan.draw.id_bits);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    drawn = draws;
    const std::uint64_t kept = count_within(plan, keys);
    if (kept >= plan.wanted) break;
    const auto next = io_detail::next_draws(plan, draws, kept);
    if (!next) return next.error();
    draws = *next;
  }
  cut_long_rows(plan, keys);
  if (keys.size() > plan.wanted) {
    const auto last = last_rank(plan.draw, keys, plan.wanted);
    std::erase_if(keys, [&](std::uint64_t key) { return plan.draw.rank(key) > last; });
  }
  return keys;
}

// Pairs come sorted by (low, high). Writing all low ends into the rows of the high ends first, then
// all high ends into the rows of the low ends, leaves every row sorted without another sort.
compressed_rows compress(const edge_draw& draw, const key_list& keys) {
  compressed_rows rows;
  rows.offsets.assign(draw.nodes + 1, 0);
  for (const auto key : keys) {
    ++rows.offsets[draw.row(key) + 1];
    if (draw.symmetric) ++rows.offsets[draw.column(key) + 1];
  }
  for (std::uint64_t i = 0; i < draw.nodes; ++i) rows.offsets[i + 1] += rows.offsets[i];
  rows.indices.resize(static_cast<std::size_t>(rows.offsets.back()));
  std::vector<std::int32_t> next(rows.offsets.begin(), rows.offsets.end() - 1);
  const auto put = [&](std::uint64_t row, std::uint64_t column) {
    rows.indices[static_cast<std::size_t>(next[row]++)] = static_cast<std::int32_t>(column);
  };
  if (draw.symmetric) {
    for (const auto key : keys) put(draw.column(key), draw.row(key));
  }
  for (const auto key : keys) put(draw.row(key), draw.column(key));
  return rows;
}

result<compressed_rows> draw_rows(const synthetic_request& request) {
  auto plan = io_detail::make_plan(request);
  if (!plan) return plan.error();
  plan->draw.weight_end = plan->weight_end.data();
  plan->draw.guide = plan->guide.data();
  const auto keys = draw_keys(*plan);
  if (!keys) return keys.error();
  return compress(plan->draw, *keys);
}

}  // namespace

result<graph<std::int32_t, std::int32_t>> make_synthetic(const host_context& ctx,
                                                         const synthetic_request& request,
                                                         const graph_options& options) {
  using made = result<graph<std::int32_t, std::int32_t>>;
  const detail::trace_range range("make_synthetic");
  return io_detail::catch_out_of_memory([&]() -> made {
    const auto rows = draw_rows(request);
    if (!rows) return rows.error();
    csr_view<std::int32_t, std::int32_t> csr;
    csr.rows = csr.columns = request.shape.nodes;
    csr.edges = request.shape.edges;
    csr.offsets = rows->offsets.data();
    csr.indices = rows->indices.data();
    return make_graph(ctx, csr, options);
  });
}

}  // namespace quipu
