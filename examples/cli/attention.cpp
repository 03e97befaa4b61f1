// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
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

/// Every verb of attention under one name.
template <class Args>
status attend(const auto& ctx, const Args& a, auto... w) {
  constexpr bool back = requires { a.grad_output; };
  if constexpr (requires { a.target_score; }) {
    if constexpr (back)
      return gat_backward(ctx, a, w...);
    else
      return gat_forward(ctx, a, w...);
  } else if constexpr (requires { a.attention; }) {
    if constexpr (back)
      return gatv2_backward(ctx, a, w...);
    else
      return gatv2_forward(ctx, a, w...);
  } else {
    if constexpr (back)
      return transformer_backward(ctx, a, w...);
    else
      return transformer_forward(ctx, a, w...);
  }
}

template <class Args>
double time_attention(const context& ctx, const Args& a, const char* name) {
  auto scratch = make_scratch(ctx, a);
  return time_once(ctx, [&] {
    require(name, attend(ctx, a, workspace{scratch.data(), scratch.bytes()}));
  });
}
template <class Args>
double time_attention(const host_context& ctx, const Args& a, const char* name) {
  return time_once(ctx, [&] { require(name, attend(ctx, a)); });
}

struct attention_outcome {
  std::int64_t heads = 0, dim = 0;
  double forward = 0;
  std::optional<double> backward;
};

/// Operands on the executor's side, read from files or drawn; the files settle heads and dim.
template <class T, class I, class Context>
class attention_job {
 public:
  attention_job(const attention_options& options, const Context& ctx, const graph_view<I, I>& g)
      : options_(options), ctx_(ctx), graph_(g) {
    settle_shape();
    const auto rows = graph_.rows(), columns = graph_.columns();
    const bool gat = options_.kind == attention_kind::gat;
    receivers_ = gat ? scores(options_.receivers, rows, 1) : heads(options_.receivers, rows, 1);
    senders_ = gat ? scores(options_.senders, columns, 2) : heads(options_.senders, columns, 2);
    if (options_.kind == attention_kind::gatv2) {
      vector_ = place(ctx_, read_flat(options_.vector, heads_, dim_, 4));
    } else {
      values_ = heads(options_.values, columns, 3);
    }
    output_ = make_buffer<T>(ctx_, rows * heads_ * dim_);
    logsumexp_ = make_buffer<float>(ctx_, rows * heads_);
  }

  attention_outcome run(output_set& files) {
    attention_outcome out{heads_, dim_, forward(files), std::nullopt};
    if (options_.wants_gradients()) out.backward = backward(files);
    return out;
  }

 private:
  using three = std::array<std::int64_t, 3>;
  using two = std::array<std::int64_t, 2>;

  double forward(output_set& files) {
    const auto rows = graph_.rows(), edges = graph_.edges();
    auto alpha = make_buffer<float>(ctx_, options_.alpha.empty() ? 0 : edges * heads_);
    const double milliseconds =
        with_operands<gat_forward_args, gatv2_forward_args, transformer_forward_args>([&](auto& a) {
          a.output = make_heads_view(output_.data(), rows, heads_, dim_);
          a.logsumexp = make_matrix_view(logsumexp_.data(), rows, heads_);
          if (alpha.size() > 0) a.alpha = make_matrix_view(alpha.data(), edges, heads_);
          return time_attention(ctx_, a, name_of(options_.kind).c_str());
        });
    save(options_.output, three{rows, heads_, dim_}, output_, files);
    save(options_.logsumexp, two{rows, heads_}, logsumexp_, files);
    save(options_.alpha, two{edges, heads_}, alpha, files);
    return milliseconds;
  }

