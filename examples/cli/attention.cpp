// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "load_graph.hpp"
#include "matrix.hpp"
#include "names.hpp"
#include "options.hpp"
#include "output.hpp"
#include "quipu/attention/gat.hpp"
#include "quipu/attention/gatv2.hpp"
#include "quipu/attention/transformer.hpp"
#include "table.hpp"
#include "verbs.hpp"

namespace quipu::cli {
namespace {

template <class T, class I, class... Workspace>
status forward(const auto& ctx, const gat_forward_args<T, I, I>& a, Workspace... w) {
  return gat_forward(ctx, a, w...);
}
template <class T, class I, class... Workspace>
status forward(const auto& ctx, const gatv2_forward_args<T, I, I>& a, Workspace... w) {
  return gatv2_forward(ctx, a, w...);
}
template <class T, class I, class... Workspace>
status forward(const auto& ctx, const transformer_forward_args<T, I, I>& a, Workspace... w) {
  return transformer_forward(ctx, a, w...);
}

template <class Args>
double time_forward(const context& ctx, const Args& a, const char* name) {
  auto scratch = make_scratch(ctx, a);
  return time_once(ctx, [&] {
    require(name, forward(ctx, a, workspace{scratch.data(), scratch.bytes()}));
  });
}
template <class Args>
double time_forward(const host_context& ctx, const Args& a, const char* name) {
  return time_once(ctx, [&] { require(name, forward(ctx, a)); });
}

/// Operands on the executor's side, read from files or drawn; the files settle heads and dim.
template <class T, class I, class Context>
class attention_job {
 public:
  attention_job(const attention_options& options, const Context& ctx, const graph_view<I, I>& g)
      : options_(options), ctx_(ctx), graph_(g) {}

