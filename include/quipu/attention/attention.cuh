// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "quipu/attention/detail/alpha.cuh"
#include "quipu/attention/detail/attention_tuning.hpp"
#include "quipu/attention/detail/check_arguments.hpp"
#include "quipu/engine/device_verb.cuh"

namespace quipu {

namespace detail {

/// True if every head of every row starts on a 16-byte border and ends with a whole vector.
template <class T>
bool on_vector_border(const heads_view<T>& m) {
  const auto bytes = [](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(sizeof(T));
  };
  return m.data_handle() == nullptr ||
         (reinterpret_cast<std::uintptr_t>(m.data_handle()) % 16 == 0 &&
          (m.extent(0) <= 1 || bytes(m.stride(0)) % 16 == 0) &&
          (m.extent(1) <= 1 || bytes(m.stride(1)) % 16 == 0) && bytes(m.extent(2)) % 16 == 0);
}

template <class Args, class T = typename decltype(Args::output)::element_type>
softmax_outputs<T> outputs_of(const context& ctx, const Args& a) {
  const auto nodes = a.graph.rows() + a.graph.columns();
  return {
      a.output.data_handle(), a.output.stride(0),
      a.output.stride(1),     a.logsumexp.data_handle(),
      a.logsumexp.stride(0),  hint_for<T>(ctx, nodes * a.output.extent(1) * a.output.extent(2))};
}

template <class Args, class T = typename decltype(Args::output)::element_type>
dropout_mask<accumulator<T>> mask_of(const Args& a) {
  return {a.dropout, a.output.extent(1)};
}

/// One traversal by heads, and another kernel for alpha if it is wanted.
/// `make.operator()<wide, drops>(outputs)` makes the program.
template <class T, attention_kind Kind, class Args, class Rows, class Make, class Logits>
status run_attention(const context& ctx, const Args& a, bool aligned, const Rows& rows,
                     const Make& make, const Logits& logits, arena& scratch, bool count_only) {
  using A = accumulator<T>;
  const auto heads = a.output.extent(1), dim = a.output.extent(2);
  const auto& d = a.graph.forward;
  const auto out = outputs_of(ctx, a);
  const auto run = [&]<engine_policy P>(const auto& program) -> status {
    using program_type = std::remove_cvref_t<decltype(program)>;
    const auto tiles = heads * program_tile<P, program_type>::parts(dim);
    const auto partial = carve_partials<P, program_type>(scratch, d.schedule, dim, tiles);
    if (count_only) return check_launch<P>(d.schedule, partial);
    return traverse<P>(ctx, program, rows, d, dim, partial);
  };
  const auto run_width = [&]<int Width, bool Drops>() -> status {
    using tuning = attention_tuning<Width, Kind>;
    if (dim > tuning::widest) {
      return run.template operator()<tuning::wide>(make.template operator()<true, Drops>(out));
    }
    const auto degree = d.csr.rows > 0 ? d.csr.edges / d.csr.rows : 0;
    return with_policy<tuning>(tuning::choose(dim, degree), [&]<engine_policy P>() {
      return run.template operator()<P>(make.template operator()<false, Drops>(out));
    });
  };
  constexpr int width = 16 / static_cast<int>(sizeof(T));
  const bool drops = mask_of(a).is_on();
  const auto s = aligned ? drops ? run_width.template operator()<width, true>()
                                 : run_width.template operator()<width, false>()
                 : drops ? run_width.template operator()<1, true>()
                         : run_width.template operator()<1, false>();
  if (!s.ok() || count_only || a.alpha.data_handle() == nullptr) return s;
  if (a.graph.edges() == 0 || heads == 0) return s;
  const auto write = [&]<class I, class O>(const csr_view<I, O>& csr) {
    constexpr int threads = 128;
    return launch(ctx, write_alpha<threads, A, I, O, Logits>,
                  dim3(static_cast<unsigned>(std::min<std::int64_t>(csr.rows * heads, 0x7fffffff))),
                  threads, start::in_order, csr, heads, a.alpha.data_handle(), a.alpha.stride(0),
                  mask_of(a), logits);
  };
  return write(d.csr);
}

template <class T, class I, class O>
status attend(const context& ctx, const gatv2_forward_args<T, I, O>& a, arena& scratch,
              bool count_only) {
  const auto make = [&]<bool Wide, bool Drops>(const softmax_outputs<T>& out) {
    return gatv2_program<T, Wide, Drops>{
        {out, mask_of(a)},         head_matrix<T>(a.target), head_matrix<T>(a.source),
        a.attention.data_handle(), a.attention.stride(0),    leaky_terms<accumulator<T>>(a.slope)};
  };
  const bool aligned = on_vector_border(a.target) && on_vector_border(a.source) &&
                       on_vector_border(a.output) && on_vector_border(a.attention);
  const gatv2_logit<T> logit{head_matrix<T>(a.target),  head_matrix<T>(a.source),
                             a.attention.data_handle(), a.attention.stride(0),
                             a.output.extent(2),        a.slope};
  return run_attention<T, attention_kind::gatv2>(ctx, a, aligned, head_rows<T>(a.source), make,
                                                 logit, scratch, count_only);
}

template <class T, class I, class O>
status attend(const context& ctx, const transformer_forward_args<T, I, O>& a, arena& scratch,
              bool count_only) {
  const auto make = [&]<bool Wide, bool Drops>(const softmax_outputs<T>& out) {
    return transformer_program<T, Wide, Drops>{
        {out, mask_of(a)}, head_matrix<T>(a.query), head_matrix<T>(a.key), head_matrix<T>(a.value),
        a.scale,           a.bias.data_handle(),    a.bias.stride(0)};
  };
  const bool aligned = on_vector_border(a.query) && on_vector_border(a.key) &&
                       on_vector_border(a.value) && on_vector_border(a.output);
  const key_value_rows<T> rows{head_rows<T>(a.key), head_rows<T>(a.value)};
  const transformer_logit<T> logit{head_matrix<T>(a.query), head_matrix<T>(a.key),
                                   a.output.extent(2),      a.scale,
                                   a.bias.data_handle(),    a.bias.stride(0)};
  return run_attention<T, attention_kind::transformer>(ctx, a, aligned, rows, make, logit, scratch,
                                                       count_only);
}

template <class T, class I, class O>
status attend(const context& ctx, const gat_forward_args<T, I, O>& a, arena& scratch,
              bool count_only) {
  const auto make = [&]<bool Wide, bool Drops>(const softmax_outputs<T>& out) {
    return gat_program<T, I, Wide, Drops>{{out, mask_of(a)},
                                          a.graph.forward.csr.indices,
                                          a.target_score.data_handle(),
                                          a.target_score.stride(0),
                                          a.source_score.data_handle(),
                                          a.source_score.stride(0),
                                          a.slope};
  };
  const bool aligned = on_vector_border(a.source) && on_vector_border(a.output);
  const gat_logit<T> logit{a.target_score.data_handle(), a.target_score.stride(0),
                           a.source_score.data_handle(), a.source_score.stride(0), a.slope};
  return run_attention<T, attention_kind::gat>(ctx, a, aligned, head_rows<T>(a.source), make, logit,
                                               scratch, count_only);
}

template <class Args>
status run_forward(const context& ctx, const Args& a, workspace w, const char* name) {
  return run_verb(
      ctx, w, name, [&] { return check_arguments(ctx, a); },
      [&](arena& scratch, bool count_only) { return attend(ctx, a, scratch, count_only); });
}
template <class Args>
std::size_t count_forward(const context& ctx, const Args& a) {
  return count_bytes(
      [&](arena& scratch, bool count_only) { return attend(ctx, a, scratch, count_only); });
}

}  // namespace detail

template <class T, class I, class O>
status gatv2_forward(const context& ctx, const gatv2_forward_args<T, I, O>& a, workspace w) {
  return detail::run_forward(ctx, a, w, "gatv2_forward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const gatv2_forward_args<T, I, O>& a) {
  return detail::count_forward(ctx, a);
}
template <class T, class I, class O>
status transformer_forward(const context& ctx, const transformer_forward_args<T, I, O>& a,
                           workspace w) {
  return detail::run_forward(ctx, a, w, "transformer_forward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const transformer_forward_args<T, I, O>& a) {
  return detail::count_forward(ctx, a);
}
template <class T, class I, class O>
status gat_forward(const context& ctx, const gat_forward_args<T, I, O>& a, workspace w) {
  return detail::run_forward(ctx, a, w, "gat_forward");
}
template <class T, class I, class O>
std::size_t workspace_bytes(const context& ctx, const gat_forward_args<T, I, O>& a) {
  return detail::count_forward(ctx, a);
}

}  // namespace quipu
