// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cuda/std/bit>

#include "quipu/core/config.hpp"

namespace quipu {

/// A word whose `count` lowest bits are set; `count` up to the word's size.
template <std::unsigned_integral Word>
QUIPU_HD constexpr Word low_bits(int count) noexcept {
  constexpr int size = 8 * static_cast<int>(sizeof(Word));
  if (count <= 0) return 0;
  return static_cast<Word>(static_cast<Word>(~Word{0}) >> (size - count));
}

/// Bits of a mask that lie side by side. `mask` covers them, `gap` counts the bits below them that
/// the mask has not: (dense << gap) & mask puts them where they belong.
template <std::unsigned_integral Word>
struct bit_run {
  Word mask = 0;
  int gap = 0;
};

/// How many runs a mask has.
template <std::unsigned_integral Word>
QUIPU_HD constexpr int count_runs(Word mask) noexcept {
  return cuda::std::popcount(static_cast<Word>(mask & ~static_cast<Word>(mask << 1)));
}

/// Takes the lowest run off `mask`, which is not 0. `taken` bits of the mask were lower; the run's
/// are added to it.
template <std::unsigned_integral Word>
QUIPU_HD constexpr bit_run<Word> take_run(Word& mask, int& taken) noexcept {
  const int from = cuda::std::countr_zero(mask);
  const int length = cuda::std::countr_one(static_cast<Word>(mask >> from));
  const bit_run<Word> run{static_cast<Word>(low_bits<Word>(length) << from), from - taken};
  mask = static_cast<Word>(mask & ~run.mask);
  taken += length;
  return run;
}

/// The bits of `value` under `mask`, side by side at the low end (PEXT).
template <std::unsigned_integral Word>
QUIPU_HD constexpr Word extract_bits(Word value, Word mask) noexcept {
  Word dense = 0;
  for (int taken = 0; mask != 0;) {
    const auto run = take_run(mask, taken);
    dense = static_cast<Word>(dense | ((value & run.mask) >> run.gap));
  }
  return dense;
}

/// The low bits of `dense`, spread over the set bits of `mask` (PDEP).
template <std::unsigned_integral Word>
QUIPU_HD constexpr Word deposit_bits(Word dense, Word mask) noexcept {
  Word value = 0;
  for (int taken = 0; mask != 0;) {
    const auto run = take_run(mask, taken);
    value = static_cast<Word>(value | (static_cast<Word>(dense << run.gap) & run.mask));
  }
  return value;
}

}  // namespace quipu