  double run(output_set& files) {
    settle_shape();
    const auto rows = graph_.rows(), columns = graph_.columns();
    auto output = make_buffer<T>(ctx_, rows * heads_ * dim_);
    auto logsumexp = make_buffer<float>(ctx_, rows * heads_);
    auto alpha = make_buffer<float>(ctx_, wants_alpha() ? graph_.edges() * heads_ : 0);
    const auto fill = [&](auto& a) {
      a.graph = graph_;
      a.output = make_heads_view(output.data(), rows, heads_, dim_);
      a.logsumexp = make_matrix_view(logsumexp.data(), rows, heads_);
      if (wants_alpha()) a.alpha = make_matrix_view(alpha.data(), graph_.edges(), heads_);
      return time_forward(ctx_, a, name_of(options_.kind).c_str());
    };
    double milliseconds = 0;
    if (options_.kind == attention_kind::gat) {
      const auto p = scores(options_.receivers, rows, 1), q = scores(options_.senders, columns, 2);
      const auto r = heads(options_.values, columns, 3);
      gat_forward_args<T, I, I> a;
      a.target_score = make_matrix_view<const T>(p.data(), rows, heads_);
      a.source_score = make_matrix_view<const T>(q.data(), columns, heads_);
      a.source = make_heads_view<const T>(r.data(), columns, heads_, dim_);
      a.slope = static_cast<float>(options_.slope);
      milliseconds = fill(a);
    } else if (options_.kind == attention_kind::gatv2) {
      const auto l = heads(options_.receivers, rows, 1), r = heads(options_.senders, columns, 2);
      const auto v = place(ctx_, read_flat(options_.vector, heads_, dim_, 4));
      gatv2_forward_args<T, I, I> a;
      a.target = make_heads_view<const T>(l.data(), rows, heads_, dim_);
      a.source = make_heads_view<const T>(r.data(), columns, heads_, dim_);
      a.attention = make_matrix_view<const T>(v.data(), heads_, dim_);
      a.slope = static_cast<float>(options_.slope);
      milliseconds = fill(a);
    } else {
      const auto q = heads(options_.receivers, rows, 1), k = heads(options_.senders, columns, 2);
      const auto v = heads(options_.values, columns, 3);
      transformer_forward_args<T, I, I> a;
      a.query = make_heads_view<const T>(q.data(), rows, heads_, dim_);
      a.key = make_heads_view<const T>(k.data(), columns, heads_, dim_);
      a.value = make_heads_view<const T>(v.data(), columns, heads_, dim_);
      a.scale =
          static_cast<float>(options_.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim_))));
      milliseconds = fill(a);
    }
    const std::array<std::int64_t, 3> shape{rows, heads_, dim_};
    if (!options_.output.empty()) write_array(options_.output, shape, fetch(ctx_, output), files);
    const auto write_numbers = [&](const std::string& path, std::int64_t count, const auto& from) {
      if (path.empty()) return;
      const std::array<std::int64_t, 2> by_head{count, heads_};
      require(path, write_npy(files.stage(path), npy_kind::f4, by_head, fetch(ctx_, from).data()));
    };
    write_numbers(options_.logsumexp, rows, logsumexp);
    write_numbers(options_.alpha, graph_.edges(), alpha);
    return milliseconds;
  }

  std::int64_t heads_of() const { return heads_; }
  std::int64_t dim_of() const { return dim_; }

 private:
  bool wants_alpha() const { return !options_.alpha.empty(); }

  /// The first operand that is a file settles heads and dim, which --heads and --dim may say too.
  void settle_shape() {
    heads_ = options_.heads.value_or(1);
    dim_ = options_.dim.value_or(64);
    const bool gat = options_.kind == attention_kind::gat;
    for (const auto* path : {&options_.receivers, &options_.senders, &options_.values}) {
      if (path->empty()) continue;
      const auto shape = look_into(*path).shape;
      if (gat && path != &options_.values) {  // scores: [nodes, heads]
        if (shape.size() == 2) heads_ = options_.heads.value_or(shape[1]);
        continue;
      }
      if (shape.size() != 2 && shape.size() != 3) {
        throw bad_input(*path + ": is neither [nodes, heads, dim] nor [nodes, dim]");
      }
      heads_ = options_.heads.value_or(shape.size() == 3 ? shape[1] : 1);
      dim_ = options_.dim.value_or(shape.back());
      break;
    }
    if (dim_ < 1) throw bad_input("a head has no features");
    if (heads_ < 1 || dim_ > std::numeric_limits<std::int32_t>::max() / heads_) {
      throw bad_input(fmt::format("--heads, --dim: {} times {} is above 2147483647", heads_, dim_));
    }
    check_width<T>(std::max(graph_.rows(), graph_.columns()), heads_ * dim_);
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

  /// [rows, heads, dim], or [rows, dim] of a single head.
  buffer<T> heads(const std::string& path, std::int64_t rows, std::uint64_t stream) {
    if (path.empty()) {
      return place(ctx_, draw_matrix<T>(rows, heads_ * dim_, options_.run.seed, stream).values);
    }
    const auto array = take(path);
    const bool whole =
        array.shape.size() == 3 && array.shape[1] == heads_ && array.shape[2] == dim_;
    const bool single = array.shape.size() == 2 && heads_ == 1 && array.shape[1] == dim_;
    if (!whole && !single) {
      throw bad_input(fmt::format("{}: is not [nodes, {}, {}]", path, heads_, dim_));
    }
    return place(ctx_, numbers_of<T>(path, array, rows));
  }

  /// [rows, heads].
  buffer<T> scores(const std::string& path, std::int64_t rows, std::uint64_t stream) {
    return place(ctx_, read_flat(path, rows, heads_, stream));
  }
  std::vector<T> read_flat(const std::string& path, std::int64_t rows, std::int64_t width,
                           std::uint64_t stream) {
    return read_or_draw<T>(path, rows, width, options_.run.seed, stream).values;
  }

  const attention_options& options_;
  const Context& ctx_;
  graph_view<I, I> graph_;
  std::int64_t heads_ = 1, dim_ = 1;
  std::pair<std::string, npy_array> looked_into_;
};

}  // namespace

void run(const attention_options& options) {
  const auto source = load_graph(options.graph);
  graph_options wanted;
  wanted.reverse = edge_option::keep;
  with_graph(source, options.run, wanted,
             [&](const auto& ctx, const std::string& device, const auto& built) {
               const auto g = built.view();
               using view_type = std::remove_cvref_t<decltype(g)>;
               using index_type = std::remove_cvref_t<decltype(*g.forward.csr.indices)>;
               static_assert(std::is_same_v<view_type, graph_view<index_type, index_type>>);
               output_set files;
               const auto [milliseconds, heads, dim] =
                   dispatch_dtype(options.run.dtypes[0], [&](auto tag) {
                     using T = typename decltype(tag)::type;
                     attention_job<T, index_type, std::remove_cvref_t<decltype(ctx)>> job(options,
                                                                                          ctx, g);
                     const double ms = job.run(files);
                     return std::tuple{ms, job.heads_of(), job.dim_of()};
                   });
               files.commit();
               print_report({{"graph", source.name},
                             {"device", device},
                             {"op", name_of(options.kind)},
                             {"dtype", name_of(options.run.dtypes[0])},
                             {"rows", g.rows()},
                             {"columns", g.columns()},
                             {"edges", g.edges()},
                             {"heads", heads},
                             {"dim", dim},
                             {"milliseconds", milliseconds}},
                            options.run.json);
             });
}

}  // namespace quipu::cli
