// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "place.hpp"
#include "quipu/core/dispatch.hpp"
#include "quipu/pack/pack.hpp"
#include "quipu/reduce/aggregate.hpp"
#include "quipu/sparse/sddmm.hpp"
#include "quipu/sparse/spmm.hpp"

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

inline status start(const context& ctx, const pack_args& args, buffer<std::byte>& scratch) {
  return pack(ctx, args, workspace{scratch.data(), scratch.bytes()});
}
inline status start(const host_context& ctx, const pack_args& args, buffer<std::byte>&) {
  return pack(ctx, args);
}

/// What a product keeps between calls: a plan on a device, nothing on the host.
struct no_plan {};
template <class T, class I>
spmm_plan make_plan(const context& ctx, const spmm_args<T, I, I>& args, const spmm_options& o) {
  return require("--backend", make_spmm_plan(ctx, args, o));
}
template <class T, class I>
no_plan make_plan(const host_context&, const spmm_args<T, I, I>&, const spmm_options& o) {
  if (o.backend == spmm_backend::cusparse) throw bad_input("--backend: cusparse needs a GPU");
  return {};
}
template <class Args>
status start(const context& ctx, const Args& args, spmm_plan& plan) {
  if constexpr (requires { args.grad_input; }) {
    return spmm_backward(ctx, plan, args);
  } else {
    return spmm(ctx, plan, args);
  }
}
template <class Args>
status start(const host_context& ctx, const Args& args, no_plan&) {
  if constexpr (requires { args.grad_input; }) {
    return spmm_backward(ctx, args);
  } else {
    return spmm(ctx, args);
  }
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
