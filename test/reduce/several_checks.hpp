// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/checks.hpp"

namespace test {

/// What to ask aggregate_several for.
struct wanted {
  bool sum, mean, min, max, squares, arguments;
};

template <class T>
struct several_outcome {
  std::vector<stored_matrix<T>> outputs;  // sum, mean, min, max, squares; poison where not wanted
  std::vector<std::int64_t> min_edges, max_edges;
  stored_matrix<T> grad_input;
};

/// Memory and copies of one executor. `run` spoils the outputs before each run, as a replay must
/// write them all anew.
struct host_memory {
  quipu::host_context ctx{2};
  template <class V>
  quipu::buffer<V> put(const std::vector<V>& v) const {
    auto b = quipu::check(quipu::make_host_buffer<V>(static_cast<std::int64_t>(v.size())));
    if (!v.empty()) std::memcpy(static_cast<void*>(b.data()), v.data(), b.bytes());
    return b;
  }
  template <class V>
  std::vector<V> get(const quipu::buffer<V>& b) const {
    return std::vector<V>(b.data(), b.data() + b.size());
  }
  template <class I, class O>
  quipu::graph<I, O> graph(const stored_graph<I, O>& g, const quipu::graph_options& o) const {
    return quipu::check(quipu::make_graph<I, O>(ctx, g.view(), o));
  }
  using spoil = std::function<void(const quipu::context&)>;
  template <class T, class I, class O>
  void run(const quipu::aggregate_several_args<T, I, O>& a, const spoil&) const {
    quipu::check(quipu::aggregate_several(ctx, a));
  }
  template <class T, class I, class O>
  void run(const quipu::aggregate_several_backward_args<T, I, O>& a, const spoil&) const {
    quipu::check(quipu::aggregate_several_backward(ctx, a));
  }
  void expand(const quipu::graph_view<std::int32_t, std::int32_t>& g, const quipu::argument_view& a,
              quipu::matrix_view<std::int64_t> edges) const {
    quipu::check(quipu::expand_argument(ctx, g, a, edges));
  }
};

struct device_memory {
  quipu::context ctx = device_context();
  run_mode mode = run_mode::eager;
  template <class V>
  quipu::buffer<V> put(const std::vector<V>& v) const {
    return quipu::check(quipu::to_device(ctx, v));
  }
  template <class V>
  std::vector<V> get(const quipu::buffer<V>& b) const {
    return quipu::check(quipu::to_host(ctx, b));
  }
  template <class I, class O>
  quipu::graph<I, O> graph(const stored_graph<I, O>& g, const quipu::graph_options& o) const {
    return quipu::check(quipu::to_device(ctx, host_memory{}.graph(g, o)));
  }
  using spoil = host_memory::spoil;
  template <class T, class I, class O>
  void run(const quipu::aggregate_several_args<T, I, O>& a, const spoil& poison) const {
    guarded_workspace space(ctx, quipu::workspace_bytes(ctx, a));
    test::run(ctx, mode, poison,
              [&](const quipu::context& c) { return quipu::aggregate_several(c, a, space.get()); });
    REQUIRE(space.intact());
  }
  void expand(const quipu::graph_view<std::int32_t, std::int32_t>& g, const quipu::argument_view& a,
              quipu::matrix_view<std::int64_t> edges) const {
    quipu::check(quipu::expand_argument(ctx, g, a, edges));
    quipu::check(quipu::synchronize(ctx));
  }
  template <class T, class I, class O>
  void run(const quipu::aggregate_several_backward_args<T, I, O>& a, const spoil& poison) const {
    guarded_workspace space(ctx, quipu::workspace_bytes(ctx, a));
    test::run(ctx, mode, poison, [&](const quipu::context& c) {
      return quipu::aggregate_several_backward(c, a, space.get());
    });
    REQUIRE(space.intact());
  }
};

template <class T, class Memory>
several_outcome<T> run_several(const Memory& memory, const oracle::graph& truth,
                               const stored_matrix<T>& x,
                               const std::vector<stored_matrix<T>>& gradients, const wanted& w) {
  using namespace quipu;
  using I = std::int32_t;
  const auto g = memory.graph(stored_graph<I, I>(truth), small_slices());
  const auto width = x.width;
  const stored_matrix<T> poison(truth.rows, width, poison_value);
  const auto input = memory.put(x.data);
  std::vector<buffer<T>> outputs, dy;
  for (int k = 0; k < 5; ++k) {
    outputs.push_back(memory.put(poison.data));
    dy.push_back(memory.put(gradients[k].data));
  }
  const auto bytes = argument_bytes(g.view(), width) + 16;
  auto low = memory.put(std::vector<unsigned char>(bytes, 0x55));
  auto high = memory.put(std::vector<unsigned char>(bytes, 0x55));
  aggregate_several_args<T, I> a;
  a.graph = g.view();
  a.input = make_matrix_view<const T>(input.data(), truth.columns, width);
  const bool flags[] = {w.sum, w.mean, w.min, w.max, w.squares};
  matrix_view<T>* targets[] = {&a.sum, &a.mean, &a.min, &a.max, &a.squares};
  for (int k = 0; k < 5; ++k) {
    if (flags[k]) *targets[k] = make_matrix_view(outputs[k].data(), truth.rows, width);
  }
  if (w.arguments) {
    a.min_argument = make_argument_view(a.graph, low.data(), width);
    a.max_argument = make_argument_view(a.graph, high.data(), width);
  }
  const auto clean = memory.put(poison.data);
  memory.run(a, [&](const context& c) {
    for (auto& y : outputs) {
      (void)cudaMemcpyAsync(y.data(), clean.data(), y.bytes(), cudaMemcpyDefault, c.stream);
    }
    (void)cudaMemsetAsync(low.data(), 0x55, low.bytes(), c.stream);
    (void)cudaMemsetAsync(high.data(), 0x55, high.bytes(), c.stream);
  });
  several_outcome<T> out{{}, {}, {}, stored_matrix<T>(truth.columns, width, poison_value)};
  for (int k = 0; k < 5; ++k) {
    out.outputs.push_back(poison);
    out.outputs.back().data = memory.get(outputs[k]);
  }
  if (!w.arguments) return out;
  const auto edges_of = [&](const argument_view& winners) {
    auto edges =
        memory.put(std::vector<std::int64_t>(static_cast<std::size_t>(truth.rows * width)));
    memory.expand(a.graph, winners, make_matrix_view(edges.data(), truth.rows, width));
    return memory.get(edges);
  };
  out.min_edges = edges_of(a.min_argument);
  out.max_edges = edges_of(a.max_argument);
  aggregate_several_backward_args<T, I> b;
  b.graph = a.graph;
  b.input = a.input;
  matrix_view<const T>* sources[] = {&b.grad_sum, &b.grad_mean, &b.grad_min, &b.grad_max,
                                     &b.grad_squares};
  for (int k = 0; k < 5; ++k) {
    if (flags[k]) *sources[k] = make_matrix_view<const T>(dy[k].data(), truth.rows, width);
  }
  b.min_argument = a.min_argument;
  b.max_argument = a.max_argument;
  auto dx = memory.put(out.grad_input.data);
  b.grad_input = make_matrix_view(dx.data(), truth.columns, width);
  const auto clean_gradient = memory.put(out.grad_input.data);
  memory.run(b, [&](const context& c) {
    (void)cudaMemcpyAsync(dx.data(), clean_gradient.data(), dx.bytes(), cudaMemcpyDefault,
                          c.stream);
  });
  out.grad_input.data = memory.get(dx);
  return out;
}

/// Every subset agrees with the oracle, leaves what was not wanted alone, and its gradient is the
/// sum of the parts'.
template <class T, class Memory>
void check_several(const Memory& memory, const oracle::graph& g, std::int64_t width) {
  const stored_matrix<T> x(random_matrix(95, g.columns, width, filling::integers));
  const auto xr = x.rounded();
  std::vector<stored_matrix<T>> dy;
  for (int k = 0; k < 5; ++k) {
    dy.emplace_back(
        random_matrix(96 + static_cast<std::uint64_t>(k), g.rows, width, filling::integers));
  }
  const auto least = oracle::extremum(g, xr, -1), greatest = oracle::extremum(g, xr, 1);
  const oracle::matrix truth[] = {oracle::sum(g, xr), oracle::mean(g, xr), least.value,
                                  greatest.value, oracle::squares(g, xr)};
  const oracle::matrix parts[] = {oracle::sum_backward(g, dy[0].rounded()),
                                  oracle::mean_backward(g, dy[1].rounded()),
                                  oracle::extremum_backward(g, least, dy[2].rounded()),
                                  oracle::extremum_backward(g, greatest, dy[3].rounded()),
                                  oracle::squares_backward(g, xr, dy[4].rounded())};
  const auto magnitudes = oracle::sum_of_magnitudes(g, xr);
  const auto size_of = [&](int k, auto backward) {
    auto absolute = dy[static_cast<std::size_t>(k)].rounded();
    for (double& v : absolute.values) v = std::fabs(v);
    return backward(absolute);
  };
  auto positive = g;
  for (double& v : positive.weights) v = std::fabs(v);
  auto distance = xr;
  for (double& v : distance.values) v = std::fabs(v);
  const oracle::matrix sizes[] = {
      size_of(0, [&](const auto& d) { return oracle::sum_backward(positive, d); }),
      size_of(1, [&](const auto& d) { return oracle::mean_backward(positive, d); }),
      size_of(2, [&](const auto& d) { return oracle::extremum_backward(g, least, d); }),
      size_of(3, [&](const auto& d) { return oracle::extremum_backward(g, greatest, d); }),
      size_of(4, [&](const auto& d) { return oracle::squares_backward(g, distance, d); })};
  const double longest = longest_sum(g);
  for (int mask = 1; mask < 32; ++mask) {
    for (const bool arguments : {false, true}) {
      const wanted w{(mask & 1) != 0, (mask & 2) != 0,  (mask & 4) != 0,
                     (mask & 8) != 0, (mask & 16) != 0, arguments};
      INFO("subset " << mask << " width " << width);
      const auto out = run_several(memory, g, x, dy, w);
      oracle::matrix gradient(g.columns, width), magnitude(g.columns, width);
      for (int k = 0; k < 5; ++k) {
        const bool asked = (mask >> k & 1) != 0;
        if (!asked) {
          require_equal(out.outputs[k],
                        oracle::matrix(g.rows, width, quipu::widen(to_element<T>(poison_value))),
                        "not wanted");
          continue;
        }
        // Values are small integers, so that only weights and divisions round.
        require_sum(out.outputs[k], truth[k], k < 2 ? magnitudes : truth[k], longest,
                    "output " + std::to_string(k));
        for (std::size_t e = 0; e < gradient.values.size(); ++e) {
          gradient.values[e] += parts[k].values[e];
          magnitude.values[e] += sizes[k].values[e];
        }
      }
      if (!arguments) continue;
      require_sum(out.grad_input, gradient, magnitude, longest, "gradient");
      REQUIRE(out.min_edges == least.edge);
      REQUIRE(out.max_edges == greatest.edge);
    }
  }
}

/// NaN in one feature: min and max take it, the first one; its neighbours do not notice. -0 stays.
template <class T, class Memory>
void check_several_special(const Memory& memory) {
  auto g = random_graph(97, 50, 60, 8, 70);
  auto x = random_matrix(98, 60, 20);
  for (const std::int64_t j : {3, 17, 41}) x.at(j, 5) = NAN;
  x.at(9, 6) = INFINITY;
  x.at(10, 6) = -INFINITY;
  for (std::int64_t j = 0; j < 60; ++j) x.at(j, 7) = j % 2 == 0 ? -0.0 : 0.0;
  const stored_matrix<T> stored(x);
  const std::vector<stored_matrix<T>> dy(5, stored_matrix<T>(oracle::matrix(50, 20)));
  for (const bool arguments : {false, true}) {
    const auto out = run_several(memory, g, stored, dy, {true, true, true, true, true, arguments});
    const auto least = oracle::extremum(g, stored.rounded(), -1),
               greatest = oracle::extremum(g, stored.rounded(), 1);
    require_equal(out.outputs[2], least.value, "min");
    require_equal(out.outputs[3], greatest.value, "max");
    if (arguments) {
      REQUIRE(out.min_edges == least.edge);
      REQUIRE(out.max_edges == greatest.edge);
    }
    for (std::int64_t i = 0; i < 50; ++i) {
      if (least.edge[i * 20 + 7] < 0) continue;
      const bool first_negative = g.indices[least.edge[i * 20 + 7]] % 2 == 0;
      REQUIRE(std::signbit(static_cast<double>(quipu::widen(out.outputs[2].at(i, 7)))) ==
              first_negative);
      REQUIRE(std::signbit(static_cast<double>(quipu::widen(out.outputs[3].at(i, 7)))) ==
              first_negative);
    }
  }
}

}  // namespace test
