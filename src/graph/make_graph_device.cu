// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "graph/launch.cuh"
#include "graph/limits.hpp"
#include "graph/make_schedule_device.cuh"
#include "graph/scratch.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/graph/make_graph.hpp"

namespace quipu {

namespace detail {
namespace {

/// What one pass over the input finds: the first bad edge or row, and whether sorting can be saved.
struct verdict {
  unsigned long long bad_row;
  unsigned long long bad_column;
  unsigned long long bad_offset;
  int unsorted;
};
constexpr unsigned long long nothing_bad = ~0ull;

template <class I>
__global__ void inspect_edges(coo_view<I> coo, verdict* v) {
  const auto k = thread_index();
  if (k >= coo.edges) return;
  const I row = coo.row[k];
  const I column = coo.column[k];
  if (row < 0 || row >= coo.rows) atomicMin(&v->bad_row, static_cast<unsigned long long>(k));
  if (column < 0 || column >= coo.columns) {
    atomicMin(&v->bad_column, static_cast<unsigned long long>(k));
  }
  if (k + 1 < coo.edges) {
    const I next_row = coo.row[k + 1];
    if (row > next_row || (row == next_row && column > coo.column[k + 1])) v->unsorted = 1;
  }
}

template <class I, class O>
__global__ void inspect_offsets(csr_view<I, O> csr, verdict* v) {
  const auto i = thread_index();
  if (i > csr.rows) return;
  const O here = csr.offsets[i];
  const bool first_wrong = i == 0 && here != 0;
  const bool last_wrong = i == csr.rows && here != csr.edges;
  const bool falls = i < csr.rows && csr.offsets[i + 1] < here;
  if (first_wrong || last_wrong || falls || here < 0 || here > csr.edges) {
    atomicMin(&v->bad_offset, static_cast<unsigned long long>(i));
  }
}

template <class I>
__global__ void inspect_columns(const I* indices, std::int64_t edges, std::int64_t columns,
                                verdict* v) {
  const auto k = thread_index();
  if (k >= edges) return;
  if (indices[k] < 0 || indices[k] >= columns) {
    atomicMin(&v->bad_column, static_cast<unsigned long long>(k));
  }
}

template <class I, class O>
__global__ void expand_rows(csr_view<I, O> csr, I* rows) {
  const auto k = thread_index();
  if (k >= csr.edges) return;
  std::int64_t low = 0, high = csr.rows;  // the last row whose offset is <= k
  while (high - low > 1) {
    const auto middle = (low + high) / 2;
    (csr.offsets[middle] <= k ? low : high) = middle;
  }
  rows[k] = static_cast<I>(low);
}

/// Candidates in order: the input edges, their mirror images, one self loop a node.
template <class I, class O>
__global__ void make_keys(coo_view<I> coo, key_layout layout, bool symmetrise, bool drop_loops,
                          std::int64_t candidates, std::uint64_t* keys, O* ids) {
  const auto k = thread_index();
  if (k >= candidates) return;
  const std::int64_t stored = coo.edges * (symmetrise ? 2 : 1);
  if (k >= stored) {
    keys[k] = layout.key(k - stored, k - stored);
    ids[k] = O{-1};
    return;
  }
  const bool mirrored = k >= coo.edges;
  const auto edge = mirrored ? k - coo.edges : k;
  const auto row = static_cast<std::uint64_t>(coo.row[edge]);
  const auto column = static_cast<std::uint64_t>(coo.column[edge]);
  const bool dropped = row == column && (mirrored || drop_loops);
  keys[k] = dropped    ? layout.dropped()
            : mirrored ? layout.key(column, row)
                       : layout.key(row, column);
  ids[k] = static_cast<O>(edge);
}

template <class O>
__global__ void mark_kept(const std::uint64_t* keys, const O* ids, std::int64_t candidates,
                          std::uint64_t dropped, bool coalesce, O* kept) {
  const auto k = thread_index();
  if (k >= candidates) return;
  const auto key = keys[k];
  const bool repeats = k > 0 && keys[k - 1] == key;
  kept[k] = key < dropped && !(repeats && (coalesce || ids[k] < 0)) ? 1 : 0;
}

/// Moves kept candidates to their place. With coalescing one thread adds the weights of a run, in
/// order, so that the sum is the same every time.
template <class O>
__global__ void compact(const std::uint64_t* keys, const O* ids, const O* kept, const O* place,
                        std::int64_t candidates, const float* weights, bool coalesce,
                        std::uint64_t* out_keys, O* out_ids, float* out_weights) {
  const auto k = thread_index();
  if (k >= candidates || kept[k] == 0) return;
  const auto to = place[k];
  out_keys[to] = keys[k];
  out_ids[to] = ids[k];
  if (out_weights == nullptr) return;
  const auto weight = [&](std::int64_t c) {
    return ids[c] < 0 || weights == nullptr ? 1.0f : weights[ids[c]];
  };
  float sum = weight(k);
  for (auto c = k + 1; coalesce && c < candidates && keys[c] == keys[k]; ++c) {
    if (ids[c] >= 0) sum += weight(c);
  }
  out_weights[to] = sum;
}

template <class I>
__global__ void split_keys(const std::uint64_t* keys, std::int64_t edges, key_layout layout,
                           I* columns) {
  const auto k = thread_index();
  if (k < edges) columns[k] = static_cast<I>(layout.column(keys[k]));
}

template <class O>
__global__ void gather_weights(const O* ids, const float* from, std::int64_t edges, float* to) {
  const auto k = thread_index();
  if (k < edges) to[k] = from[ids[k]];
}

/// offsets[r]: how many sorted ids lie below r.
template <class Id, class O>
__global__ void find_offsets(const Id* sorted, int shift, std::int64_t edges, std::int64_t rows,
                             O* offsets) {
  const auto r = thread_index();
  if (r > rows) return;
  std::int64_t low = 0, high = edges;
  while (low < high) {
    const auto middle = (low + high) / 2;
    if (static_cast<std::int64_t>(sorted[middle] >> shift) < r) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  offsets[r] = static_cast<O>(low);
}

template <class O>
__global__ void count_up(O* values, std::int64_t count) {
  const auto k = thread_index();
  if (k < count) values[k] = static_cast<O>(k);
}

template <class I, class O>
__global__ void reverse_rows(const std::uint64_t* keys, key_layout layout, const O* edge_map,
                             std::int64_t edges, I* rows) {
  const auto k = thread_index();
  if (k < edges) rows[k] = static_cast<I>(layout.row(keys[edge_map[k]]));
}

/// Stable sort by key; the sorted arrays end up in the first of each pair.
template <class Key, class Value>
void sort_pairs(const context& ctx, scratch<Key>& keys, scratch<Value>& values, int bits) {
  const auto size = keys.size();
  auto other_keys = require(scratch<Key>::make(ctx, size));
  auto other_values = require(scratch<Value>::make(ctx, size));
  cub::DoubleBuffer<Key> k(keys.data(), other_keys.data());
  cub::DoubleBuffer<Value> v(values.data(), other_values.data());
  run_cub(ctx, [&](void* temporary, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(temporary, bytes, k, v, size, 0, bits, ctx.stream);
  });
  if (k.Current() != keys.data()) keys = std::move(other_keys);
  if (v.Current() != values.data()) values = std::move(other_values);
}

template <class O>
void exclusive_sum(const context& ctx, const O* in, O* out, std::int64_t size) {
  run_cub(ctx, [&](void* temporary, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(temporary, bytes, in, out, size, ctx.stream);
  });
}

struct inspection {
  explicit inspection(const context& ctx)
      : ctx(ctx), found(require(scratch<verdict>::make(ctx, 1))) {
    const verdict clean{nothing_bad, nothing_bad, nothing_bad, 0};
    require(cudaMemcpyAsync(found.data(), &clean, sizeof clean, cudaMemcpyHostToDevice, ctx.stream),
            "inspection");
  }
  verdict read() const { return read_back(ctx, found.data()); }
  const context& ctx;
  scratch<verdict> found;
};

status judge(const verdict& v) {
  const auto at = [](unsigned long long k) { return static_cast<std::int64_t>(k); };
  if (v.bad_offset != nothing_bad) {
    return failure(status_code::out_of_range,
                   "offsets: must start at 0, never fall, and end at the number of edges",
                   at(v.bad_offset));
  }
  if (v.bad_row != nothing_bad && v.bad_row <= v.bad_column) {
    return failure(status_code::out_of_range, "row: negative id or not below rows, edge",
                   at(v.bad_row));
  }
  if (v.bad_column != nothing_bad) {
    return failure(status_code::out_of_range, "column: negative id or not below columns, edge",
                   at(v.bad_column));
  }
  return success();
}

status check_weights(const context& ctx, const float* weights, std::int64_t edges) {
  if (weights == nullptr) return success();
  return check_device_pointer(weights, edges, "weights: not device memory", ctx.device);
}

template <class I, class O>
status inspect_csr(const context& ctx, const csr_view<I, O>& csr) {
  inspection offsets(ctx);
  enqueue(ctx, inspect_offsets<I, O>, csr.rows + 1, csr, offsets.found.data());
  enqueue(ctx, inspect_columns<I>, csr.edges, csr.indices, csr.edges, csr.columns,
          offsets.found.data());
  return judge(offsets.read());
}

/// Sorted, cleaned candidates of a build.
template <class O>
struct sorted_edges {
  scratch<std::uint64_t> keys;
  scratch<O> ids;
  scratch<float> weights;  // empty: take the input's through ids
  std::int64_t edges = 0;
  bool reordered = false;
};

template <class I, class O>
sorted_edges<O> drop_candidates(const context& ctx, const coo_view<I>& coo, const graph_options& o,
                                const key_layout& layout, sorted_edges<O> all) {
  const bool coalesce = o.coalesce == edge_option::apply;
  const bool weighted = coo.weights != nullptr;
  auto kept = require(scratch<O>::make(ctx, all.edges + 1));
  auto place = require(scratch<O>::make(ctx, all.edges + 1));
  require(cudaMemsetAsync(kept.data(), 0, sizeof(O) * (all.edges + 1), ctx.stream), "memset");
  enqueue(ctx, mark_kept<O>, all.edges, all.keys.data(), all.ids.data(), all.edges,
          layout.dropped(), coalesce, kept.data());
  exclusive_sum(ctx, kept.data(), place.data(), all.edges + 1);
  sorted_edges<O> out;
  out.edges = static_cast<std::int64_t>(read_back(ctx, place.data() + all.edges));
  out.reordered = true;
  out.keys = require(scratch<std::uint64_t>::make(ctx, out.edges));
  out.ids = require(scratch<O>::make(ctx, out.edges));
  if (weighted) out.weights = require(scratch<float>::make(ctx, out.edges));
  enqueue(ctx, compact<O>, all.edges, all.keys.data(), all.ids.data(), kept.data(), place.data(),
          all.edges, coo.weights, coalesce, out.keys.data(), out.ids.data(), out.weights.data());
  return out;
}

template <class I, class O>
sorted_edges<O> sort_edges(const context& ctx, const coo_view<I>& coo, const graph_options& o,
                           const key_layout& layout, bool sorted_already) {
  sorted_edges<O> all;
  all.edges = candidate_edges(o, coo.rows, coo.columns, coo.edges);
  all.keys = require(scratch<std::uint64_t>::make(ctx, all.edges));
  all.ids = require(scratch<O>::make(ctx, all.edges));
  enqueue(ctx, make_keys<I, O>, all.edges, coo, layout, o.symmetrise == edge_option::apply,
          o.remove_self_loops == edge_option::apply, all.edges, all.keys.data(), all.ids.data());
  if (!sorted_already || all.edges != coo.edges || o.remove_self_loops == edge_option::apply) {
    sort_pairs(ctx, all.keys, all.ids, layout.bits + (drops_edges(o) ? 1 : 0));
    all.reordered = true;
  }
  if (drops_edges(o)) return drop_candidates(ctx, coo, o, layout, std::move(all));
  return all;
}

template <class I, class O>
void finish_direction(const context& ctx, direction_storage<I, O>& d, std::int64_t rows,
                      std::int64_t columns, std::int64_t edges, const schedule_options& options) {
  d.view.csr = {rows, columns, edges, d.offsets.data(), d.indices.data(), d.weights.data()};
  make_schedule_on_device(ctx, d, options);
}

template <class I, class O>
direction_storage<I, O> forward_direction(const context& ctx, const coo_view<I>& coo,
                                          const sorted_edges<O>& s, const key_layout& layout,
                                          const schedule_options& options) {
  direction_storage<I, O> d;
  d.offsets = require(make_device_buffer<O>(ctx, coo.rows + 1));
  d.indices = require(make_device_buffer<I>(ctx, s.edges));
  enqueue(ctx, find_offsets<std::uint64_t, O>, coo.rows + 1, s.keys.data(), layout.column_bits,
          s.edges, coo.rows, d.offsets.data());
  enqueue(ctx, split_keys<I>, s.edges, s.keys.data(), s.edges, layout, d.indices.data());
  if (coo.weights != nullptr) {
    d.weights = require(make_device_buffer<float>(ctx, s.edges));
    if (s.weights.data() != nullptr) {
      require(cudaMemcpyAsync(d.weights.data(), s.weights.data(), d.weights.bytes(),
                              cudaMemcpyDeviceToDevice, ctx.stream),
              "weights");
    } else {
      enqueue(ctx, gather_weights<O>, s.edges, s.ids.data(), coo.weights, s.edges,
              d.weights.data());
    }
  }
  finish_direction(ctx, d, coo.rows, coo.columns, s.edges, options);
  return d;
}

template <class I, class O>
direction_storage<I, O> reverse_direction(const context& ctx, const direction_view<I, O>& forward,
                                          const std::uint64_t* keys, const key_layout& layout,
                                          const schedule_options& options, buffer<O>& edge_map) {
  using id = std::make_unsigned_t<I>;
  const auto& csr = forward.csr;
  auto columns = require(scratch<id>::make(ctx, csr.edges));
  auto positions = require(scratch<O>::make(ctx, csr.edges));
  require(cudaMemcpyAsync(columns.data(), csr.indices, sizeof(I) * csr.edges,
                          cudaMemcpyDeviceToDevice, ctx.stream),
          "reverse");
  enqueue(ctx, count_up<O>, csr.edges, positions.data(), csr.edges);
  if (csr.edges > 0) sort_pairs(ctx, columns, positions, id_bits(csr.columns) + 1);
  direction_storage<I, O> d;
  d.offsets = require(make_device_buffer<O>(ctx, csr.columns + 1));
  d.indices = require(make_device_buffer<I>(ctx, csr.edges));
  edge_map = require(make_device_buffer<O>(ctx, csr.edges));
  require(cudaMemcpyAsync(edge_map.data(), positions.data(), edge_map.bytes(),
                          cudaMemcpyDeviceToDevice, ctx.stream),
          "edge map");
  enqueue(ctx, find_offsets<id, O>, csr.columns + 1, columns.data(), 0, csr.edges, csr.columns,
          d.offsets.data());
  enqueue(ctx, reverse_rows<I, O>, csr.edges, keys, layout, positions.data(), csr.edges,
          d.indices.data());
  finish_direction(ctx, d, csr.columns, csr.rows, csr.edges, options);
  return d;
}

/// Rows that come in compressed form keep their edge order unless edges are to be dropped.
enum class edge_order { by_column, as_given };

template <class I, class O>
graph<I, O> build(const context& ctx, const coo_view<I>& coo, const graph_options& o,
                  edge_order order) {
  inspection look(ctx);
  enqueue(ctx, inspect_edges<I>, coo.edges, coo, look.found.data());
  const auto seen = look.read();
  require(judge(seen));
  const int column_bits = id_bits(coo.columns);
  const key_layout layout{column_bits, id_bits(coo.rows) + column_bits};
  const bool in_order = seen.unsorted == 0 || (order == edge_order::as_given && !drops_edges(o));
  auto sorted = sort_edges<I, O>(ctx, coo, o, layout, in_order);
  auto forward = forward_direction(ctx, coo, sorted, layout, o.schedule);
  buffer<O> edge_ids, edge_map;
  if (sorted.reordered) {
    edge_ids = require(make_device_buffer<O>(ctx, sorted.edges));
    require(cudaMemcpyAsync(edge_ids.data(), sorted.ids.data(), edge_ids.bytes(),
                            cudaMemcpyDeviceToDevice, ctx.stream),
            "edge ids");
  }
  direction_storage<I, O> reverse;
  if (o.reverse == edge_option::apply) {
    reverse =
        reverse_direction(ctx, forward.view, sorted.keys.data(), layout, o.schedule, edge_map);
  }
  require(cudaStreamSynchronize(ctx.stream), "make_graph");
  return graph<I, O>(std::move(forward), std::move(reverse), std::move(edge_map),
                     std::move(edge_ids));
}

}  // namespace
}  // namespace detail

template <class I, class O>
result<graph<I, O>> make_graph(const context& ctx, const coo_view<I>& coo, const graph_options& o) {
  using namespace detail;
  const trace_range range("make_graph");
  return as_result<result<graph<I, O>>>([&]() -> result<graph<I, O>> {
    const device_guard guard(ctx.device);
    require(check_build<I, O>(o, coo.rows, coo.columns, coo.edges));
    require(check_device_pointer(coo.row, coo.edges, "row: null or not device memory", ctx.device));
    require(check_device_pointer(coo.column, coo.edges, "column: null or not device memory",
                                 ctx.device));
    require(check_weights(ctx, coo.weights, coo.edges));
    return build<I, O>(ctx, coo, o, edge_order::by_column);
  });
}

template <class I, class O>
result<graph<I, O>> make_graph(const context& ctx, const csr_view<I, O>& csr,
                               const graph_options& o) {
  using namespace detail;
  const trace_range range("make_graph");
  return as_result<result<graph<I, O>>>([&]() -> result<graph<I, O>> {
    require(validate(ctx, csr));
    require(check_build<I, O>(o, csr.rows, csr.columns, csr.edges));
    require(check_weights(ctx, csr.weights, csr.edges));
    const device_guard guard(ctx.device);
    auto rows = require(scratch<I>::make(ctx, csr.edges));
    enqueue(ctx, expand_rows<I, O>, csr.edges, csr, rows.data());
    const coo_view<I> coo{csr.rows, csr.columns, csr.edges, rows.data(), csr.indices, csr.weights};
    return build<I, O>(ctx, coo, o, edge_order::as_given);
  });
}

template <class I, class O>
status validate(const context& ctx, const csr_view<I, O>& csr) {
  using namespace detail;
  const trace_range range("validate");
  return as_result<status>([&] {
    const device_guard guard(ctx.device);
    require(check_sizes<I, O>(csr.rows, csr.columns, csr.edges));
    require(check_device_pointer(csr.offsets, csr.rows + 1, "offsets: null or not device memory",
                                 ctx.device));
    require(check_device_pointer(csr.indices, csr.edges, "indices: null or not device memory",
                                 ctx.device));
    return inspect_csr(ctx, csr);
  });
}

#define QUIPU_INSTANTIATE(I, O)                                                        \
  template result<graph<I, O>> make_graph<I, O>(const context&, const coo_view<I>&,    \
                                                const graph_options&);                 \
  template result<graph<I, O>> make_graph<I, O>(const context&, const csr_view<I, O>&, \
                                                const graph_options&);                 \
  template status validate<I, O>(const context&, const csr_view<I, O>&);
QUIPU_INSTANTIATE(std::int32_t, std::int32_t)
QUIPU_INSTANTIATE(std::int32_t, std::int64_t)
QUIPU_INSTANTIATE(std::int64_t, std::int64_t)
#undef QUIPU_INSTANTIATE

}  // namespace quipu
