// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "place.hpp"
#include "quipu/pack/profile.hpp"
#include "quipu/reduce/aggregate.hpp"

namespace quipu::cli {

inline const std::vector<std::pair<std::string, reduce>>& reduce_names() {
  static const std::vector<std::pair<std::string, reduce>> names{
      {"sum", reduce::sum}, {"mean", reduce::mean}, {"min", reduce::min}, {"max", reduce::max}};
  return names;
}

inline const std::vector<std::pair<std::string, bench_op>>& bench_names() {
  static const std::vector<std::pair<std::string, bench_op>> names{
      {"sum", bench_op::sum},
      {"mean", bench_op::mean},
      {"min", bench_op::min},
      {"max", bench_op::max},
      {"spmm", bench_op::spmm},
      {"sddmm", bench_op::sddmm},
      {"gat", bench_op::gat},
      {"gatv2", bench_op::gatv2},
      {"transformer", bench_op::transformer},
      {"gat_backward", bench_op::gat_backward},
      {"gatv2_backward", bench_op::gatv2_backward},
      {"transformer_backward", bench_op::transformer_backward}};
  return names;
}

inline const std::vector<std::pair<std::string, normalisation>>& norm_names() {
  static const std::vector<std::pair<std::string, normalisation>> names{
      {"none", normalisation::none},
      {"mean", normalisation::mean},
      {"walk", normalisation::walk},
      {"symmetric", normalisation::symmetric}};
  return names;
}

inline const std::vector<std::pair<std::string, spmm_backend>>& backend_names() {
  static const std::vector<std::pair<std::string, spmm_backend>> names{
      {"auto", spmm_backend::automatic},
      {"engine", spmm_backend::engine},
      {"cusparse", spmm_backend::cusparse}};
  return names;
}

inline const std::vector<std::pair<std::string, element_kind>>& element_names() {
  static const std::vector<std::pair<std::string, element_kind>> names{
      {"f32", element_kind::f32}, {"f16", element_kind::f16}, {"bf16", element_kind::bf16}};
  return names;
}

inline const std::vector<std::pair<std::string, device_choice>>& device_names() {
  static const std::vector<std::pair<std::string, device_choice>> names{
      {"auto", device_choice::automatic},
      {"cuda", device_choice::cuda},
      {"host", device_choice::host}};
  return names;
}

inline const std::vector<std::pair<std::string, number_format>>& format_names() {
  static const std::vector<std::pair<std::string, number_format>> names{
      {"f32", number_format::float32},
      {"f16", number_format::float16},
      {"bf16", number_format::bfloat16},
      {"bits", number_format::bits}};
  return names;
}

inline const std::vector<std::pair<std::string, codec>>& codec_names() {
  static const std::vector<std::pair<std::string, codec>> names{{"raw", codec::raw},
                                                                {"invariant", codec::invariant},
                                                                {"exponent", codec::exponent},
                                                                {"sparse", codec::sparse}};
  return names;
}

inline const std::vector<std::pair<std::string, packing_goal>>& goal_names() {
  static const std::vector<std::pair<std::string, packing_goal>> names{
      {"smallest", packing_goal::smallest},
      {"memory", packing_goal::memory},
      {"link", packing_goal::link}};
  return names;
}

template <class Value>
std::string name_in(const std::vector<std::pair<std::string, Value>>& names, Value value) {
  for (const auto& [name, candidate] : names) {
    if (candidate == value) return name;
  }
  return "?";
}
inline std::string name_of(reduce op) { return name_in(reduce_names(), op); }
inline std::string name_of(bench_op op) { return name_in(bench_names(), op); }
inline std::string name_of(normalisation n) { return name_in(norm_names(), n); }
inline std::string name_of(spmm_backend b) { return name_in(backend_names(), b); }
inline std::string name_of(attention_kind k) {
  return k == attention_kind::gat ? "gat" : k == attention_kind::gatv2 ? "gatv2" : "transformer";
}
inline std::string name_of(number_format f) { return name_in(format_names(), f); }
inline std::string name_of(element_kind kind) { return name_in(element_names(), kind); }

inline bool has_argument(reduce op) { return op == reduce::min || op == reduce::max; }

}  // namespace quipu::cli
