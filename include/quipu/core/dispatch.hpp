// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/core/element.hpp"
#include "quipu/core/status.hpp"

namespace quipu {

template <class T>
struct type_tag {
  using type = T;
};

/// Calls `f(type_tag<T>{})` with the element type that `kind` names; all calls return one type.
template <class F>
auto dispatch_element(element_kind kind, F&& f) {
  switch (kind) {
    case element_kind::f16:
      return f(type_tag<float16>{});
    case element_kind::bf16:
      return f(type_tag<bfloat16>{});
    case element_kind::f64:
      return f(type_tag<double>{});
    case element_kind::f32:
      break;
  }
  return f(type_tag<float>{});
}

}  // namespace quipu
