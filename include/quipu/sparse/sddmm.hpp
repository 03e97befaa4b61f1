// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/core/context.hpp"
#include "quipu/core/view.hpp"
#include "quipu/graph/normalise.hpp"

namespace quipu {

/// A sampled dense-dense product: for each edge k from sender j to receiver i
///   output[k] = alpha * scales.row[i] * scales.column[j] * <left[i], right[j]>.
///
/// With left = dY, right = X and the factors and alpha of a product, this is the gradient of the
/// product's edge weights. Sums in fp32 (fp64 for fp64), in an order that depends on the
/// width, the alignment and the mean degree. Reads edges * features * sizeof(T) bytes of gathered
/// rows and each left row once a slice; writes 4 bytes an edge. Needs no workspace.
///
/// alpha = 0 gives zeros, whatever the matrices hold. Errors: invalid_argument names the field.
template <element T, node_index I, node_index O = I>
struct sddmm_args {
  graph_view<I, O> graph;
  scales_view scales = {};
  matrix_view<const T> left;           // [rows, features]
  matrix_view<const T> right;          // [columns, features]
  vector_view<accumulator<T>> output;  // [edges], in the order of the graph
  accumulator<T> alpha = 1;
};

template <class T, class I, class O>
status sddmm(const context&, const sddmm_args<T, I, O>&);
template <class T, class I, class O>
status sddmm(const host_context&, const sddmm_args<T, I, O>&);

}  // namespace quipu
