// SPDX-License-Identifier: Apache-2.0
#include "quipu/reduce/aggregate.hpp"

#include <fmt/format.h>

#include <optional>
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

struct timings {
  double forward = 0;
  std::optional<double> backward;
};

template <class T, class I, class Context>
class aggregation {
 public:
  aggregation(const aggregate_options& options, const Context& ctx, const graph_view<I, I>& g)
      : options_(options), ctx_(ctx), graph_(g), features_(options.features.value_or(64)) {}

  /// Runs what the options ask for and stages the files.
  timings run(output_set& files) {
    const auto input = read_input();
    features_ = input.features;
    const auto x = place(ctx_, input.values);
    auto y = make_buffer<T>(ctx_, graph_.rows() * features_);
    auto winners = make_winners();
    const auto argument =
        wants_winners() ? make_argument_view(graph_, winners.data(), features_) : argument_view{};
    timings spent;
    spent.forward = forward(x, y, argument);
    if (!options_.output.empty()) save(options_.output, graph_.rows(), y, files);
    if (!options_.argument.empty()) save_argument(argument, files);
    if (!options_.grad_input.empty()) spent.backward = backward(argument, files);
    return spent;
  }

  std::int64_t features() const { return features_; }

 private:
  matrix<T> read_input() const {
    if (options_.input.empty()) {
      return draw_matrix<T>(graph_.columns(), features_, options_.run.seed, 1);
    }
    auto m = read_matrix<T>(options_.input, graph_.columns());
    if (options_.features && *options_.features != m.features) {
      throw bad_input("--features: " + options_.input + " has " + std::to_string(m.features));
    }
    return m;
  }

  matrix<T> read_gradient() const {
    if (options_.grad_output.empty()) {
      return draw_matrix<T>(graph_.rows(), features_, options_.run.seed, 2);
    }
    auto m = read_matrix<T>(options_.grad_output, graph_.rows());
    if (m.features == features_) return m;
    throw bad_input(options_.grad_output + ": has " + std::to_string(m.features) +
                    " features, the input has " + std::to_string(features_));
  }

  bool wants_winners() const {
    return has_argument(options_.op) &&
           (!options_.argument.empty() || !options_.grad_input.empty());
  }

  buffer<std::byte> make_winners() const {
    if (!wants_winners()) return {};
    return make_buffer<std::byte>(ctx_,
                                  static_cast<std::int64_t>(argument_bytes(graph_, features_)));
  }

  double forward(const buffer<T>& x, buffer<T>& y, const argument_view& argument) const {
    aggregate_args<T, I, I> args;
    args.graph = graph_;
    args.input = make_matrix_view(x.data(), graph_.columns(), features_);
    args.output = make_matrix_view(y.data(), graph_.rows(), features_);
    args.argument = argument;
    args.op = options_.op;
    return time_verb(ctx_, args, "aggregate");
  }

  double backward(const argument_view& argument, output_set& files) const {
    const auto gradient = place(ctx_, read_gradient().values);
    auto result = make_buffer<T>(ctx_, graph_.columns() * features_);
    aggregate_backward_args<T, I, I> args;
    args.graph = graph_;
    args.grad_output = make_matrix_view(gradient.data(), graph_.rows(), features_);
    args.grad_input = make_matrix_view(result.data(), graph_.columns(), features_);
    args.argument = argument;
    args.op = options_.op;
    const double spent = time_verb(ctx_, args, "aggregate_backward");
    save(options_.grad_input, graph_.columns(), result, files);
    return spent;
  }

  void save(const std::string& path, std::int64_t rows, const buffer<T>& from,
            output_set& files) const {
    write_matrix(path, matrix<T>{rows, features_, fetch(ctx_, from)}, files);
  }

  void save_argument(const argument_view& argument, output_set& files) const {
    auto edges = make_buffer<std::int64_t>(ctx_, graph_.rows() * features_);
    require("argument", expand_argument(ctx_, graph_, argument,
                                        make_matrix_view(edges.data(), graph_.rows(), features_)));
    const std::array<std::int64_t, 2> shape{graph_.rows(), features_};
    require(options_.argument, write_npy(files.stage(options_.argument), npy_kind::i8, shape,
                                         fetch(ctx_, edges).data()));
  }

  const aggregate_options& options_;
  const Context& ctx_;
  graph_view<I, I> graph_;
  std::int64_t features_;
};

template <class T, class I, class Context>
aggregation<T, I, Context> make_aggregation(const aggregate_options& options, const Context& ctx,
                                            const graph_view<I, I>& g) {
  return {options, ctx, g};
}

json report(const aggregate_options& options, const std::string& graph, const std::string& device,
            std::int64_t rows, std::int64_t edges, std::int64_t features, const timings& spent) {
  json out{{"graph", graph},
           {"device", device},
           {"op", name_of(options.op)},
           {"dtype", name_of(options.run.dtypes[0])},
           {"rows", rows},
           {"edges", edges},
           {"features", features},
           {"milliseconds", spent.forward}};
  if (spent.backward) out["backward_milliseconds"] = *spent.backward;
  return out;
}

void check_options(const aggregate_options& o) {
  if (!o.argument.empty() && !has_argument(o.op)) {
    throw bad_input("--argument: only min and max have winners");
  }
  if (!o.grad_output.empty() && o.grad_input.empty()) {
    throw bad_input("--grad-output: say with --grad-input where the result goes");
  }
}

}  // namespace

void run(const aggregate_options& options) {
  check_options(options);
  const auto source = load_graph(options.graph);
  graph_options wanted;
  if (options.grad_input.empty()) wanted.reverse = edge_option::keep;
  with_graph(source, options.run, wanted,
             [&](const auto& ctx, const std::string& device, const auto& built) {
               const auto g = built.view();
               output_set files;
               const auto r = dispatch_dtype(options.run.dtypes[0], [&](auto tag) {
                 auto job = make_aggregation<typename decltype(tag)::type>(options, ctx, g);
                 const auto spent = job.run(files);
                 return report(options, source.name, device, g.rows(), g.edges(), job.features(),
                               spent);
               });
               files.commit();
               print_report(r, options.run.json);
             });
}

}  // namespace quipu::cli
