// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/exponent_writer.cuh"
#include "pack/warp_bytes.cuh"
#include "quipu/pack/detail/device_columns.hpp"
#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/sparse_record.hpp"

/// Writers of packed records: a warp a record, the same bytes as on the host.
///
///   size(lane, elements, column, count, block)           bytes of the record, -1 if it cannot be
///                                                        packed or had better not; in all lanes
///   write(lane, elements, column, count, to, block, own) the record; `to` has its size, or is a
///   slot
///
/// `block` is what a block shares, set up by `prepare`; `own` what a warp has for itself.
namespace quipu::detail {

template <class Word>
class sparse_writer {
  static constexpr int word_bytes = static_cast<int>(sizeof(Word));

 public:
  static constexpr bool in_slots = false;
  using block_shared = nothing_shared;
  using warp_shared = nothing_shared;
  sparse_writer(const packing& p, const std::byte*)
      : fill_(static_cast<Word>(p.sparse.fill)), unit_(static_cast<Word>(p.sparse.unit)) {}
  __device__ void prepare(block_shared&) const {}

  __device__ int size(int lane, const std::byte* elements, std::int64_t, int count,
                      const block_shared&) const {
    const auto bytes = static_cast<int>(choose(lane, elements, count).parts.bytes);
    return bytes < count * word_bytes ? bytes : -1;
  }

  __device__ void write(int lane, const std::byte* elements, std::int64_t, int count,
                        std::byte* record, const block_shared&, warp_shared&) const {
    const auto c = choose(lane, elements, count);
    clear_bytes(lane, record, 0, static_cast<int>(c.parts.bytes));
    __syncwarp();
    if (lane < 2) {
      const unsigned head =
          static_cast<unsigned>(c.parts.form) << 13 | static_cast<unsigned>(c.stored);
      record[lane] = static_cast<std::byte>(head >> (8 * lane));
    }
    std::byte* places = record + c.parts.places;
    int seen = 0;
    for (int from = 0; from < count; from += warp_lanes) {
      const int i = from + lane;
      const Word x = i < count ? load(elements, i) : fill_;
      const unsigned stored = __ballot_sync(~0u, x != fill_);
      const int k = seen + __popc(stored & ((1u << lane) - 1));
      seen += __popc(stored);
      if (c.parts.form == sparse_form::mapped && lane < 4 && from + 8 * lane < count) {
        places[from / 8 + lane] = static_cast<std::byte>(stored >> (8 * lane));
      }
      if (x == fill_) continue;
      const bool one_value = c.parts.form == sparse_form::same;
      if (c.parts.form != sparse_form::units && (!one_value || k == 0)) {
        store(record + c.parts.values + k * word_bytes, x);
      }
      if (c.parts.form == sparse_form::mapped) continue;
      if (count <= 256) {
        places[k] = static_cast<std::byte>(i);
      } else {
        places[2 * k] = static_cast<std::byte>(i);
        places[2 * k + 1] = static_cast<std::byte>(i >> 8);
      }
    }
    __syncwarp();
  }

