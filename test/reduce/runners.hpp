// SPDX-License-Identifier: Apache-2.0
#pragma once

// One face for host and device, so that every check of aggregate is written once.

#include <cstring>
#include <vector>

#include "quipu/reduce/aggregate.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"

namespace test {

/// Everything that one forward and backward call gives back.
template <class T>
struct outcome {
  stored_matrix<T> output;
  std::vector<std::int64_t> edges;  // winners as edge positions, empty without argument
  stored_matrix<T> grad_input;
};

/// Runs on the host.
struct host_runner {
  std::int32_t threads = 1;

  template <class T, class I, class O>
  outcome<T> operator()(const stored_graph<I, O>& graph, const stored_matrix<T>& x,
                        const stored_matrix<T>& dy, quipu::reduce op, const layout& l,
                        const quipu::graph_options& options) const {
    using namespace quipu;
    const host_context ctx{threads};
    const auto g = check(make_graph<I, O>(ctx, graph.view(), options));
    outcome<T> out{stored_matrix<T>(graph.rows, x.width, poison_value, l.padding, l.shift),
                   {},
                   stored_matrix<T>(graph.columns, x.width, poison_value, l.padding, l.shift)};
    const bool wins = op == quipu::reduce::min || op == quipu::reduce::max;
    std::vector<unsigned char> winners(argument_bytes(g.view(), x.width) + 1);
    aggregate_args<T, I, O> a;
    a.graph = g.view();
    a.input = make_matrix_view<const T>(x.data.data() + x.shift, x.rows, x.width, x.stride);
    a.output =
        make_matrix_view(out.output.data.data() + l.shift, graph.rows, x.width, out.output.stride);
    a.op = op;
    if (wins) a.argument = make_argument_view(g.view(), winners.data(), x.width);
    check(aggregate(ctx, a));
    aggregate_backward_args<T, I, O> b;
    b.graph = g.view();
    b.grad_output =
        make_matrix_view<const T>(dy.data.data() + dy.shift, dy.rows, dy.width, dy.stride);
    b.grad_input = make_matrix_view(out.grad_input.data.data() + l.shift, graph.columns, x.width,
                                    out.grad_input.stride);
    b.argument = a.argument;
    b.op = op;
    check(aggregate_backward(ctx, b));
    if (wins) {
      out.edges.resize(static_cast<std::size_t>(graph.rows * x.width));
      check(expand_argument(ctx, g.view(), a.argument,
                            make_matrix_view(out.edges.data(), graph.rows, x.width)));
    }
    return out;
  }
};

/// Runs on the device in one of the run modes.
struct device_runner {
  run_mode mode = run_mode::eager;
  quipu::determinism repeat = quipu::determinism::run_to_run;
  quipu::backward_method method = quipu::backward_method::automatic;

  template <class T, class I, class O>
  outcome<T> operator()(const stored_graph<I, O>& graph, const stored_matrix<T>& x,
                        const stored_matrix<T>& dy, quipu::reduce op, const layout& l,
                        const quipu::graph_options& options) const {
    using namespace quipu;
    const auto ctx = device_context().with(repeat);
    const auto offsets = check(to_device(ctx, graph.offsets));
    const auto indices = check(to_device(ctx, graph.indices));
    const auto weights = check(to_device(ctx, graph.weights));
    auto csr = graph.view();
    csr.offsets = offsets.data();
    csr.indices = indices.data();
    csr.weights = weights.data();
    const auto g = check(make_graph<I, O>(ctx, csr, options));
    outcome<T> out{stored_matrix<T>(graph.rows, x.width, poison_value, l.padding, l.shift),
                   {},
                   stored_matrix<T>(graph.columns, x.width, poison_value, l.padding, l.shift)};
    const auto clean_output = check(to_device(ctx, out.output.data));
    const auto clean_gradient = check(to_device(ctx, out.grad_input.data));
    auto dx = check(to_device(ctx, x.data));
    auto ddy = check(to_device(ctx, dy.data));
    auto y = check(to_device(ctx, out.output.data));
    auto gx = check(to_device(ctx, out.grad_input.data));
    auto winners = check(make_device_buffer<unsigned char>(
        ctx, static_cast<std::int64_t>(argument_bytes(g.view(), x.width))));
    const bool wins = op == quipu::reduce::min || op == quipu::reduce::max;

    aggregate_args<T, I, O> a;
    a.graph = g.view();
    a.input = make_matrix_view<const T>(dx.data() + x.shift, x.rows, x.width, x.stride);
    a.output = make_matrix_view(y.data() + l.shift, graph.rows, x.width, out.output.stride);
    a.op = op;
    if (wins && !winners.empty())
      a.argument = make_argument_view(g.view(), winners.data(), x.width);
    aggregate_backward_args<T, I, O> b;
    b.graph = g.view();
    b.grad_output = make_matrix_view<const T>(ddy.data() + dy.shift, dy.rows, dy.width, dy.stride);
    b.grad_input =
        make_matrix_view(gx.data() + l.shift, graph.columns, x.width, out.grad_input.stride);
    b.argument = a.argument;
    b.op = op;
    b.method = method;
    guarded_workspace forward_space(ctx, workspace_bytes(ctx, a));
    guarded_workspace backward_space(ctx, workspace_bytes(ctx, b));
    run(
        ctx, mode,
        [&](const context& c) {
          (void)cudaMemcpyAsync(y.data(), clean_output.data(), y.bytes(), cudaMemcpyDefault,
                                c.stream);
          (void)cudaMemcpyAsync(gx.data(), clean_gradient.data(), gx.bytes(), cudaMemcpyDefault,
                                c.stream);
          if (!winners.empty())
            (void)cudaMemsetAsync(winners.data(), 0x55, winners.bytes(), c.stream);
        },
        [&](const context& c) {
          if (auto s = aggregate(c, a, forward_space.get()); !s.ok()) return s;
          return aggregate_backward(c, b, backward_space.get());
        });
    if (!forward_space.intact() || !backward_space.intact())
      throw std::runtime_error("workspace overrun");
    out.output.data = check(to_host(ctx, y));
    out.grad_input.data = check(to_host(ctx, gx));
    if (wins && !winners.empty()) {
      auto edges = check(make_device_buffer<std::int64_t>(ctx, graph.rows * x.width));
      check(expand_argument(ctx, g.view(), a.argument,
                            make_matrix_view(edges.data(), graph.rows, x.width)));
      out.edges = check(to_host(ctx, edges));
    }
    return out;
  }
};

}  // namespace test
