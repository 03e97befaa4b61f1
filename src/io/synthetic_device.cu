// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <utility>

#include "graph/launch.cuh"
#include "graph/scratch.hpp"
#include "io/synthetic_plan.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"

namespace quipu {
namespace {

using detail::enqueue;
using detail::read_back;
using detail::require;
using detail::run_cub;
using detail::scratch;
using detail::thread_index;
using io_detail::edge_draw;
using io_detail::synthetic_plan;
using key_buffer = scratch<std::uint64_t>;

__global__ void draw_keys(edge_draw draw, std::int64_t count, std::uint64_t* keys) {
  const auto k = thread_index();
  if (k < count) keys[k] = draw(static_cast<std::uint64_t>(k));
}

__global__ void mark_within(edge_draw draw, const std::uint64_t* keys, std::int64_t count,
                            std::uint64_t longest, std::uint8_t* within) {
  const auto k = thread_index();
  if (k < count) within[k] = !draw.exceeds(keys, static_cast<std::uint64_t>(k), longest);
}

__global__ void rank_keys(edge_draw draw, const std::uint64_t* keys, std::int64_t count,
                          std::uint64_t* ranks) {
  const auto k = thread_index();
  if (k < count) ranks[k] = draw.rank(keys[k]);
}

__global__ void mirror_keys(edge_draw draw, const std::uint64_t* keys, std::int64_t count,
                            std::uint64_t* both) {
  const auto k = thread_index();
  if (k >= count) return;
  both[k] = keys[k];
  both[k + count] = draw.mirrored(keys[k]);
}

// The thread of an edge fills the offsets of all rows that end before it; one thread more fills
// those behind the last edge.
__global__ void write_rows(edge_draw draw, const std::uint64_t* keys, std::int64_t edges,
                           std::int32_t* offsets, std::int32_t* indices) {
  const auto k = thread_index();
  if (k > edges) return;
  const auto row_of = [&](std::int64_t edge) {
    return static_cast<std::int64_t>(draw.row(keys[edge]));
  };
  const std::int64_t first = k == 0 ? 0 : row_of(k - 1) + 1;
  const std::int64_t last = k == edges ? static_cast<std::int64_t>(draw.nodes) : row_of(k);
  for (auto row = first; row <= last; ++row) offsets[row] = static_cast<std::int32_t>(k);
  if (k < edges) indices[k] = static_cast<std::int32_t>(draw.column(keys[k]));
}

template <class T>
scratch<T> upload(const context& ctx, const std::vector<T>& values) {
  auto s = require(scratch<T>::make(ctx, static_cast<std::int64_t>(values.size())));
  require(cudaMemcpyAsync(s.data(), values.data(), values.size() * sizeof(T),
                          cudaMemcpyHostToDevice, ctx.stream),
          "make_synthetic: weights");
  return s;
}

key_buffer sort_keys(const context& ctx, key_buffer keys, std::int64_t count, int bits) {
  auto other = require(key_buffer::make(ctx, count));
  cub::DoubleBuffer<std::uint64_t> both(keys.data(), other.data());
  run_cub(ctx, [&](void* temporary, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(temporary, bytes, both, count, 0, bits, ctx.stream);
  });
  return both.Current() == keys.data() ? std::move(keys) : std::move(other);
}

/// Keys at the front of a buffer that may be longer.
struct key_range {
  key_buffer keys;
  std::int64_t count = 0;
};

/// Runs a selection that writes at most `most` keys and how many they are.
template <class Select>
key_range select_keys(const context& ctx, std::int64_t most, Select&& select) {
  auto kept = require(key_buffer::make(ctx, most));
  auto count = require(scratch<std::int64_t>::make(ctx, 1));
  run_cub(ctx, [&](void* temporary, std::size_t& bytes) {
    return select(temporary, bytes, kept.data(), count.data());
  });
  const auto size = read_back(ctx, count.data());
  return {std::move(kept), size};
}

key_range draw_distinct(const context& ctx, const edge_draw& draw, std::int64_t draws) {
  auto keys = require(key_buffer::make(ctx, draws));
  enqueue(ctx, draw_keys, draws, draw, draws, keys.data());
  keys = sort_keys(ctx, std::move(keys), draws, 2 * draw.id_bits);
  auto distinct = select_keys(ctx, draws, [&](void* t, std::size_t& bytes, auto* to, auto* count) {
    return cub::DeviceSelect::Unique(t, bytes, keys.data(), to, count, draws, ctx.stream);
  });
  const auto last = read_back(ctx, distinct.keys.data() + distinct.count - 1);
  if (last == draw.nothing()) --distinct.count;
  return distinct;
}

key_range cut_long_rows(const context& ctx, const synthetic_plan& plan, key_range all) {
  if (plan.longest == 0 || all.count == 0) return all;
  auto within = require(scratch<std::uint8_t>::make(ctx, all.count));
  enqueue(ctx, mark_within, all.count, plan.draw, all.keys.data(), all.count, plan.longest,
          within.data());
  return select_keys(ctx, all.count, [&](void* t, std::size_t& bytes, auto* to, auto* count) {
    return cub::DeviceSelect::Flagged(t, bytes, all.keys.data(), within.data(), to, count,
                                      all.count, ctx.stream);
  });
}

struct rank_at_most {
  edge_draw draw;
  std::uint64_t last;
  __device__ bool operator()(std::uint64_t key) const { return draw.rank(key) <= last; }
};

key_range drop_surplus(const context& ctx, const synthetic_plan& plan, key_range all) {
  const auto wanted = static_cast<std::int64_t>(plan.wanted);
  if (all.count == wanted) return all;
  auto ranks = require(key_buffer::make(ctx, all.count));
  enqueue(ctx, rank_keys, all.count, plan.draw, all.keys.data(), all.count, ranks.data());
  ranks = sort_keys(ctx, std::move(ranks), all.count, 64);
  const rank_at_most keep{plan.draw, read_back(ctx, ranks.data() + wanted - 1)};
  return select_keys(ctx, wanted, [&](void* t, std::size_t& bytes, auto* to, auto* count) {
    return cub::DeviceSelect::If(t, bytes, all.keys.data(), to, count, all.count, keep, ctx.stream);
  });
}

/// The wanted keys in order. A round that falls short draws again from the start, with more.
key_range draw_wanted(const context& ctx, const synthetic_plan& plan) {
  auto draws = io_detail::first_draws(plan);
  for (;;) {
    auto found =
        cut_long_rows(ctx, plan, draw_distinct(ctx, plan.draw, static_cast<std::int64_t>(draws)));
    const auto kept = static_cast<std::uint64_t>(found.count);
    if (kept >= plan.wanted) return drop_surplus(ctx, plan, std::move(found));
    draws = require(io_detail::next_draws(plan, draws, kept));
  }
}

key_range mirror(const context& ctx, const edge_draw& draw, key_range pairs) {
  if (!draw.symmetric) return pairs;
  key_range both{require(key_buffer::make(ctx, 2 * pairs.count)), 2 * pairs.count};
  enqueue(ctx, mirror_keys, pairs.count, draw, pairs.keys.data(), pairs.count, both.keys.data());
  both.keys = sort_keys(ctx, std::move(both.keys), both.count, 2 * draw.id_bits);
  return both;
}

graph<std::int32_t, std::int32_t> build(const context& ctx, const synthetic_request& request,
                                        const graph_options& options) {
  auto plan = require(io_detail::make_plan(request));
  auto offsets = require(scratch<std::int32_t>::make(ctx, request.shape.nodes + 1));
  auto indices = require(scratch<std::int32_t>::make(ctx, request.shape.edges));
  {
    const auto weight_end = upload(ctx, plan.weight_end);
    const auto guide = upload(ctx, plan.guide);
    plan.draw.weight_end = weight_end.data();
    plan.draw.guide = guide.data();
    const auto all = mirror(ctx, plan.draw, draw_wanted(ctx, plan));
    enqueue(ctx, write_rows, all.count + 1, plan.draw, all.keys.data(), all.count, offsets.data(),
            indices.data());
  }
  csr_view<std::int32_t, std::int32_t> csr;
  csr.rows = csr.columns = request.shape.nodes;
  csr.edges = request.shape.edges;
  csr.offsets = offsets.data();
  csr.indices = indices.data();
  return require(make_graph(ctx, csr, options));
}

}  // namespace

result<graph<std::int32_t, std::int32_t>> make_synthetic(const context& ctx,
                                                         const synthetic_request& request,
                                                         const graph_options& options) {
  using made = result<graph<std::int32_t, std::int32_t>>;
  const detail::trace_range range("make_synthetic");
  const device_guard guard(ctx.device);
  return detail::as_result<made>([&]() -> made { return build(ctx, request, options); });
}

}  // namespace quipu
