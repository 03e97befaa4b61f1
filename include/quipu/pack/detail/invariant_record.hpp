// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "quipu/pack/detail/bit_stream.hpp"
#include "quipu/pack/packing.hpp"

namespace quipu::detail {

/// An invariant record: where there are several clusters, a byte that says which; a participation
/// bit a unit, low bits first, padded to a byte; then of every unit the bits that remain, low bits
/// first: those outside the mask if it participates, else all.

/// Units of `Unit`'s size. The last one of a row may be short: what it lacks is zeros that the mask
/// covers.
template <class Unit>
class invariant_coder {
 public:
  static constexpr auto unit_bytes = static_cast<std::int64_t>(sizeof(Unit));
  static constexpr int unit_bits = 8 * static_cast<int>(sizeof(Unit));

  explicit invariant_coder(const packing& p)
      : row_bytes_(p.width * p.element_bytes),
        element_bytes_(p.element_bytes),
        clusters_(p.invariant.clusters),
        head_bytes_(p.invariant.clusters > 1 ? 1 : 0),
        units_(round_up(row_bytes_, unit_bytes) / unit_bytes) {
    columns_.resize(static_cast<std::size_t>(clusters_ * units_));
    for (std::int64_t c = 0; c < clusters_; ++c) {
      for (std::int64_t u = 0; u < units_; ++u) {
        auto& column = columns_[static_cast<std::size_t>(c * units_ + u)];
        const auto at = c * row_bytes_ + u * unit_bytes;
        const auto there = std::min(unit_bytes, row_bytes_ - u * unit_bytes);
        column.value = load_some(p.invariant.value.data() + at, there);
        column.mask = load_some(p.invariant.mask.data() + at, there);
        if (there < unit_bytes) {
          column.mask =
              static_cast<Unit>(column.mask | ~low_bits<Unit>(static_cast<int>(8 * there)));
        }
        column.left_out = std::popcount(column.mask);
        column.runs = kept_runs<Unit>(static_cast<Unit>(~column.mask));
      }
    }
  }

  /// Bytes of a record; -1 if that is no less than its elements.
  std::int64_t size(const std::byte* elements, std::int64_t column,
                    std::int64_t count) const noexcept {
    const auto bytes = choose(elements, run_of(column, count)).bytes;
    return bytes < count * element_bytes_ ? bytes : -1;
  }

  void encode(const std::byte* elements, std::int64_t column, std::int64_t count,
              std::byte* record) const noexcept {
    const auto run = run_of(column, count);
    const auto best = choose(elements, run);
    if (head_bytes_ > 0) *record = static_cast<std::byte>(best.cluster);
    const column_bits* columns = columns_of(best.cluster, run);
    std::byte* map = record + head_bytes_;
    bit_writer rest(map + bytes_of_bits(run.units), record + best.bytes);
    for (std::int64_t from = 0; from < run.units; from += 8) {
      const auto n = static_cast<int>(std::min<std::int64_t>(8, run.units - from));
      unsigned takes_part = 0;
      for (int j = 0; j < n; ++j) {
        const auto x = load_unit(elements, from + j, run);
        const auto& c = columns[from + j];
        const unsigned agrees = (x & c.mask) == c.value;
        rest.put(either(agrees, c.runs.extract(x), x), c.bits(agrees));
        takes_part |= agrees << j;
      }
      map[from / 8] = static_cast<std::byte>(takes_part);
    }
    rest.finish();
  }

  bool decode(const std::byte* record, std::int64_t room, std::int64_t column, std::int64_t count,
              std::byte* elements) const noexcept {
    if (room < head_bytes_) return false;
    const auto cluster = head_bytes_ > 0 ? static_cast<std::int64_t>(*record) : 0;
    const auto run = run_of(column, count);
    const auto map_bytes = bytes_of_bits(run.units);
    if (cluster >= clusters_ || head_bytes_ + map_bytes > room) return false;
    const std::byte* map = record + head_bytes_;
    const column_bits* columns = columns_of(cluster, run);
    const auto rest_bytes = room - head_bytes_ - map_bytes;
    const bit_reader rest(map + map_bytes, rest_bytes);
    std::int64_t at = 0;
    for (std::int64_t from = 0; from < run.units; from += 8) {
      const auto bytes = std::min(8 * unit_bytes, run.bytes - from * unit_bytes);
      const auto takes_part = static_cast<unsigned>(map[from / 8]);
      Unit x[8];
      if (bytes == 8 * unit_bytes && rest.has_words<Unit>(at, 8)) {
        at = read_eight(rest, at, takes_part, columns + from, x);
        std::memcpy(elements + from * unit_bytes, x, sizeof x);
      } else {
        const auto n = static_cast<int>(round_up(bytes, unit_bytes) / unit_bytes);
        at = read_last(rest, at, takes_part, columns + from, n, x);
        if (at > 8 * rest_bytes) return false;
        std::memcpy(elements + from * unit_bytes, x, static_cast<std::size_t>(bytes));
      }
    }
    return true;
  }

