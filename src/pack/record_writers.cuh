// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/exponent_writer.cuh"
#include "pack/warp_bytes.cuh"
#include "quipu/pack/detail/device_columns.hpp"
#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/sparse_record.hpp"

/// Writers of packed records: a group of `lanes` lanes a record, the same bytes as on the host.
///
///   size(lane, elements, column, count, block)           bytes of the record, -1 if it cannot be
///                                                        packed or had better not; in all lanes
///   write(lane, elements, column, count, slot, block, own)
///   write(lane, elements, column, count, size, to, own)
///                                                        the record: in slots, false if it does
///                                                        not fit; else where it has its size
///
/// `block` is what a block shares, set up by `prepare`; `own` what a group has for itself.
namespace quipu::detail {

template <class Word, int Lanes = warp_lanes>
class sparse_writer {
  static constexpr int word_bytes = static_cast<int>(sizeof(Word));
  static constexpr int each = elements_of_lane<Word>;

 public:
  static constexpr bool in_slots = false;
  static constexpr int lanes = Lanes;
  using block_shared = nothing_shared;
  using warp_shared = nothing_shared;
  sparse_writer(const packing& p, const std::byte*)
      : fill_(static_cast<Word>(p.sparse.fill)), unit_(static_cast<Word>(p.sparse.unit)) {}
  __device__ void prepare(block_shared&) const {}

  __device__ int size(int lane, const std::byte* elements, std::int64_t, int count,
                      const block_shared&) const {
    const auto bytes = static_cast<int>(choose(lane, elements, count).bytes);
    return bytes < count * word_bytes ? bytes : -1;
  }

  __device__ void write(int lane, const std::byte* elements, std::int64_t, int count, int size,
                        std::byte* record, warp_shared&) const {
    const auto parts = chosen_before(lane, elements, count, size);
    const auto form = parts.form;
    if (lane < 2) {
      record[lane] = static_cast<std::byte>(parts.head() >> (8 * lane));
    }
    const bool is_map = form == sparse_form::mapped;
    if (form != sparse_form::units) {
      const int hole = sparse_parts::head_bytes + (is_map ? (count + 7) / 8 : 0);
      clear_bytes<Lanes>(lane, record, hole, min(parts.values, parts.bytes));
    }
    int seen = 0;
    for (int from = 0; from < count; from += Lanes * each) {
      const auto v = load(lane, elements, from, count);
      const unsigned stored = stored_of(v);
      int all;
      int k = seen + sum_before<Lanes>(__popc(stored), lane, all);
      seen += all;
      if (is_map) put_map(lane, record + parts.places, from, count, stored);
#pragma unroll
      for (int e = 0; e < each; ++e) {
        if ((stored >> e & 1u) == 0) continue;
        if (is_map || form == sparse_form::listed || (form == sparse_form::same && k == 0)) {
          store(record + parts.values + k * word_bytes, v.x[e]);
        }
        if (!is_map) put_place(record + parts.places, k, from + lane * each + e, count);
        ++k;
      }
    }
    sync();
  }

 private:
  __device__ static void sync() { __syncwarp(group_mask<Lanes>()); }
  struct loaded {
    Word x[each];
    int here;
  };
  __device__ static loaded load(int lane, const std::byte* elements, int from, int count) {
    const int i = from + lane * each;
    loaded v;
    v.here = count - i < 0 ? 0 : count - i < each ? count - i : each;
    const auto* words = reinterpret_cast<const Word*>(elements) + i;
    if (v.here == each && reinterpret_cast<std::uintptr_t>(words) % 16 == 0) {
      const uint4 all = __ldg(reinterpret_cast<const uint4*>(words));
      memcpy(v.x, &all, sizeof all);
    } else {
#pragma unroll
      for (int e = 0; e < each; ++e) v.x[e] = e < v.here ? __ldg(words + e) : Word{0};
    }
    return v;
  }
  /// A bit for each element that is not the usual one.
  __device__ unsigned stored_of(const loaded& v) const {
    unsigned stored = 0;
#pragma unroll
    for (int e = 0; e < each; ++e) {
      stored |= (e < v.here && v.x[e] != fill_ ? 1u : 0u) << e;
    }
    return stored;
  }
  /// A word at a multiple of its size up to 4.
  __device__ static void store(std::byte* to, Word x) {
    if constexpr (word_bytes == 8) {
      reinterpret_cast<std::uint32_t*>(to)[0] = static_cast<std::uint32_t>(x);
      reinterpret_cast<std::uint32_t*>(to)[1] = static_cast<std::uint32_t>(x >> 32);
    } else {
      *reinterpret_cast<Word*>(to) = x;
    }
  }
  __device__ static void put_place(std::byte* places, int k, int place, int count) {
    if (count <= 256) {
      places[k] = static_cast<std::byte>(place);
    } else {
      places[2 * k] = static_cast<std::byte>(place);
      places[2 * k + 1] = static_cast<std::byte>(place >> 8);
    }
  }
  /// The bits of a batch; neighbours share a byte where each has fewer than 8.
  __device__ static void put_map(int lane, std::byte* map, int from, int count, unsigned bits) {
    constexpr int neighbours = each < 8 ? 8 / each : 1;
    bits <<= lane % neighbours * each;
#pragma unroll
    for (int offset = 1; offset < neighbours; offset *= 2) {
      bits |= __shfl_xor_sync(group_mask<Lanes>(), bits, offset);
    }
    const int i = from + lane * each;
    if (lane % neighbours != 0) return;
    if (i < count) map[i / 8] = static_cast<std::byte>(bits);
    if (each > 8 && i + 8 < count) map[i / 8 + 1] = static_cast<std::byte>(bits >> 8);
  }

