// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "place.hpp"
#include "quipu/core/dispatch.hpp"
#include "quipu/reduce/aggregate.hpp"

// The library's verbs under one signature for both executors; the host needs no workspace.
namespace quipu::cli {

template <class Args>
buffer<std::byte> make_scratch(const context& ctx, const Args& args) {
  return make_buffer<std::byte>(ctx, static_cast<std::int64_t>(workspace_bytes(ctx, args)));
}
template <class Args>
buffer<std::byte> make_scratch(const host_context&, const Args&) {
  return {};
}

template <class T, class I>
status start(const context& ctx, const aggregate_args<T, I, I>& args, buffer<std::byte>& scratch) {
  return aggregate(ctx, args, workspace{scratch.data(), scratch.bytes()});
}
template <class T, class I>
status start(const host_context& ctx, const aggregate_args<T, I, I>& args, buffer<std::byte>&) {
  return aggregate(ctx, args);
}

template <class T, class I>
status start(const context& ctx, const aggregate_backward_args<T, I, I>& args,
             buffer<std::byte>& scratch) {
  return aggregate_backward(ctx, args, workspace{scratch.data(), scratch.bytes()});
}
template <class T, class I>
status start(const host_context& ctx, const aggregate_backward_args<T, I, I>& args,
             buffer<std::byte>&) {
  return aggregate_backward(ctx, args);
}

/// Runs a verb once, without the time for its workspace; milliseconds.
template <class Context, class Args>
double time_verb(const Context& ctx, const Args& args, const char* name) {
  auto scratch = make_scratch(ctx, args);
  return time_once(ctx, [&] { require(name, start(ctx, args, scratch)); });
}

/// `dispatch_element` for the types that --dtype offers; fp64 has no device kernels to link.
template <class F>
auto dispatch_dtype(element_kind kind, F&& f) {
  return dispatch_element(kind, [&](auto tag) {
    if constexpr (std::is_same_v<typename decltype(tag)::type, double>) {
      return f(type_tag<float>{});
    } else {
      return f(tag);
    }
  });
}

}  // namespace quipu::cli
