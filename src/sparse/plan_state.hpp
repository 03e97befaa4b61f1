// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "quipu/sparse/detail/product_program.hpp"
#include "quipu/sparse/spmm.hpp"
#include "sparse/cusparse_product.hpp"

namespace quipu::detail {

/// What a plan was made for. A call with anything else would read stale or foreign memory.
struct plan_key {
  std::uint64_t graph = 0;  // identity
  const void* offsets = nullptr;
  const void* indices = nullptr;
  const void* slices = nullptr;
  const void* reverse_offsets = nullptr;
  const void* reverse_slices = nullptr;
  const void* edge_map = nullptr;
  std::int64_t rows = 0, columns = 0, edges = 0;
  const float* weights = nullptr;
  scales_view scales;
  std::int64_t features = 0;
  element_kind element = element_kind::f32;
  int index_bits = 0, offset_bits = 0;
  std::int32_t device = 0;
};

/// Success, or the first thing in which a call differs from what the plan was made for.
status compare(const plan_key& made_for, const plan_key& call);

/// Tells whether another stream may still be at work on the plan.
class stream_use {
 public:
  stream_use() = default;
  stream_use(const stream_use&) = delete;
  stream_use& operator=(const stream_use&) = delete;
  ~stream_use();

  /// So that no call can fail to mark its end.
  status prepare();
  static bool capturing(const context&);

  /// Refuses if the last call went to another stream and has not ended.
  status enter(const context&);
  /// Marks the end of what was enqueued.
  status leave(const context&);

 private:
  static std::uint64_t id_of(const context&);  // handles are used again, ids are not

  cudaEvent_t last_ = nullptr;
  std::uint64_t stream_ = 0;  // 0: none yet
};

/// One direction of a plan.
struct direction_plan {
  spmm_choice choice;
  buffer<std::byte> values;      // cuSPARSE's coefficients, of the element type
  buffer<std::int32_t> offsets;  // narrowed, where ids have 32 bits and offsets 64
  buffer<std::byte> coded;       // column ids with the codes of their scales, of the id type
  buffer<float> code_table;
  column_code<std::int64_t> code;  // wide enough for either id type
  bool code_complete = false;
  std::optional<cusparse_product> product;
  std::size_t bytes() const {
    return values.bytes() + offsets.bytes() + coded.bytes() + code_table.bytes() +
           (product ? product->bytes() : 0);
  }
};

template <node_index I>
coded_columns<I> coded_of(const direction_plan& plan) {
  if (plan.coded.empty()) return {};
  using bits_type = typename column_code<I>::bits_type;
  return {reinterpret_cast<const I*>(plan.coded.data()),
          plan.code_table.data(),
          {plan.code.id_bits, static_cast<bits_type>(plan.code.elsewhere)},
          plan.code_complete};
}

struct spmm_plan_state {
  plan_key key;
  determinism repeat = determinism::run_to_run;  // the least that its backends keep
  bool has_backward = false;
  direction_plan forward, backward;
  buffer<float> reverse_weights;  // [edges] in the order of the reverse; empty without weights
  buffer<std::byte> scratch;      // of the engine
  stream_use use;                 // goes first, and waits
};

}  // namespace quipu::detail
