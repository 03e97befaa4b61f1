// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quipu::detail {

/// Digit width: four passes sort the 44-bit edge keys of a graph with four million nodes.
inline constexpr int radix_digit_bits = 11;
inline constexpr std::size_t radix_buckets = std::size_t{1} << radix_digit_bits;

using radix_offsets = std::array<std::size_t, radix_buckets>;

template <class Key>
std::size_t radix_digit(Key key, int shift) {
  return static_cast<std::size_t>(static_cast<std::uint64_t>(key) >> shift) & (radix_buckets - 1);
}

/// Start of each bucket for every pass, from one scan over the keys.
template <class Key>
std::vector<radix_offsets> radix_starts(const std::vector<Key>& keys, int bits) {
  const int passes = (bits + radix_digit_bits - 1) / radix_digit_bits;
  std::vector<radix_offsets> starts(static_cast<std::size_t>(passes));
  for (const Key key : keys) {
    for (int pass = 0; pass < passes; ++pass) {
      ++starts[static_cast<std::size_t>(pass)][radix_digit(key, pass * radix_digit_bits)];
    }
  }
  for (auto& counts : starts) {
    std::size_t sum = 0;
    for (auto& count : counts) {
      const std::size_t size = count;
      count = sum;
      sum += size;
    }
  }
  return starts;
}

/// A pass moves nothing when one bucket holds all keys.
inline bool radix_pass_is_idle(const radix_offsets& starts, std::size_t digit, std::size_t size) {
  const std::size_t end = digit + 1 < radix_buckets ? starts[digit + 1] : size;
  return starts[digit] == 0 && end == size;
}

/// Sorts non-negative integers by their lowest `bits` bits; equal keys keep their order.
template <class Key>
void radix_sort(std::vector<Key>& keys, int bits) {
  if (keys.size() < 2) return;
  auto starts = radix_starts(keys, bits);
  std::vector<Key> other(keys.size());
  int shift = 0;
  for (auto& next : starts) {
    if (!radix_pass_is_idle(next, radix_digit(keys[0], shift), keys.size())) {
      for (const Key key : keys) other[next[radix_digit(key, shift)]++] = key;
      keys.swap(other);
    }
    shift += radix_digit_bits;
  }
}

/// The same for keys that carry a value each; both vectors have one size.
template <class Key, class Value>
void radix_sort_pairs(std::vector<Key>& keys, std::vector<Value>& values, int bits) {
  if (keys.size() < 2) return;
  auto starts = radix_starts(keys, bits);
  std::vector<Key> other_keys(keys.size());
  std::vector<Value> other_values(values.size());
  int shift = 0;
  for (auto& next : starts) {
    if (!radix_pass_is_idle(next, radix_digit(keys[0], shift), keys.size())) {
      for (std::size_t k = 0; k < keys.size(); ++k) {
        const std::size_t to = next[radix_digit(keys[k], shift)]++;
        other_keys[to] = keys[k];
        other_values[to] = values[k];
      }
      keys.swap(other_keys);
      values.swap(other_values);
    }
    shift += radix_digit_bits;
  }
}

}  // namespace quipu::detail
