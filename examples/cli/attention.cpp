// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "attention_layer.hpp"
#include "load_graph.hpp"
#include "matrix.hpp"
#include "names.hpp"
#include "options.hpp"
#include "output.hpp"
#include "table.hpp"

namespace quipu::cli {
namespace {

template <class Context, class Args>
double time_attention(const Context& ctx, const Args& a, const std::string& name) {
  auto scratch = make_scratch(ctx, a);
  return time_once(ctx, [&] { require(name, start_attention(ctx, a, scratch)); });
}

struct attention_outcome {
  std::int64_t heads = 0, dim = 0;
  double forward = 0;
  std::optional<double> backward;
};

/// Operands are read from files or drawn; the files settle heads and dim.
template <class T, class I, class Context>
class attention_job {
 public:
  attention_job(const attention_options& options, const Context& ctx, const graph_view<I, I>& g)
      : options_(options), ctx_(ctx), layer_(ctx, g, options.kind, 1, 1) {
    settle_shape();
    layer_.slope = options_.slope;
    layer_.scale = options_.scale;
    layer_.dropout = {options_.dropout, options_.run.seed, 0};
    const auto rows = g.rows(), columns = g.columns();
    const bool gat = options_.kind == attention_kind::gat;
    read(layer_.receivers, options_.receivers, rows, gat);
    read(layer_.senders, options_.senders, columns, gat);
    read(layer_.values, options_.values, columns, false);
    if (!options_.vector.empty()) {
      layer_.vector = flat(options_.vector, layer_.heads, layer_.dim);
    }
    layer_.fill_operands(drawn());
  }

  attention_outcome run(output_set& files) {
    attention_outcome out{layer_.heads, layer_.dim, forward(files), std::nullopt};
    if (options_.wants_gradients()) out.backward = backward(files);
    return out;
  }

 private:
  using three = std::array<std::int64_t, 3>;
  using two = std::array<std::int64_t, 2>;

  double forward(output_set& files) {
    const auto rows = layer_.graph.rows(), edges = layer_.graph.edges();
    auto alpha = make_buffer<float>(ctx_, options_.alpha.empty() ? 0 : edges * layer_.heads);
    const double milliseconds = layer_.forward([&](auto& a) {
      if (alpha.size() > 0) a.alpha = make_matrix_view(alpha.data(), edges, layer_.heads);
      return time_attention(ctx_, a, name_of(options_.kind));
    });
    save(options_.output, three{rows, layer_.heads, layer_.dim}, layer_.output, files);
    save(options_.logsumexp, two{rows, layer_.heads}, layer_.logsumexp, files);
    save(options_.alpha, two{edges, layer_.heads}, alpha, files);
    return milliseconds;
  }

  double backward(output_set& files) {
    const auto rows = layer_.graph.rows(), columns = layer_.graph.columns();
    const auto heads = layer_.heads, dim = layer_.dim;
    read(layer_.grad_output, options_.grad_output, rows, false);
    layer_.fill_gradients(drawn());
    const double milliseconds = layer_.backward(
        [&](auto& a) { return time_attention(ctx_, a, name_of(options_.kind) + "_backward"); });
    if (options_.kind == attention_kind::gat) {
      save(options_.grad_receivers, two{rows, heads}, layer_.grad_receivers, files);
      save(options_.grad_senders, two{columns, heads}, layer_.grad_senders, files);
    } else {
      save(options_.grad_receivers, three{rows, heads, dim}, layer_.grad_receivers, files);
      save(options_.grad_senders, three{columns, heads, dim}, layer_.grad_senders, files);
    }
    save(options_.grad_values, three{columns, heads, dim}, layer_.grad_values, files);
    save(options_.grad_vector, two{heads, dim}, layer_.grad_vector, files);
    return milliseconds;
  }

  template <std::size_t Rank, class Element>
  void save(const std::string& path, const std::array<std::int64_t, Rank>& shape,
            const buffer<Element>& values, output_set& files) const {
    if (!path.empty()) write_array(path, shape, fetch(ctx_, values), files);
  }

