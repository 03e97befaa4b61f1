// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attention_layer.hpp"
#include "load_graph.hpp"
#include "matrix.hpp"
#include "names.hpp"
#include "options.hpp"
#include "table.hpp"
#include "timing.hpp"
#include "verbs.hpp"

namespace quipu::cli {
namespace {

struct measurement {
  bench_op op;
  element_kind dtype;
  std::int64_t features;
  std::int64_t heads;
  timing time{};
  double gathered = 0;  // bytes of sender rows
};

bool is_attention(bench_op op) { return op >= bench_op::gat; }
bool is_backward(bench_op op) { return op >= bench_op::gat_backward; }
attention_kind kind_of(bench_op op) {
  const auto first = is_backward(op) ? bench_op::gat_backward : bench_op::gat;
  return static_cast<attention_kind>(static_cast<int>(op) - static_cast<int>(first));
}
/// Rows of all features that an operation gathers for an edge.
int gathered_rows(bench_op op) {
  if (!is_attention(op)) return 1;
  const auto kind = kind_of(op);
  if (!is_backward(op)) return kind == attention_kind::transformer ? 2 : 1;
  return kind == attention_kind::gat ? 2 : kind == attention_kind::gatv2 ? 3 : 4;
}

template <class T, class I, class Context>
class bench_case {
 public:
  bench_case(const bench_options& options, const Context& ctx, const graph_view<I, I>& g,
             bench_op op, std::int64_t features, std::int64_t heads)
      : options_(options),
        ctx_(ctx),
        graph_(g),
        features_(features),
        measured_{op, element_kind_of<T>, features, heads} {
    measured_.gathered = static_cast<double>(g.edges()) * static_cast<double>(features) *
                         sizeof(T) * gathered_rows(op);
  }

  measurement run() {
    if (is_attention(measured_.op)) {
      time_attention();
      return measured_;
    }
    x_ = draw_onto<T>(ctx_, options_.run.seed)(graph_.columns(), features_, 1);
    y_ = make_buffer<T>(ctx_, graph_.rows() * features_);
    if (measured_.op == bench_op::spmm) {
      time_spmm();
    } else if (measured_.op == bench_op::sddmm) {
      time_sddmm();
    } else {
      time_aggregate();
    }
    return measured_;
  }

 private:
  matrix_view<const T> input() const {
    return make_matrix_view(x_.data(), graph_.columns(), features_);
  }
  matrix_view<T> output() { return make_matrix_view(y_.data(), graph_.rows(), features_); }

  template <class Once>
  void time(Once&& once) {
    measured_.time = time_many(options_.measuring.repeat, ctx_, once);
  }

  void time_aggregate() {
    aggregate_args<T, I, I> args;
    args.graph = graph_;
    args.input = input();
    args.output = output();
    args.op = static_cast<reduce>(measured_.op);  // named in the same order
    auto scratch = make_scratch(ctx_, args);
    time([&] { require("aggregate", start(ctx_, args, scratch)); });
  }

  void time_spmm() {
    const auto scales = require("--norm", make_node_scales(ctx_, graph_, options_.norm));
    spmm_args<T, I, I> args;
    args.graph = graph_;
    args.scales = scales.view();
    args.input = input();
    args.output = output();
    auto plan_options = options_.plan;
    plan_options.backward = edge_option::keep;
    auto plan = make_plan(ctx_, args, plan_options);
    time([&] { require("spmm", start(ctx_, args, plan)); });
  }

  void time_sddmm() {
    const auto scales = require("--norm", make_node_scales(ctx_, graph_, options_.norm));
    const auto left = draw_onto<T>(ctx_, options_.run.seed)(graph_.rows(), features_, 2);
    auto dots = make_buffer<float>(ctx_, graph_.edges());
    sddmm_args<T, I, I> args;
    args.graph = graph_;
    args.scales = scales.view();
    args.left = make_matrix_view(left.data(), graph_.rows(), features_);
    args.right = input();
    args.output = make_vector_view(dots.data(), graph_.edges());
    time([&] { require("sddmm", sddmm(ctx_, args)); });
  }