  /// The form that `choose` found, by its size.
  __device__ sparse_parts chosen_before(int lane, const std::byte* elements, int count,
                                        int size) const {
    int stored = 0;
    for (int from = 0; from < count; from += Lanes * each) {
      stored += __popc(stored_of(load(lane, elements, from, count)));
    }
    stored = sum_group<Lanes>(stored);
    sparse_parts parts(sparse_form::mapped, stored, count, word_bytes);
    for (auto form : {sparse_form::listed, sparse_form::same, sparse_form::units}) {
      if (parts.bytes != size) parts = sparse_parts(form, stored, count, word_bytes);
    }
    return parts;
  }

  /// As on the host: the shortest form; of equals the first.
  __device__ sparse_parts choose(int lane, const std::byte* elements, int count) const {
    int stored = 0, first_at = record_shape::most;  // of this lane, then of all
    Word first{}, not_unit = 0, not_first = 0;
    for (int from = 0; from < count; from += Lanes * each) {
      const auto v = load(lane, elements, from, count);
#pragma unroll
      for (int e = 0; e < each; ++e) {
        const bool is_stored = e < v.here && v.x[e] != fill_;
        first = is_stored && stored == 0 ? v.x[e] : first;
        first_at = is_stored && stored == 0 ? from + lane * each + e : first_at;
        not_unit |= is_stored ? static_cast<Word>(v.x[e] ^ unit_) : Word{0};
        not_first |= is_stored ? static_cast<Word>(v.x[e] ^ first) : Word{0};
        stored += is_stored ? 1 : 0;
      }
    }
    // How many are stored, and in how many lanes some differ, by one sum.
    const int sum = sum_group<Lanes>(stored | (not_unit != 0) << 16 | (not_first != 0) << 24);
    const bool are_units = (sum >> 16 & 0xff) == 0;
    const bool are_same = sum >> 24 == 0 && first_is_same(stored > 0, first, first_at);
    stored = sum & 0xffff;
    sparse_parts best(sparse_form::mapped, stored, count, word_bytes);
    const auto consider = [&](sparse_form form) {
      const sparse_parts parts(form, stored, count, word_bytes);
      if (parts.bytes < best.bytes) best = parts;
    };
    consider(sparse_form::listed);
    if (are_same) consider(sparse_form::same);
    if (are_units) consider(sparse_form::units);
    return best;
  }

  /// Whether the first elements that lanes store are the same.
  __device__ static bool first_is_same(bool has_any, Word first, int first_at) {
    int lowest = first_at;
#pragma unroll
    for (int offset = Lanes / 2; offset > 0; offset /= 2) {
      lowest = min(lowest, __shfl_xor_sync(group_mask<Lanes>(), lowest, offset));
    }
    const Word first_of_all = tell_group<Lanes>(first, lowest / each % Lanes);
    return !any_of_group<Lanes>(has_any && first != first_of_all);
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
  static constexpr int lanes = warp_lanes;
  using block_shared = nothing_shared;
  struct warp_shared {
    std::uint32_t words[warp_lanes * unit_bits / 32 + 2];
  };
  invariant_writer(const packing& p, const std::byte* columns)
      : columns_(columns),
        at_(p.invariant.clusters, p.width * p.element_bytes, unit_bytes),
        clusters_(p.invariant.clusters),
        element_bytes_(p.element_bytes) {}
  __device__ void prepare(block_shared&) const {}

  __device__ int size(int lane, const std::byte* elements, std::int64_t column, int count,
                      const block_shared&) const {
    const int bytes = choose(lane, elements, column, count).bytes;
    return bytes < count * element_bytes_ ? bytes : -1;
  }

  __device__ void write(int lane, const std::byte* elements, std::int64_t column, int count, int,
                        std::byte* record, warp_shared& own) const {
    const int cluster = clusters_ > 1 ? choose(lane, elements, column, count).cluster : 0;
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
  __device__ int runs() const { return __ldg(reinterpret_cast<const std::int32_t*>(columns_)); }
  __device__ int kept_of(std::int64_t c) const {
    return static_cast<int>(columns_[at_.kept() + c]);
  }
  /// What lies outside the mask: the runs, all together.
  __device__ bool participates(Unit x, std::int64_t c) const {
    Unit outside = 0;
    for (int run = 0, all = runs(); run < all; ++run) {
      outside = static_cast<Unit>(outside | entry(at_.mask(run), c));
    }
    return static_cast<Unit>(x & ~outside) == entry(at_.value(), c);
  }
  __device__ Unit extract(Unit x, std::int64_t c) const {
    Unit dense = 0;
    for (int run = 0, all = runs(); run < all; ++run) {
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
