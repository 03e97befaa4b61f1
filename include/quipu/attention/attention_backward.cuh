// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "quipu/attention/attention.cuh"
#include "quipu/attention/detail/check_gradients.hpp"
#include "quipu/attention/detail/gat_gradients.hpp"
#include "quipu/attention/detail/gatv2_gradients.hpp"
#include "quipu/attention/detail/transformer_gradients.hpp"
#include "quipu/engine/device_totals.cuh"

namespace quipu {

namespace detail {

/// One half of a gradient: a traversal of one direction, by heads.
template <class T, attention_kind Kind>
struct gradient_half {
  const context& ctx;
  std::int64_t heads, dim;
  bool aligned;
  arena& scratch;
  bool count_only;

  template <class Program, class Rows, class I, class O>
  status operator()(const Program& program, const Rows& rows, const direction_view<I, O>& d) const {
    return with_lay_out<Program::side>(d, [&]<engine_policy P>() {
      const arena::loan states(scratch);
      const auto partial = carve_partials<P, Program>(scratch, d.schedule, dim, heads);
      if (count_only) return check_launch<P>(d.schedule, partial);
      return traverse<P>(ctx, program, rows, d, dim, partial);
    });
  }

  /// With totals over all rows, which are added to `totals`.
  template <class Program, class Rows, class I, class O>
  status with_totals(const Program& program, const Rows& rows, const direction_view<I, O>& d,
                     total_sets<accumulator<T>>& totals) const {
    return with_lay_out<Program::side>(d, [&]<engine_policy P>() {
      const arena::loan states(scratch);
      const auto partial = carve_partials<P, Program>(scratch, d.schedule, dim, heads);
      if (count_only) return check_launch<P>(d.schedule, partial);
      return traverse_with_totals<P>(ctx, program, rows, d, dim, partial, totals);
    });
  }

 private:
  template <gradient_side Side, class I, class O, class Use>
  status with_lay_out(const direction_view<I, O>& d, Use use) const {
    const auto run = [&]<int Width>() -> status {
      using tuning = gradient_tuning<Width, Kind, Side>;
      const auto degree = d.csr.rows > 0 ? d.csr.edges / d.csr.rows : 0;
      if (dim > tuning::widest) {
        return failure(status_code::unsupported, "grad_output: heads this wide have no gradient",
                       -1, tuning::widest, dim);
      }
      return with_policy<tuning>(tuning::choose(dim, degree), use);
    };
    return aligned ? run.template operator()<16 / static_cast<int>(sizeof(T))>()
                   : run.template operator()<1>();
  }
};

/// What the halves of a gradient share.
template <class Args, class T = typename decltype(Args::grad_output)::value_type>
class gradient_parts {
  using A = accumulator<T>;

 public:
  gradient_parts(const Args& a, arena& scratch)
      : a_(a),
        records_(make_records(a, scratch)),
        dropout_(a.dropout, records_.heads),
        stash_(reinterpret_cast<edge_gradient<A>*>(a.stash.data_handle())) {}

  std::int64_t record_bytes() const {
    return a_.graph.rows() * records_.heads * static_cast<std::int64_t>(sizeof(A)) *
           (records_.apart ? 1 : 2);
  }

  /// Whether edges have more to them than their rows.
  bool have_extras() const { return dropout_.is_on() || stash_ != nullptr; }

  template <bool Extras>
  receivers_half<T, Extras> receivers() const {
    return {head_matrix<T>(a_.grad_output), head_matrix<T>(a_.output), records_, dropout_, stash_};
  }
  template <bool Extras>
  auto senders() const {
    using offset = std::remove_cvref_t<decltype(*a_.graph.edge_map)>;
    return senders_half<T, offset, Extras>{records_, dropout_, stash_, a_.graph.edge_map};
  }

 private:
  static record_list<A> make_records(const Args& a, arena& scratch) {
    const auto heads = a.grad_output.extent(1), count = a.graph.rows() * heads;
    const auto head_bytes = a.grad_output.extent(2) * static_cast<std::int64_t>(sizeof(T));
    const bool apart = heads >= many_heads && head_bytes <= narrow_head_bytes;
    return {a.logsumexp.data_handle(), a.logsumexp.stride(0), heads,
            scratch.take<A>(apart ? count : 2 * count), apart};
  }