  /// The first operand that is a file settles heads and dim, which --heads and --dim may say too.
  void settle_shape() {
    auto& heads = layer_.heads;
    auto& dim = layer_.dim;
    heads = options_.heads.value_or(1);
    dim = options_.dim.value_or(64);
    const bool gat = options_.kind == attention_kind::gat;
    for (const auto* path : {&options_.receivers, &options_.senders, &options_.values}) {
      if (path->empty()) continue;
      const auto shape = look_into(*path).shape;
      if (gat && path != &options_.values) {  // scores: [nodes, heads]
        if (shape.size() == 2) heads = options_.heads.value_or(shape[1]);
        continue;
      }
      if (shape.size() != 2 && shape.size() != 3) {
        throw bad_input(*path + ": is neither [nodes, heads, dim] nor [nodes, dim]");
      }
      heads = options_.heads.value_or(shape.size() == 3 ? shape[1] : 1);
      dim = options_.dim.value_or(shape.back());
      break;
    }
    if (dim < 1) throw bad_input("a head has no features");
    if (heads < 1 || dim > std::numeric_limits<std::int32_t>::max() / heads) {
      throw bad_input(fmt::format("--heads, --dim: {} times {} is above 2147483647", heads, dim));
    }
    check_width<T>(std::max(layer_.graph.rows(), layer_.graph.columns()), heads * dim);
  }

  /// A file whose shape is asked for before it is an operand is read once.
  const npy_array& look_into(const std::string& path) {
    looked_into_ = {path, require(path, read_npy(path))};
    return looked_into_.second;
  }
  npy_array take(const std::string& path) {
    if (path != looked_into_.first) return require(path, read_npy(path));
    looked_into_.first.clear();
    return std::move(looked_into_.second);
  }

  /// Scores are [rows, heads]; operands [rows, heads, dim], or [rows, dim] of a single head. An
  /// empty path leaves the buffer empty.
  void read(buffer<T>& to, const std::string& path, std::int64_t rows, bool scores) {
    if (path.empty()) return;
    const auto heads = layer_.heads, dim = layer_.dim;
    if (scores) {
      to = flat(path, rows, heads);
      return;
    }
    const auto array = take(path);
    const bool whole = array.shape.size() == 3 && array.shape[1] == heads && array.shape[2] == dim;
    const bool single = array.shape.size() == 2 && heads == 1 && array.shape[1] == dim;
    if (!whole && !single) {
      throw bad_input(fmt::format("{}: is not [nodes, {}, {}]", path, heads, dim));
    }
    to = place(ctx_, numbers_of<T>(path, array, rows));
  }
  buffer<T> flat(const std::string& path, std::int64_t rows, std::int64_t width) {
    return place(ctx_, read_or_draw<T>(path, rows, width, 0, 0).values);
  }
  auto drawn() const { return draw_onto<T>(ctx_, options_.run.seed); }

  const attention_options& options_;
  const Context& ctx_;
  attention_layer<T, I, Context> layer_;
  std::pair<std::string, npy_array> looked_into_;
};

}  // namespace

void run(const attention_options& options) {
  const auto source = load_graph(options.graph);
  graph_options wanted;
  if (!options.wants_gradients()) wanted.reverse = edge_option::keep;
  if (!options.grad_output.empty() && !options.wants_gradients()) {
    throw bad_input("--grad-output: no gradient is asked for");
  }
  with_graph(source, options.run, wanted,
             [&](const auto& ctx, const std::string& device, const auto& built) {
               const auto g = built.view();
               using view_type = std::remove_cvref_t<decltype(g)>;
               using index_type = std::remove_cvref_t<decltype(*g.forward.csr.indices)>;
               static_assert(std::is_same_v<view_type, graph_view<index_type, index_type>>);
               output_set files;
               const auto out = dispatch_dtype(options.run.dtypes[0], [&](auto tag) {
                 using T = typename decltype(tag)::type;
                 attention_job<T, index_type, std::remove_cvref_t<decltype(ctx)>> job(options, ctx,
                                                                                      g);
                 return job.run(files);
               });
               files.commit();
               json report{{"graph", source.name},
                           {"device", device},
                           {"op", name_of(options.kind)},
                           {"dtype", name_of(options.run.dtypes[0])},
                           {"rows", g.rows()},
                           {"columns", g.columns()},
                           {"edges", g.edges()},
                           {"heads", out.heads},
                           {"dim", out.dim},
                           {"milliseconds", out.forward}};
               if (out.backward) report["backward_milliseconds"] = *out.backward;
               print_report(report, options.run.json);
             });
}

}  // namespace quipu::cli