  double backward(output_set& files) {
    const auto rows = graph_.rows(), columns = graph_.columns();
    const auto gradient = heads(options_.grad_output, rows, 5);
    auto of_receivers = make_buffer<T>(ctx_, receivers_.size());
    auto of_senders = make_buffer<T>(ctx_, senders_.size());
    auto of_values = make_buffer<T>(ctx_, values_.size());
    auto of_vector = make_buffer<T>(ctx_, vector_.size());
    const auto whole = [&](buffer<T>& b, std::int64_t nodes) {
      return make_heads_view(b.data(), nodes, heads_, dim_);
    };
    const double milliseconds =
        with_operands<gat_backward_args, gatv2_backward_args, transformer_backward_args>(
            [&](auto& a) {
              a.output = make_heads_view<const T>(output_.data(), rows, heads_, dim_);
              a.logsumexp = make_matrix_view<const float>(logsumexp_.data(), rows, heads_);
              a.grad_output = make_heads_view<const T>(gradient.data(), rows, heads_, dim_);
              if constexpr (requires { a.grad_query; }) {
                a.grad_query = whole(of_receivers, rows);
                a.grad_key = whole(of_senders, columns);
                a.grad_value = whole(of_values, columns);
              } else if constexpr (requires { a.grad_attention; }) {
                a.grad_target = whole(of_receivers, rows);
                a.grad_source = whole(of_senders, columns);
                a.grad_attention = make_matrix_view(of_vector.data(), heads_, dim_);
              } else {
                a.grad_target_score = make_matrix_view(of_receivers.data(), rows, heads_);
                a.grad_source_score = make_matrix_view(of_senders.data(), columns, heads_);
                a.grad_source = whole(of_values, columns);
              }
              return time_attention(ctx_, a, (name_of(options_.kind) + "_backward").c_str());
            });
    if (options_.kind == attention_kind::gat) {
      save(options_.grad_receivers, two{rows, heads_}, of_receivers, files);
      save(options_.grad_senders, two{columns, heads_}, of_senders, files);
    } else {
      save(options_.grad_receivers, three{rows, heads_, dim_}, of_receivers, files);
      save(options_.grad_senders, three{columns, heads_, dim_}, of_senders, files);
    }
    save(options_.grad_values, three{columns, heads_, dim_}, of_values, files);
    save(options_.grad_vector, two{heads_, dim_}, of_vector, files);
    return milliseconds;
  }

  /// use(arguments) of the kind, with all that is read.
  template <template <class, class, class> class Gat, template <class, class, class> class Gatv2,
            template <class, class, class> class Transformer, class Use>
  double with_operands(const Use& use) const {
    const auto rows = graph_.rows(), columns = graph_.columns();
    const auto whole = [&](const buffer<T>& b, std::int64_t nodes) {
      return make_heads_view<const T>(b.data(), nodes, heads_, dim_);
    };
    const auto go = [&](auto& a) {
      a.graph = graph_;
      a.dropout = {options_.dropout, options_.run.seed, 0};
      return use(a);
    };
    if (options_.kind == attention_kind::gat) {
      Gat<T, I, I> a;
      a.target_score = make_matrix_view<const T>(receivers_.data(), rows, heads_);
      a.source_score = make_matrix_view<const T>(senders_.data(), columns, heads_);
      a.source = whole(values_, columns);
      a.slope = static_cast<float>(options_.slope);
      return go(a);
    }
    if (options_.kind == attention_kind::gatv2) {
      Gatv2<T, I, I> a;
      a.target = whole(receivers_, rows);
      a.source = whole(senders_, columns);
      a.attention = make_matrix_view<const T>(vector_.data(), heads_, dim_);
      a.slope = static_cast<float>(options_.slope);
      return go(a);
    }
    Transformer<T, I, I> a;
    a.query = whole(receivers_, rows);
    a.key = whole(senders_, columns);
    a.value = whole(values_, columns);
    a.scale =
        static_cast<float>(options_.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim_))));
    return go(a);
  }

  template <std::size_t Rank, class Element>
  void save(const std::string& path, const std::array<std::int64_t, Rank>& shape,
            const buffer<Element>& values, output_set& files) const {
    if (!path.empty()) write_array(path, shape, fetch(ctx_, values), files);
  }

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
  buffer<T> receivers_, senders_, values_, vector_, output_;
  buffer<float> logsumexp_;
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
