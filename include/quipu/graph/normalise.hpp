// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "quipu/graph/graph.hpp"

namespace quipu {

/// How a sum over neighbours is normalised. With in(i) and out(j) the edge counts of receiver i and
/// sender j, at least 1, an edge from j to i counts
///   none       1
///   mean       1 / in(i)
///   walk       1 / out(j)                      (a random walk's step)
///   symmetric  1 / sqrt(in(i) out(j))          (Kipf and Welling, GCN, 2017)
/// times its weight.
enum class normalisation : std::uint8_t { none, mean, walk, symmetric };

/// Whether a normalisation counts the edges of senders, and so needs the graph's reverse.
constexpr bool counts_senders(normalisation n) {
  return n == normalisation::walk || n == normalisation::symmetric;
}

/// N(A) = diag(row) A diag(column): two factors a node instead of one an edge. Null stands for
/// ones. Factors are fp32, as edge weights are.
struct scales_view {
  const float* row = nullptr;     // [rows]
  const float* column = nullptr;  // [columns]
  /// Tells factors apart that follow each other in the same memory; 0: put together by hand.
  std::uint64_t identity = 0;
};

/// Owns the factors of one normalisation of one graph.
class node_scales {
 public:
  node_scales() = default;
  node_scales(buffer<float> row, buffer<float> column)
      : row_(std::move(row)), column_(std::move(column)), identity_(detail::next_identity()) {}
  scales_view view() const { return {row_.data(), column_.data(), identity_}; }

 private:
  buffer<float> row_;
  buffer<float> column_;
  std::uint64_t identity_ = 0;
};

/// Computes the factors where the graph lies. walk and symmetric count a sender's edges and so need
/// the graph's reverse. Allocates; the device form waits for its stream. Errors: invalid_argument,
/// out_of_memory, cuda_error.
template <class I, class O>
result<node_scales> make_node_scales(const context&, const graph_view<I, O>&, normalisation);
template <class I, class O>
result<node_scales> make_node_scales(const host_context&, const graph_view<I, O>&, normalisation);

}  // namespace quipu
