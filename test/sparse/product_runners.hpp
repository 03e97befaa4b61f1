// SPDX-License-Identifier: Apache-2.0
#pragma once

// One face for host and device, so that every check of spmm and sddmm is written once.

#include <vector>

#include "quipu/sparse/sddmm.hpp"
#include "quipu/sparse/spmm.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"

namespace test {

/// What is multiplied. The graph's own weights are used unless `weights` are given.
template <class T, class I, class O>
struct product_problem {
  stored_graph<I, O> graph;
  stored_matrix<T> x, y0;    // input, and the output before the call
  stored_matrix<T> dy, dx0;  // the same for backward
  quipu::normalisation norm = quipu::normalisation::none;
  double alpha = 1, beta = 0;
  std::vector<float> weights = {};
  quipu::graph_options options = small_slices();
};

template <class T>
struct product_outcome {
  stored_matrix<T> output, grad_input;
  std::vector<quipu::accumulator<T>> dots;  // sddmm of dy and x
};

template <class T>
auto view_of(stored_matrix<T>& m, T* data) {
  return quipu::make_matrix_view(data + m.shift, m.rows, m.width, m.stride);
}
template <class T>
auto view_of(const stored_matrix<T>& m, const T* data) {
  return quipu::make_matrix_view(data + m.shift, m.rows, m.width, m.stride);
}

/// The arguments of all three verbs over matrices that lie wherever the runner put them.
template <class T, class I, class O>
struct product_arguments {
  quipu::spmm_args<T, I, O> forward;
  quipu::spmm_backward_args<T, I, O> backward;
  quipu::sddmm_args<T, I, O> dots;

  product_arguments(const product_problem<T, I, O>& p, const quipu::graph_view<I, O>& g,
                    const quipu::scales_view& scales, const float* weights, const T* x, T* y,
                    const T* dy, T* dx, quipu::accumulator<T>* d) {
    const auto edges = g.edges();
    const auto alpha = static_cast<quipu::accumulator<T>>(p.alpha);
    const auto beta = static_cast<quipu::accumulator<T>>(p.beta);
    const auto w = quipu::make_vector_view(p.weights.empty() ? nullptr : weights,
                                           p.weights.empty() ? 0 : edges);
    forward = {g,     scales, w, view_of(p.x, x), view_of(const_cast<stored_matrix<T>&>(p.y0), y),
               alpha, beta};
    backward = {
        g,     scales, w, view_of(p.dy, dy), view_of(const_cast<stored_matrix<T>&>(p.dx0), dx),
        alpha, beta};
    dots = {g,    scales, view_of(p.dy, dy), view_of(p.x, x), quipu::make_vector_view(d, edges),
            alpha};
  }
};

struct host_product {
  std::int32_t threads = 1;

  template <class T, class I, class O>
  product_outcome<T> operator()(const product_problem<T, I, O>& p) const {
    using namespace quipu;
    const host_context ctx{threads};
    const auto g = check(make_graph<I, O>(ctx, p.graph.view(), p.options));
    const auto scales = check(make_node_scales(ctx, g.view(), p.norm));
    product_outcome<T> out{p.y0, p.dx0,
                           std::vector<accumulator<T>>(p.graph.indices.size(), poison_value)};
    const product_arguments<T, I, O> a(p, g.view(), scales.view(), p.weights.data(),
                                       p.x.data.data(), out.output.data.data(), p.dy.data.data(),
                                       out.grad_input.data.data(), out.dots.data());
    check(spmm(ctx, a.forward));
    check(spmm_backward(ctx, a.backward));
    check(sddmm(ctx, a.dots));
    return out;
  }
};

struct device_product {
  run_mode mode = run_mode::eager;
  quipu::spmm_options options = {};

  template <class T, class I, class O>
  product_outcome<T> operator()(const product_problem<T, I, O>& p) const {
    using namespace quipu;
    const bool repeats = options.algorithm == cusparse_algorithm::automatic ||
                         options.algorithm == cusparse_algorithm::csr3;
    const auto ctx = device_context().with(repeats ? determinism::run_to_run : determinism::any);
    const auto offsets = check(to_device(ctx, p.graph.offsets));
    const auto indices = check(to_device(ctx, p.graph.indices));
    const auto own_weights = check(to_device(ctx, p.graph.weights));
    auto csr = p.graph.view();
    csr.offsets = offsets.data();
    csr.indices = indices.data();
    csr.weights = own_weights.data();
    const auto g = check(make_graph<I, O>(ctx, csr, p.options));
    const auto scales = check(make_node_scales(ctx, g.view(), p.norm));
    product_outcome<T> out{p.y0, p.dx0, {}};
    const auto x = check(to_device(ctx, p.x.data)), clean_y = check(to_device(ctx, p.y0.data));
    const auto dy = check(to_device(ctx, p.dy.data)), clean_dx = check(to_device(ctx, p.dx0.data));
    auto y = check(to_device(ctx, p.y0.data)), dx = check(to_device(ctx, p.dx0.data));
    auto dots = check(make_device_buffer<accumulator<T>>(ctx, g.view().edges()));
    const auto weights = check(to_device(ctx, p.weights));
    const product_arguments<T, I, O> a(p, g.view(), scales.view(), weights.data(), x.data(),
                                       y.data(), dy.data(), dx.data(), dots.data());
    auto plan = check(make_spmm_plan(ctx, a.forward, options));
    run(
        ctx, mode,
        [&](const context& c) {
          (void)cudaMemcpyAsync(y.data(), clean_y.data(), y.bytes(), cudaMemcpyDefault, c.stream);
          (void)cudaMemcpyAsync(dx.data(), clean_dx.data(), dx.bytes(), cudaMemcpyDefault,
                                c.stream);
          if (!dots.empty()) (void)cudaMemsetAsync(dots.data(), 0x55, dots.bytes(), c.stream);
        },
        [&](const context& c) {
          if (auto s = spmm(c, plan, a.forward); !s.ok()) return s;
          if (auto s = spmm_backward(c, plan, a.backward); !s.ok()) return s;
          return sddmm(c, a.dots);
        });
    out.output.data = check(to_host(ctx, y));
    out.grad_input.data = check(to_host(ctx, dx));
    out.dots = check(to_host(ctx, dots));
    return out;
  }
};

}  // namespace test