 private:
  struct chosen {
    sparse_parts parts;
    int stored;
  };
  __device__ static Word load(const std::byte* elements, int i) {
    return __ldg(reinterpret_cast<const Word*>(elements) + i);
  }
  __device__ static void store(std::byte* to, Word x) {
    for (int b = 0; b < word_bytes; ++b) {
      to[b] = static_cast<std::byte>(static_cast<std::uint64_t>(x) >> (8 * b));
    }
  }
  /// As on the host: the shortest form; of equals the first.
  __device__ chosen choose(int lane, const std::byte* elements, int count) const {
    int stored = 0;
    bool other_than_unit = false, other_than_first = false;
    Word first{};
    for (int from = 0; from < count; from += warp_lanes) {
      const int i = from + lane;
      const Word x = i < count ? load(elements, i) : fill_;
      const unsigned here = __ballot_sync(~0u, x != fill_);
      if (here == 0) continue;
      if (stored == 0) first = __shfl_sync(~0u, x, __ffs(static_cast<int>(here)) - 1);
      stored += __popc(here);
      other_than_unit = other_than_unit || (x != fill_ && x != unit_);
      other_than_first = other_than_first || (x != fill_ && x != first);
    }
    const bool are_units = !any_of_group<warp_lanes>(other_than_unit);
    const bool are_same = !any_of_group<warp_lanes>(other_than_first);
    chosen best{sparse_parts(sparse_form::mapped, stored, count, word_bytes), stored};
    const auto consider = [&](sparse_form form) {
      const sparse_parts parts(form, stored, count, word_bytes);
      if (parts.bytes < best.parts.bytes) best.parts = parts;
    };
    consider(sparse_form::listed);
    if (are_same) consider(sparse_form::same);
    if (are_units) consider(sparse_form::units);
    return best;
  }

  Word fill_, unit_;
};

/// `Unit` is what participates as one.
template <class Unit>
class invariant_writer {
  static constexpr int unit_bytes = static_cast<int>(sizeof(Unit));
  static constexpr int unit_bits = 8 * unit_bytes;

 public:
  static constexpr bool in_slots = false;
  using block_shared = nothing_shared;
  struct warp_shared {
    std::uint32_t words[warp_lanes * unit_bits / 32 + 2];
  };
  invariant_writer(const packing& p, const std::byte* columns)
      : columns_(columns),
        at_(p.invariant.clusters, p.width * p.element_bytes, unit_bytes, most_runs(p)),
        clusters_(p.invariant.clusters),
        element_bytes_(p.element_bytes) {}
  __device__ void prepare(block_shared&) const {}

  __device__ int size(int lane, const std::byte* elements, std::int64_t column, int count,
                      const block_shared&) const {
    const int bytes = choose(lane, elements, column, count).bytes;
    return bytes < count * element_bytes_ ? bytes : -1;
  }

  __device__ void write(int lane, const std::byte* elements, std::int64_t column, int count,
                        std::byte* record, const block_shared&, warp_shared& own) const {
    const int cluster = choose(lane, elements, column, count).cluster;
    const int bytes = count * element_bytes_, units = units_of(bytes);
    const int head = clusters_ > 1 ? 1 : 0, map_bytes = (units + 7) / 8;
    if (head > 0 && lane == 0) *record = static_cast<std::byte>(cluster);
    std::byte* map = record + head;
    std::byte* rest = map + map_bytes;
    const auto columns = cluster * at_.units + column * element_bytes_ / unit_bytes;
    int bits = 0;  // bits before the batch that are not written yet, in the first word
    for (int w = lane; w < words_of_batch; w += warp_lanes) own.words[w] = 0;
    __syncwarp();
    for (int from = 0; from < units; from += warp_lanes) {
      const int u = from + lane;
      const Unit x = u < units ? load(elements, u, bytes) : Unit{0};
      const bool takes_part = u < units && participates(x, columns + u);
      const unsigned parts = __ballot_sync(~0u, takes_part);
      if (lane < 4 && from + 8 * lane < units) {
        map[from / 8 + lane] = static_cast<std::byte>(parts >> (8 * lane));
      }
      const int kept = u >= units ? 0 : takes_part ? kept_of(columns + u) : unit_bits;
      int all;
      const int at = bits + sum_before<warp_lanes>(kept, lane, all);
      if (kept > 0) put_bits(own, at, takes_part ? extract(x, columns + u) : x);
      bits += all;
      rest = flush(lane, rest, own, bits, from + warp_lanes >= units);
    }
  }

