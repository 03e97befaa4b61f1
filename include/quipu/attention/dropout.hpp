// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/element.hpp"
#include "quipu/core/view.hpp"
#include "quipu/math/random.hpp"

namespace quipu {

/// Dropout of attention: after the softmax, alpha of an edge and head becomes 0 with this
/// probability, and 1 / (1 - probability) times as much otherwise. What is dropped follows from
/// `seed` and from the number offset + edge * heads + head alone, `edge` being the position in the
/// graph: backward makes the same mask anew from the same three values, on host and device alike.
/// A caller that wants a new mask for each step moves `offset` on by edges * heads, or takes
/// another seed.
struct attention_dropout {
  double probability = 0;  // in [0, 1); 0: none
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// Two numbers for each edge and head that backward's first half leaves for its second in the
/// caller's memory, [edges, 2 * heads] without gaps: then the second half only adds rows up. Worth
/// its memory where docs/performance.md says so.
template <element T>
using attention_stash = matrix_view<accumulator<T>>;

namespace detail {

/// By how much the weight of an edge and head is multiplied.
template <class A>
class dropout_mask {
 public:
  dropout_mask(const attention_dropout& d, std::int64_t heads)
      : stream_(mix_bits(d.seed)),
        offset_(d.offset),
        heads_(static_cast<std::uint64_t>(heads)),
        dropped_below_(static_cast<std::uint64_t>(d.probability * 0x1p32)),
        kept_(static_cast<A>(1 / (1 - d.probability))) {}

  QUIPU_HD bool is_on() const { return dropped_below_ != 0; }
  QUIPU_HD A operator()(std::int64_t edge, std::int64_t head) const {
    if (!is_on()) return A{1};
    const auto counter =
        offset_ + static_cast<std::uint64_t>(edge) * heads_ + static_cast<std::uint64_t>(head);
    return random_bits(stream_, counter) >> 32 < dropped_below_ ? A{0} : kept_;
  }

 private:
  std::uint64_t stream_, offset_, heads_, dropped_below_;
  A kept_;
};

}  // namespace detail
}  // namespace quipu