  const Args& a_;
  record_list<A> records_;
  dropout_mask<A> dropout_;
  edge_gradient<A>* stash_;
};

template <class T, attention_kind Kind, class Args, class... Heads>
gradient_half<T, Kind> half_of(const context& ctx, const Args& a, arena& scratch, bool count_only,
                               const Heads&... heads) {
  const bool aligned = on_vector_border(a.output) && on_vector_border(a.grad_output) &&
                       (on_vector_border(heads) && ...);
  return {ctx, a.grad_output.extent(1), a.grad_output.extent(2), aligned, scratch, count_only};
}

template <bool Extras, class T, class I, class O>
status send_back(const context& ctx, const transformer_backward_args<T, I, O>& a,
                 const gradient_parts<transformer_backward_args<T, I, O>>& parts, arena& scratch,
                 bool count_only) {
  using A = accumulator<T>;
  const auto half = half_of<T, attention_kind::transformer>(
      ctx, a, scratch, count_only, a.query, a.key, a.value, a.grad_query, a.grad_key, a.grad_value);
  const head_numbers<const A> bias(a.bias);
  const transformer_receivers<T, Extras> receivers{{{head_output<T>(a.grad_query, a.scale)}},
                                                   parts.template receivers<Extras>(),
                                                   head_matrix<T>(a.query),
                                                   a.scale,
                                                   bias,
                                                   head_numbers<A>(a.grad_bias)};
  auto s = half(receivers, key_value_rows<T>{head_rows<T>(a.key), head_rows<T>(a.value)},
                a.graph.forward);
  if (!s.ok()) return s;
  const transformer_senders<T, O, Extras> senders{
      {{head_output<T>(a.grad_key, a.scale), head_output<T>(a.grad_value)}},
      parts.template senders<Extras>(),
      head_matrix<T>(a.key),
      head_matrix<T>(a.value),
      a.scale,
      bias};
  return half(senders, receiver_rows<T>{head_rows<T>(a.query), head_rows<T>(a.grad_output)},
              a.graph.reverse);
}

template <bool Extras, class T, class I, class O>
status send_back(const context& ctx, const gatv2_backward_args<T, I, O>& a,
                 const gradient_parts<gatv2_backward_args<T, I, O>>& parts, arena& scratch,
                 bool count_only) {
  using A = accumulator<T>;
  const auto half = half_of<T, attention_kind::gatv2>(
      ctx, a, scratch, count_only, a.target, a.source, a.attention, a.grad_target, a.grad_source);
  const gatv2_edges<A> edges{leaky_terms<A>(a.slope)};
  const gatv2_receivers<T, Extras> receivers{{{head_output<T>(a.grad_target)}},
                                             parts.template receivers<Extras>(),
                                             head_matrix<T>(a.target),
                                             a.attention.data_handle(),
                                             a.attention.stride(0),
                                             edges};
  // Totals may take, with the records, one part in sixty of what the call is given: ids of both
  // directions, and six operands.
  const auto& g = a.graph;
  const auto operands = 3 * (g.rows() + g.columns()) * half.heads * half.dim;
  const auto given = 2 * g.edges() * static_cast<std::int64_t>(sizeof(I)) +
                     operands * static_cast<std::int64_t>(sizeof(T));
  auto totals = carve_totals<A>(
      scratch, std::max(g.forward.schedule.slice_count, g.reverse.schedule.slice_count), half.heads,
      half.dim, given / 60 - parts.record_bytes());
  auto s = half.with_totals(receivers, head_rows<T>(a.source), g.forward, totals);
  if (!s.ok()) return s;
  const gatv2_senders<T, O, Extras> senders{{{head_output<T>(a.grad_source)}},
                                            parts.template senders<Extras>(),
                                            head_matrix<T>(a.source),
                                            a.attention.data_handle(),
                                            a.attention.stride(0),
                                            edges};
  s = half.with_totals(senders,
                       receiver_rows<T>{head_rows<T>(a.target), head_rows<T>(a.grad_output)},
                       g.reverse, totals);
  if (!s.ok() || count_only) return s;
  return sum_totals<T>(ctx, totals, a.grad_attention.data_handle(), a.grad_attention.stride(0));
}

template <bool Extras, class T, class I, class O>
status send_back(const context& ctx, const gat_backward_args<T, I, O>& a,
                 const gradient_parts<gat_backward_args<T, I, O>>& parts, arena& scratch,
                 bool count_only) {
  const auto half =
      half_of<T, attention_kind::gat>(ctx, a, scratch, count_only, a.source, a.grad_source);
  const gat_scores<T> scores{head_numbers<const T>(a.target_score),
                             head_numbers<const T>(a.source_score), a.slope};
  const gat_receivers<T, Extras> receivers{parts.template receivers<Extras>(),
                                           head_numbers<T>(a.grad_target_score), scores};
  auto s = half(receivers, head_rows<T>(a.source), a.graph.forward);
  if (!s.ok()) return s;
  const gat_senders<T, O, Extras> senders{
      parts.template senders<Extras>(), head_output<T>(a.grad_source),
      head_numbers<T>(a.grad_source_score), head_matrix<T>(a.source), scores};
  return half(senders, head_rows<T>(a.grad_output), a.graph.reverse);
}

/// Programs with extras are kernels of their own: what they ask of an edge costs the others
/// registers.
template <class Args>
status send_back(const context& ctx, const Args& a, arena& scratch, bool count_only) {
  const gradient_parts<Args> parts(a, scratch);
  bool extras = parts.have_extras();
  if constexpr (requires { a.bias; }) {
    extras = extras || a.bias.data_handle() != nullptr || a.grad_bias.data_handle() != nullptr;
  }
  return extras ? send_back<true>(ctx, a, parts, scratch, count_only)
                : send_back<false>(ctx, a, parts, scratch, count_only);
}

template <class Args>
status run_backward(const context& ctx, const Args& a, workspace w, const char* name) {
  return run_verb(
      ctx, w, name, [&] { return check_arguments(ctx, a); },
      [&](arena& scratch, bool count_only) { return send_back(ctx, a, scratch, count_only); });
}
template <class Args>
std::size_t count_backward(const context& ctx, const Args& a) {
  return count_bytes(
      [&](arena& scratch, bool count_only) { return send_back(ctx, a, scratch, count_only); });
}

}  // namespace detail

template <class T, class I, class O>
status gat_backward(const context& ctx, const gat_backward_args<T, I, O>& a, workspace w) {
  return detail::run_backward(ctx, a, w, "gat_backward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const gat_backward_args<T, I, O>& a) {
  return detail::count_backward(ctx, a);
}
template <class T, class I, class O>
status gatv2_backward(const context& ctx, const gatv2_backward_args<T, I, O>& a, workspace w) {
  return detail::run_backward(ctx, a, w, "gatv2_backward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const gatv2_backward_args<T, I, O>& a) {
  return detail::count_backward(ctx, a);
}
template <class T, class I, class O>
status transformer_backward(const context& ctx, const transformer_backward_args<T, I, O>& a,
                            workspace w) {
  return detail::run_backward(ctx, a, w, "transformer_backward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const transformer_backward_args<T, I, O>& a) {
  return detail::count_backward(ctx, a);
}

}  // namespace quipu
