// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/graph/graph.hpp"

namespace quipu {

/// Builds a graph from an edge list or from compressed rows. The edges of a list are sorted by
/// (row, column), equal ones in input order; compressed rows keep their order unless an option adds
/// or drops edges, which sorts them too. The arrays lie where the context works: device arrays with
/// `context`, host arrays with `host_context`; they are copied. These calls allocate and
/// synchronise.
///
/// Errors: invalid_argument (null or misplaced arrays, negative sizes, sizes that I or O cannot
/// hold), out_of_range (an id outside its range, offsets that fall, overrun or do not cover all
/// edges; `position` is the edge or row), out_of_memory, cuda_error. O is the offset type of the
/// result.
template <class I, class O>
result<graph<I, O>> make_graph(const context&, const coo_view<I>&, const graph_options& = {});
template <class I, class O>
result<graph<I, O>> make_graph(const context&, const csr_view<I, O>&, const graph_options& = {});
template <class I, class O>
result<graph<I, O>> make_graph(const host_context&, const coo_view<I>&, const graph_options& = {});
template <class I, class O>
result<graph<I, O>> make_graph(const host_context&, const csr_view<I, O>&,
                               const graph_options& = {});

/// The O(edges) check: offsets start at 0, rise and end at `edges`; column ids in range. The device
/// form reads its verdict back and so waits for the stream.
template <class I, class O>
status validate(const context&, const csr_view<I, O>&);
template <class I, class O>
status validate(const host_context&, const csr_view<I, O>&);

/// Moves a graph between host and device; waits for the copies. The schedule comes along as it is:
/// a graph that is made on the device has one cut for it.
template <class I, class O>
result<graph<I, O>> to_device(const context&, const graph<I, O>&);
template <class I, class O>
result<graph<I, O>> to_host(const context&, const graph<I, O>&);

}  // namespace quipu