  void time_attention() {
    attention_layer<T, I, Context> layer(ctx_, graph_, kind_of(measured_.op), measured_.heads,
                                         features_ / measured_.heads);
    const auto draw = draw_onto<T>(ctx_, options_.run.seed);
    layer.fill_operands(draw);
    const auto name = name_of(measured_.op);
    const auto time_layer = [&](auto& a) {
      auto scratch = make_scratch(ctx_, a);
      time([&] { require(name, start_attention(ctx_, a, scratch)); });
    };
    if (!is_backward(measured_.op)) return layer.forward(time_layer);
    layer.fill_gradients(draw);
    layer.forward([&](auto& a) {  // leaves what backward reads
      auto scratch = make_scratch(ctx_, a);
      require(name, start_attention(ctx_, a, scratch));
    });
    layer.backward(time_layer);
  }

  const bench_options& options_;
  const Context& ctx_;
  graph_view<I, I> graph_;
  std::int64_t features_;
  buffer<T> x_, y_;
  measurement measured_;
};

/// One of the operations that are asked for, on elements of one type.
struct wanted_case {
  bench_op op;
  element_kind dtype;
  std::int64_t features, heads;
};

std::vector<wanted_case> cases_of(const bench_options& options) {
  std::vector<wanted_case> all;
  for (const auto op : options.ops) {
    for (const auto dtype : options.run.dtypes) {
      for (const auto features : options.features) {
        if (!is_attention(op)) {
          all.push_back({op, dtype, features, 1});
          continue;
        }
        for (const auto heads : options.heads) {
          if (features % heads != 0) {
            throw bad_input(fmt::format("--heads: {} do not divide {} features", heads, features));
          }
          all.push_back({op, dtype, features, heads});
        }
      }
    }
  }
  return all;
}

template <class I, class Context>
std::vector<measurement> measure_all(const bench_options& options, const Context& ctx,
                                     const graph_view<I, I>& g) {
  const auto cases = cases_of(options);
  progress shown(cases.size());
  std::vector<measurement> all;
  for (const auto& c : cases) {
    all.push_back(dispatch_dtype(c.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return bench_case<T, I, Context>(options, ctx, g, c.op, c.features, c.heads).run();
    }));
    shown.step();
  }
  return all;
}

json to_json(const std::string& graph, const std::string& device, std::int64_t rows,
             std::int64_t edges, int repeat, const std::vector<measurement>& all) {
  json list = json::array();
  for (const auto& m : all) {
    list.push_back(
        {{"op", name_of(m.op)},
         {"dtype", name_of(m.dtype)},
         {"features", m.features},
         {"heads", m.heads},
         {"median_ms", m.time.median},
         {"min_ms", m.time.lowest},
         {"gathered_gb_per_s", per_second_in_billions(m.gathered, m.time.median)},
         {"edges_per_s", 1e9 * per_second_in_billions(static_cast<double>(edges), m.time.median)}});
  }
  return {{"graph", graph}, {"device", device}, {"rows", rows},
          {"edges", edges}, {"repeat", repeat}, {"results", list}};
}

std::string to_text(const json& report) {
  std::string out = facts({{"graph", report["graph"].get<std::string>()},
                           {"device", report["device"].get<std::string>()},
                           {"rows", grouped(report["rows"].get<std::int64_t>())},
                           {"edges", grouped(report["edges"].get<std::int64_t>())}});
  table t({{"op", align::left},
           {"dtype", align::left},
           {"features"},
           {"heads"},
           {"median ms"},
           {"min ms"},
           {"gathered GB/s"},
           {"Gedges/s"}});
  for (const auto& r : report["results"]) {
    t.add({r["op"].get<std::string>(), r["dtype"].get<std::string>(),
           grouped(r["features"].get<std::int64_t>()), grouped(r["heads"].get<std::int64_t>()),
           rounded(r["median_ms"].get<double>()), rounded(r["min_ms"].get<double>()),
           rounded(r["gathered_gb_per_s"].get<double>()),
           rounded(r["edges_per_s"].get<double>() / 1e9)});
  }
  return out + "\n" + t.text();
}

}  // namespace

void run(const bench_options& options) {
  const auto source = load_graph(options.graph);
  graph_options wanted;  // the factors of walk and symmetric count a sender's edges
  if (!counts_senders(options.norm) && std::ranges::none_of(options.ops, is_backward)) {
    wanted.reverse = edge_option::keep;
  }
  with_graph(source, options.run, wanted,
             [&](const auto& ctx, const std::string& device, const auto& built) {
               const auto g = built.view();
               const auto all = measure_all(options, ctx, g);
               const auto report =
                   to_json(source.name, device, g.rows(), g.edges(), options.measuring.repeat, all);
               publish(options.measuring, report, to_text(report));
             });
}

}  // namespace quipu::cli