 private:
  static constexpr int words_of_batch = warp_lanes * unit_bits / 32 + 2;
  struct chosen {
    int bytes, cluster;
  };
  __device__ static int units_of(int bytes) { return (bytes + unit_bytes - 1) / unit_bytes; }
  __device__ static Unit load(const std::byte* elements, int u, int bytes) {
    const auto* from = elements + u * unit_bytes;
    if ((u + 1) * unit_bytes <= bytes) return load_anywhere<Unit>(from);
    std::uint64_t x = 0;
    for (int b = 0; u * unit_bytes + b < bytes; ++b) {
      x |= static_cast<std::uint64_t>(from[b]) << (8 * b);
    }
    return static_cast<Unit>(x);
  }
  __device__ Unit entry(std::int64_t array, std::int64_t c) const {
    return __ldg(reinterpret_cast<const Unit*>(columns_ + array) + c);
  }
  __device__ int kept_of(std::int64_t c) const {
    return static_cast<int>(columns_[at_.kept() + c]);
  }
  /// What lies outside the mask: the runs, all together.
  __device__ bool participates(Unit x, std::int64_t c) const {
    Unit outside = 0;
    for (int run = 0; run < at_.runs; ++run) {
      outside = static_cast<Unit>(outside | entry(at_.mask(run), c));
    }
    return static_cast<Unit>(x & ~outside) == entry(at_.value(), c);
  }
  __device__ Unit extract(Unit x, std::int64_t c) const {
    Unit dense = 0;
    for (int run = 0; run < at_.runs; ++run) {
      const int gap = static_cast<int>(columns_[at_.gap(run) + c]);
      dense = static_cast<Unit>(dense | static_cast<Unit>(x & entry(at_.mask(run), c)) >> gap);
    }
    return dense;
  }
  /// As on the host: the cluster that makes the record shortest; of equals the first.
  __device__ chosen choose(int lane, const std::byte* elements, std::int64_t column,
                           int count) const {
    const int bytes = count * element_bytes_, units = units_of(bytes);
    chosen best{-1, 0};
    for (int c = 0; c < clusters_; ++c) {
      const auto columns = c * at_.units + column * element_bytes_ / unit_bytes;
      int bits = 0;
      for (int u = lane; u < units; u += warp_lanes) {
        const Unit x = load(elements, u, bytes);
        bits += participates(x, columns + u) ? kept_of(columns + u) : unit_bits;
      }
      const int size =
          (clusters_ > 1 ? 1 : 0) + (units + 7) / 8 + (sum_group<warp_lanes>(bits) + 7) / 8;
      if (best.bytes < 0 || size < best.bytes) best = {size, c};
    }
    return best;
  }
  __device__ static void put_bits(warp_shared& own, int at, Unit x) {
    const int shift = at % 32;
    const auto wide = static_cast<std::uint64_t>(x);
    atomicOr(&own.words[at / 32], static_cast<std::uint32_t>(wide << shift));
    const auto upper = static_cast<std::uint32_t>(wide << shift >> 32);
    if (upper != 0) atomicOr(&own.words[at / 32 + 1], upper);
    if constexpr (unit_bits > 32) {
      if (shift > 0 && wide >> (64 - shift) != 0) {
        atomicOr(&own.words[at / 32 + 2], static_cast<std::uint32_t>(wide >> (64 - shift)));
      }
    }
  }
  /// Writes the whole words of a batch, of the last batch every byte, and keeps what is left.
  __device__ static std::byte* flush(int lane, std::byte* to, warp_shared& own, int& bits,
                                     bool last) {
    __syncwarp();
    const int bytes = last ? (bits + 7) / 8 : bits / 32 * 4;
    for (int b = lane; b < bytes; b += warp_lanes) {
      to[b] = static_cast<std::byte>(own.words[b / 4] >> (8 * (b % 4)));
    }
    const std::uint32_t left = own.words[bits / 32];
    __syncwarp();
    for (int w = lane; w < words_of_batch; w += warp_lanes) own.words[w] = w == 0 ? left : 0;
    __syncwarp();
    bits %= 32;
    return to + bytes;
  }

  const std::byte* columns_;
  invariant_columns at_;
  int clusters_, element_bytes_;
};

}  // namespace quipu::detail
