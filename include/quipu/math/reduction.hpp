// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/core/config.hpp"

namespace quipu {

/// What min and max keep: the best value so far and the edge position, inside its row, that holds
/// it. `no_edge` is the largest position, so that any real one comes before it.
inline constexpr std::uint32_t no_edge = 0xffffffffu;

enum class extremum : std::uint8_t { min, max };

/// True if a later `candidate` must replace `best`: strictly better, or the first NaN. -0 equals
/// +0.
template <extremum E, class A>
QUIPU_HD inline bool replaces(A candidate, A best) {
  const bool not_behind = E == extremum::max ? !(candidate <= best) : !(candidate >= best);
  return not_behind && best == best;
}

/// True if a later `candidate` is strictly better. NaN is never better than anything, nor anything
/// better than NaN: whoever uses this must look for NaN by other means.
template <extremum E, class A>
QUIPU_HD inline bool better(A candidate, A best) {
  return E == extremum::max ? candidate > best : candidate < best;
}

/// The identity: no real value loses against it, and a row that holds nothing else is told apart by
/// its `no_edge` (see `resolve_first`).
template <extremum E, class A>
QUIPU_HD constexpr A worst() {
  return E == extremum::max ? -static_cast<A>(__builtin_huge_val())
                            : static_cast<A>(__builtin_huge_val());
}

/// Folds one more element in; positions must rise from call to call.
template <extremum E, class A>
QUIPU_HD inline void fold_extremum(A& best, std::uint32_t& position, A candidate,
                                   std::uint32_t candidate_position) {
  const bool take = replaces<E>(candidate, best);
  best = take ? candidate : best;
  position = take ? candidate_position : position;
}

/// If nothing ever replaced the identity, every element of a non-empty row equals it, and the first
/// one wins.
QUIPU_HD inline std::uint32_t resolve_first(std::uint32_t position, std::int64_t degree) {
  return position == no_edge && degree > 0 ? 0u : position;
}

}  // namespace quipu
