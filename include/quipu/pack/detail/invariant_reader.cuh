// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "quipu/pack/detail/device_columns.hpp"
#include "quipu/pack/detail/device_records.cuh"

namespace quipu {

/// codec::invariant. `Word` is the unit, which is one element or several; a lane makes vectors of
/// 16 bytes, `Batch` of them at a time: the bits of their units lie side by side in the record and
/// are fetched as a whole.
template <class Word, int Lanes, int Batch>
class invariant_reader {
  static constexpr int unit_bytes = static_cast<int>(sizeof(Word));
  static constexpr int unit_bits = 8 * unit_bytes;
  static constexpr int each = elements_of_lane<Word>;
  static constexpr int step = Batch * Lanes * each;

 public:
  using residence = detail::reader_residence<codec::invariant, each, Lanes>;
  explicit invariant_reader(const packed_view& v, const detail::stage_window& stage = {})
      : rows_(v, stage), clusters_(v.how->invariant.clusters) {
    const detail::invariant_columns at(clusters_, v.how->width * v.how->element_bytes, unit_bytes);
    units_ = at.units;
    runs_ = reinterpret_cast<const std::int32_t*>(v.columns);
    values_ = v.columns + at.value();
    kept_ = v.columns + at.kept();
    masks_ = v.columns + at.mask(0);
    gaps_ = v.columns + at.gap(0);
    run_bytes_ = at.mask(1) - at.mask(0);
  }

  template <class Sink>
  __device__ bool read(int lane, std::int64_t row, int part, const Sink& sink) const {
    const auto index = row * rows_.records + part;
    const auto address = __ldg(rows_.addresses + index);
    const int runs = __ldg(runs_);  // under way with the address
    const auto at = rows_.place(address);
    const int bytes = rows_.count(part) * rows_.element_bytes;
    const int room = rows_.room_at(at);
    if ((address & detail::whole_flag) != 0) {
      if (room < bytes) return false;
      return read_bytes(lane, rows_.bytes + at, bytes, sink);
    }
    const int units = static_cast<int>(static_cast<unsigned>(bytes + unit_bytes - 1) / unit_bytes);
    const int head = clusters_ > 1 ? 1 : 0;
    const int map_bytes = (units + 7) >> 3;
    if (room < head + map_bytes) return false;
    // Over a link all of it is asked for before the first part is waited for.
    const auto touched = rows_.after(detail::touch_addressed<Lanes>(rows_, lane, index, address));
    const auto* record = rows_.bytes + at;
    const int cluster = head > 0 ? static_cast<int>(*record) : 0;
    if (cluster >= clusters_) return false;
    const auto column = cluster * units_ + std::int64_t{part} * (rows_.record_bytes / unit_bytes);
    // Bits are counted from the word in which the record begins; a record has fewer than 2^31.
    const auto skip = static_cast<std::uint32_t>(at) % 4;
    const auto* words = record - skip;
    const auto end = 8 * (skip + static_cast<std::uint32_t>(room));
    std::uint32_t bit = 8 * (skip + static_cast<std::uint32_t>(head + map_bytes)) + touched;
    bool sound = true;
    for (int from = 0; from < units; from += step) {
      const auto* map = record + head;
      bit += read_batch(lane, words, map, column, from, units, runs, bit, end, bytes, sound, sink);
      if (Lanes < 32) break;
    }
    return sound;
  }

 private:
  /// A lane's units, side by side.
  struct vector {
    std::uint32_t of[4];
  };
  using wide = std::conditional_t<unit_bytes == 8, std::uint64_t, std::uint32_t>;
  /// A byte for each of them.
  static constexpr int byte_words = (each + 3) / 4;
  struct byte_each {
    std::uint32_t of[byte_words];
  };
  __device__ static std::uint32_t byte_of(const byte_each& b, int k) {
    return b.of[k / 4] >> (8 * (k % 4)) & 0xff;
  }