  /// Bytes of a record by its map, of which there is to be `room`; 0 if it is malformed.
  std::int64_t stored_bytes(const std::byte* record, std::int64_t room, std::int64_t column,
                            std::int64_t count) const noexcept {
    const auto run = run_of(column, count);
    const auto map_bytes = bytes_of_bits(run.units);
    if (room < head_bytes_ + map_bytes) return 0;
    const auto cluster = head_bytes_ > 0 ? static_cast<std::int64_t>(*record) : 0;
    if (cluster >= clusters_) return 0;
    const column_bits* columns = columns_of(cluster, run);
    std::int64_t bits = 0;
    for (std::int64_t u = 0; u < run.units; ++u) {
      bits += columns[u].bits(static_cast<unsigned>(record[head_bytes_ + u / 8]) >> (u % 8) & 1);
    }
    return head_bytes_ + map_bytes + bytes_of_bits(bits);
  }

 private:
  struct column_bits {
    Unit mask, value;
    int left_out;
    kept_runs<Unit> runs;
    /// Bits that a unit leaves in a record.
    int bits(unsigned agrees) const noexcept {
      return unit_bits - (left_out & -static_cast<int>(agrees));
    }
  };
  struct unit_run {
    std::int64_t first, units, bytes;
  };
  struct chosen {
    std::int64_t bytes;
    std::int64_t cluster;
  };

  static Unit load_some(const std::byte* from, std::int64_t bytes) noexcept {
    Unit w = 0;
    std::memcpy(&w, from, static_cast<std::size_t>(bytes));
    return w;
  }
  unit_run run_of(std::int64_t column, std::int64_t count) const noexcept {
    const auto bytes = count * element_bytes_;
    return {column * element_bytes_ / unit_bytes, round_up(bytes, unit_bytes) / unit_bytes, bytes};
  }
  const column_bits* columns_of(std::int64_t cluster, const unit_run& run) const noexcept {
    return columns_.data() + cluster * units_ + run.first;
  }
  Unit load_unit(const std::byte* elements, std::int64_t u, const unit_run& run) const noexcept {
    const auto* from = elements + u * unit_bytes;
    const auto there = run.bytes - u * unit_bytes;
    return there >= unit_bytes ? load_word<Unit>(from) : load_some(from, there);
  }

  /// `first` if `agrees` is 1, `second` if it is 0. Of a conditional expression compilers make a
  /// branch, which here would often be foreseen wrongly.
  static Unit either(unsigned agrees, Unit first, Unit second) noexcept {
    return static_cast<Unit>(second ^ ((first ^ second) & -static_cast<Unit>(agrees)));
  }

  /// Units whose bits are all there; returns where the next one's begin.
  static std::int64_t read_eight(const bit_reader& rest, std::int64_t at, unsigned takes_part,
                                 const column_bits* columns, Unit* x) noexcept {
    for (int j = 0; j < 8; ++j) {
      const auto& c = columns[j];
      const unsigned agrees = takes_part >> j & 1;
      const auto dense = rest.word<Unit>(at);
      x[j] = either(agrees, static_cast<Unit>(c.runs.deposit(dense) | c.value), dense);
      at += c.bits(agrees);
    }
    return at;
  }
  /// `n` units where the bytes, or a row, may end: bits that are not there are zeros.
  static std::int64_t read_last(const bit_reader& rest, std::int64_t at, unsigned takes_part,
                                const column_bits* columns, int n, Unit* x) noexcept {
    for (int j = 0; j < n; ++j) {
      const auto& c = columns[j];
      const unsigned agrees = takes_part >> j & 1;
      const auto dense = static_cast<Unit>(rest.bits(at, c.bits(agrees)));
      x[j] = either(agrees, static_cast<Unit>(c.runs.deposit(dense) | c.value), dense);
      at += c.bits(agrees);
    }
    return at;
  }

  /// The cluster that makes the record shortest, of equals the first.
  chosen choose(const std::byte* elements, const unit_run& run) const noexcept {
    chosen best{-1, 0};
    for (std::int64_t c = 0; c < clusters_; ++c) {
      const column_bits* columns = columns_of(c, run);
      std::int64_t bits = 0;
      for (std::int64_t u = 0; u < run.units; ++u) {
        const auto& column = columns[u];
        bits += column.bits((load_unit(elements, u, run) & column.mask) == column.value);
      }
      const auto bytes = head_bytes_ + bytes_of_bits(run.units) + bytes_of_bits(bits);
      if (best.bytes < 0 || bytes < best.bytes) best = {bytes, c};
    }
    return best;
  }

  std::int64_t row_bytes_, element_bytes_, clusters_, head_bytes_, units_;
  std::vector<column_bits> columns_;  // [clusters, units]
};

}  // namespace quipu::detail
