// SPDX-License-Identifier: Apache-2.0
#include "quipu/sparse/spmm.hpp"

#include <fmt/format.h>

#include <string>

#include "load_graph.hpp"
#include "matrix.hpp"
#include "names.hpp"
#include "options.hpp"
#include "output.hpp"
#include "table.hpp"
#include "verbs.hpp"

namespace quipu::cli {
namespace {

/// What a product did, for the report.
struct product_outcome {
  double milliseconds = 0;
  std::int64_t features = 0;
  std::string backend = "host";
};

/// --transpose multiplies by N(A)^T, which is what spmm_backward does: senders receive.
template <class T, class I, class Context>
class product_job {
 public:
  product_job(const spmm_command_options& options, const Context& ctx, const graph_view<I, I>& g)
      : options_(options),
        ctx_(ctx),
        graph_(g),
        from_(options.transpose ? g.rows() : g.columns()),
        to_(options.transpose ? g.columns() : g.rows()) {}

  product_outcome run(output_set& files) {
    // Of two matrices the one that is a file settles the width of the drawn one.
    auto known = options_.features;
    const bool reads_y = options_.beta != 0;
    matrix<T> initial;
    if (reads_y && !options_.initial.empty()) {
      initial = read_or_draw<T>(options_.initial, to_, known, options_.run.seed, 2);
      known = initial.features;
    }
    const auto input = read_or_draw<T>(options_.input, from_, known, options_.run.seed, 1);
    features_ = input.features;
    check_width<T>(to_, features_);
    if (reads_y && options_.initial.empty()) {
      initial = draw_matrix<T>(to_, features_, options_.run.seed, 2);
    }
    x_ = place(ctx_, input.values);
    y_ = reads_y ? place(ctx_, initial.values) : make_buffer<T>(ctx_, to_ * features_);
    scales_ = require("--norm", make_node_scales(ctx_, graph_, options_.norm));
    const auto spent = options_.transpose ? run_transposed() : run_forward();
    if (!options_.output.empty()) {
      write_matrix(options_.output, matrix<T>{to_, features_, fetch(ctx_, y_)}, files);
    }
    return spent;
  }

 private:
  spmm_args<T, I, I> forward_args(buffer<T>& x, buffer<T>& y) const {
    spmm_args<T, I, I> a;
    a.graph = graph_;
    a.scales = scales_.view();
    a.input = make_matrix_view<const T>(x.data(), graph_.columns(), features_);
    a.output = make_matrix_view(y.data(), graph_.rows(), features_);
    a.alpha = static_cast<accumulator<T>>(options_.alpha);
    a.beta = static_cast<accumulator<T>>(options_.beta);
    return a;
  }

  product_outcome run_forward() {
    const auto a = forward_args(x_, y_);
    auto plan_options = options_.plan;
    plan_options.backward = edge_option::keep;
    auto plan = make_plan(ctx_, a, plan_options);
    const double ms = time_once(ctx_, [&] { require("spmm", start(ctx_, a, plan)); });
    return {ms, features_, backend_of(plan)};
  }

  product_outcome run_transposed() {
    spmm_backward_args<T, I, I> b;
    b.graph = graph_;
    b.scales = scales_.view();
    b.grad_output = make_matrix_view<const T>(x_.data(), graph_.rows(), features_);
    b.grad_input = make_matrix_view(y_.data(), graph_.columns(), features_);
    b.alpha = static_cast<accumulator<T>>(options_.alpha);
    b.beta = static_cast<accumulator<T>>(options_.beta);
    auto plan = make_plan(ctx_, forward_args(y_, x_), options_.plan);
    const double ms = time_once(ctx_, [&] { require("spmm", start(ctx_, b, plan)); });
    return {ms, features_, backend_of(plan)};
  }

  std::string backend_of(const spmm_plan& plan) const {
    return name_of((options_.transpose ? plan.backward() : plan.forward()).backend);
  }
  std::string backend_of(const no_plan&) const { return "engine"; }

  const spmm_command_options& options_;
  const Context& ctx_;
  graph_view<I, I> graph_;
  std::int64_t from_, to_;
  std::int64_t features_ = 0;
  buffer<T> x_, y_;
  node_scales scales_;
};

template <class T, class I, class Context>
product_outcome run_job(const spmm_command_options& options, const Context& ctx,
                        const graph_view<I, I>& g, output_set& files) {
  return product_job<T, I, Context>(options, ctx, g).run(files);
}

template <class T, class I, class Context>
product_outcome run_job(const sddmm_command_options& options, const Context& ctx,
                        const graph_view<I, I>& g, output_set& files) {
  // Of two matrices the one that is a file settles the width of the drawn one.
  auto known = options.features;
  matrix<T> right;
  if (!options.right.empty()) {
    right = read_or_draw<T>(options.right, g.columns(), known, options.run.seed, 2);
    known = right.features;
  }
  const auto left = read_or_draw<T>(options.left, g.rows(), known, options.run.seed, 1);
  if (options.right.empty()) {
    right = draw_matrix<T>(g.columns(), left.features, options.run.seed, 2);
  }
  const auto scales = require("--norm", make_node_scales(ctx, g, options.norm));
  const auto l = place(ctx, left.values), r = place(ctx, right.values);
  auto dots = make_buffer<float>(ctx, g.edges());
  sddmm_args<T, I, I> a;
  a.graph = g;
  a.scales = scales.view();
  a.left = make_matrix_view(l.data(), g.rows(), left.features);
  a.right = make_matrix_view(r.data(), g.columns(), left.features);
  a.output = make_vector_view(dots.data(), g.edges());
  a.alpha = static_cast<float>(options.alpha);
  const double ms = time_once(ctx, [&] { require("sddmm", sddmm(ctx, a)); });
  if (!options.output.empty()) {
    const std::array<std::int64_t, 1> shape{g.edges()};
    require(options.output,
            write_npy(files.stage(options.output), npy_kind::f4, shape, fetch(ctx, dots).data()));
  }
  return {ms, left.features, "engine"};
}

template <class Options>
void run_product(const char* op, const Options& options, const graph_options& wanted) {
  const auto source = load_graph(options.graph);
  with_graph(source, options.run, wanted,
             [&](const auto& ctx, const std::string& device, const auto& built) {
               const auto g = built.view();
               output_set files;
               const auto outcome = dispatch_dtype(options.run.dtypes[0], [&](auto tag) {
                 return run_job<typename decltype(tag)::type>(options, ctx, g, files);
               });
               files.commit();
               print_report({{"graph", source.name},
                             {"device", device},
                             {"op", op},
                             {"norm", name_of(options.norm)},
                             {"dtype", name_of(options.run.dtypes[0])},
                             {"backend", outcome.backend},
                             {"rows", g.rows()},
                             {"columns", g.columns()},
                             {"edges", g.edges()},
                             {"features", outcome.features},
                             {"milliseconds", outcome.milliseconds}},
                            options.run.json);
             });
}

}  // namespace

void run(const spmm_command_options& options) {
  if (!options.initial.empty() && options.beta == 0) {
    throw bad_input("--initial: has no effect while --beta is 0");
  }
  graph_options wanted;
  if (!options.transpose && !counts_senders(options.norm)) wanted.reverse = edge_option::keep;
  run_product(options.transpose ? "spmm transposed" : "spmm", options, wanted);
}

void run(const sddmm_command_options& options) {
  graph_options wanted;
  if (!counts_senders(options.norm)) wanted.reverse = edge_option::keep;
  run_product("sddmm", options, wanted);
}

}  // namespace quipu::cli