  /// Reads units from `from` on; returns how many bits they take.
  template <class Sink>
  __device__ std::uint32_t read_batch(int lane, const std::byte* words, const std::byte* map,
                                      std::int64_t column, int from, int units, int runs,
                                      std::uint32_t bit, std::uint32_t end, int bytes, bool& sound,
                                      const Sink& sink) const {
    byte_each part[Batch], kept[Batch];
    int counts[Batch];
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      const int u = from + (b * Lanes + lane) * each;
      find_kept(map, column + u, u, units, part[b], kept[b]);
      counts[b] = sum_of(kept[b]);
    }
    const detail::batch_counts<Lanes, Batch> at(lane, counts);
    if (bit + static_cast<std::uint32_t>(at.all()) > end) {
      sound = false;
      return 0;
    }
    std::uint32_t words_of[Batch][5];
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      load_bits(words, bit + static_cast<std::uint32_t>(at.before(b)),
                static_cast<std::uint32_t>(counts[b]), words_of[b]);
    }
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      const int u = from + (b * Lanes + lane) * each;
      if (u >= units) break;
      const vector raw = extract(words_of[b], kept[b]);
      vector made = deposit(column + u, runs, raw);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const auto mask = units_of(part[b], w);
        made.of[w] = (made.of[w] & mask) | (raw.of[w] & ~mask);
      }
      const int left = bytes - u * unit_bytes;
      sink.put_bytes(u * unit_bytes, left < 16 ? left : 16, made.of);
    }
    return static_cast<std::uint32_t>(at.all());
  }

  /// Which units from u on take part, and how many bits they have in the record. Columns behind the
  /// last one keep no bits, and there it does not matter whether they do.
  __device__ void find_kept(const std::byte* map, std::int64_t column, int u, int units,
                            byte_each& part, byte_each& kept) const {
    part = kept = {};
    if (u >= units) return;
    const auto bits = detail::map_bits<each>(map, u, units);
    part = ones(units - u < each ? bits | ~0u << (units - u) : bits);
    kept = load_bytes(kept_, column);
    constexpr std::uint32_t whole = unit_bits * (each == 2 ? 0x0101u : 0x01010101u);
#pragma unroll
    for (int w = 0; w < byte_words; ++w) {
      kept.of[w] = (kept.of[w] & part.of[w]) | (whole & ~part.of[w]);
    }
  }
  __device__ static int sum_of(const byte_each& counts) {
    unsigned sum = 0;
#pragma unroll
    for (int w = 0; w < byte_words; ++w) sum = __dp4a(counts.of[w], 0x01010101u, sum);
    return static_cast<int>(sum);
  }

  /// Spreads units' bits over what lies outside the masks.
  __device__ vector deposit(std::int64_t column, int runs, const vector& dense) const {
    vector made = load_vector(values_, column);
    for (int run = 0; run < runs; ++run) {
      const vector mask = load_vector(masks_ + run * run_bytes_, column);
      const byte_each gap = load_bytes(gaps_ + run * run_bytes_, column);
      const vector spread = by_unit([&](int k) { return unit_of(dense, k) << byte_of(gap, k); });
#pragma unroll
      for (int w = 0; w < 4; ++w) made.of[w] |= spread.of[w] & mask.of[w];
    }
    return made;
  }

  /// A byte of ones for each bit.
  __device__ static byte_each ones(std::uint32_t bits) {
    byte_each b;
#pragma unroll
    for (int w = 0; w < byte_words; ++w) {
      b.of[w] = ((bits >> (4 * w) & 0xf) * 0x00204081u & 0x01010101u) * 0xff;
    }
    return b;
  }
  /// The units in word w of a vector, each the same bytes all over.
  __device__ static std::uint32_t units_of(const byte_each& bytes, int w) {
    if constexpr (unit_bytes == 1) return bytes.of[w];
    const auto k = static_cast<std::uint32_t>(4 * w / unit_bytes);
    const std::uint32_t low = k % 4 * 0x11, high = unit_bytes == 2 ? low + 0x11 : low;
    return __byte_perm(bytes.of[k / 4], 0, high << 8 | low);
  }

  /// `count` bits from bit `from` on, and what follows them.
  __device__ static void load_bits(const std::byte* words, std::uint32_t from, std::uint32_t count,
                                   std::uint32_t (&bits)[5]) {
#pragma unroll
    for (unsigned w = 0; w < 5; ++w) {
      bits[w] = 32 * w < from % 32 + count ? detail::word_at(words, from / 32 + w) : 0;
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) bits[w] = __funnelshift_r(bits[w], bits[w + 1], from);
    bits[4] = 0;
  }
  /// Units, whose bits lie one behind the other: each from its lowest bit on, and what follows it.
  __device__ static vector extract(std::uint32_t (&left)[5], const byte_each& kept) {
    return by_unit([&](int k) {
      wide x = left[0];
      if constexpr (unit_bytes == 8) x |= static_cast<wide>(left[1]) << 32;
      drop(left, (unit_bits * (each - 1 - k) + 31) / 32, byte_of(kept, k));
      return x;
    });
  }
  /// Shifts a unit's bits out; of what is left `words` may have some of the units behind it.
  __device__ static void drop(std::uint32_t (&left)[5], int words, std::uint32_t bits) {
    if (unit_bytes == 8 && bits >= 32) {
      bits -= 32;
#pragma unroll
      for (int w = 0; w < 4; ++w) left[w] = left[w + 1];
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (w >= words) continue;
      left[w] = unit_bytes < 4 ? __funnelshift_r(left[w], left[w + 1], bits)
                               : __funnelshift_rc(left[w], left[w + 1], bits);
    }
  }

  /// The low bits of f(0), f(1) and so on, side by side.
  template <class F>
  __device__ static vector by_unit(F f) {
    vector v;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (unit_bytes == 8) {
        if (w % 2 != 0) continue;
        const wide x = f(w / 2);
        v.of[w] = static_cast<std::uint32_t>(x);
        v.of[w + 1] = static_cast<std::uint32_t>(x >> 32);
      } else if constexpr (unit_bytes == 4) {
        v.of[w] = f(w);
      } else if constexpr (unit_bytes == 2) {
        const auto first = f(2 * w);
        v.of[w] = __byte_perm(first, f(2 * w + 1), 0x5410);
      } else {
        const auto first = f(4 * w), second = f(4 * w + 1), third = f(4 * w + 2);
        v.of[w] = __byte_perm(__byte_perm(first, second, 0x0040),
                              __byte_perm(third, f(4 * w + 3), 0x0040), 0x5410);
      }
    }
    return v;
  }
  /// Unit k in the low bits, and whatever above it.
  __device__ static wide unit_of(const vector& v, int k) {
    const int w = k * unit_bytes / 4;
    if constexpr (unit_bytes == 8) return static_cast<wide>(v.of[w + 1]) << 32 | v.of[w];
    return v.of[w] >> (k * unit_bits % 32);
  }

  /// A record that lies as it is.
  template <class Sink>
  __device__ static bool read_bytes(int lane, const std::byte* from, int bytes, const Sink& sink) {
    for (int at = 16 * lane; at < bytes; at += 16 * Lanes) {
      const int here = bytes - at < 16 ? bytes - at : 16;
      vector v{};
      if (here == 16 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
        const uint4 all = __ldg(reinterpret_cast<const uint4*>(from + at));
        v = {{all.x, all.y, all.z, all.w}};
      } else {
#pragma unroll
        for (int b = 0; b < 16; ++b) {
          if (b < here) v.of[b / 4] |= static_cast<std::uint32_t>(from[at + b]) << (8 * (b % 4));
        }
      }
      sink.put_bytes(at, here, v.of);
    }
    return true;
  }

  /// A lane's entries of an array over the columns, a unit each.
  __device__ static vector load_vector(const std::byte* array, std::int64_t column) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(array + column * unit_bytes));
    return {{v.x, v.y, v.z, v.w}};
  }
  /// Of an array of bytes.
  __device__ static byte_each load_bytes(const std::byte* array, std::int64_t column) {
    const auto* from = array + column;
    byte_each b;
    if constexpr (each == 2) {
      b.of[0] = __ldg(reinterpret_cast<const std::uint16_t*>(from));
    } else if constexpr (each == 4) {
      b.of[0] = __ldg(reinterpret_cast<const std::uint32_t*>(from));
    } else if constexpr (each == 8) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(from));
      b = {{v.x, v.y}};
    } else {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(from));
      b = {{v.x, v.y, v.z, v.w}};
    }
    return b;
  }

  detail::device_records rows_;
  int clusters_;
  std::int64_t units_;  // of a row
  const std::int32_t* runs_;
  // Arrays over [clusters, units]; those of the second run lie `run_bytes_` behind the first's.
  const std::byte *values_, *kept_, *masks_, *gaps_;
  std::int64_t run_bytes_;
};

}  // namespace quipu
