// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "load_graph.hpp"
#include "options.hpp"
#include "table.hpp"

namespace quipu::cli {
namespace {

struct degree_summary {
  double mean = 0;
  std::int64_t median = 0;
  std::int64_t p99 = 0;
  std::int64_t longest = 0;
  std::int64_t empty = 0;
  std::vector<std::int64_t> histogram;  // [0], [1], [2, 3], [4, 7], ...
};

template <class I>
degree_summary summarise(const csr_view<I, I>& csr) {
  degree_summary d;
  if (csr.rows == 0) return d;
  std::vector<std::int64_t> degrees(static_cast<std::size_t>(csr.rows));
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    degrees[i] = csr.offsets[i + 1] - csr.offsets[i];
    const auto bucket =
        static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(degrees[i])));
    if (bucket >= d.histogram.size()) d.histogram.resize(bucket + 1);
    ++d.histogram[bucket];
  }
  const auto at = [&](double share) {
    const auto k = static_cast<std::ptrdiff_t>(share * static_cast<double>(csr.rows - 1));
    std::nth_element(degrees.begin(), degrees.begin() + k, degrees.end());
    return degrees[static_cast<std::size_t>(k)];
  };
  d.mean = static_cast<double>(csr.edges) / static_cast<double>(csr.rows);
  d.median = at(0.5);
  d.p99 = at(0.99);
  d.longest = at(1.0);
  d.empty = d.histogram[0];
  return d;
}

std::string range_of(std::size_t bucket) {
  if (bucket < 2) return std::to_string(bucket);
  const std::int64_t low = std::int64_t{1} << (bucket - 1);
  return grouped(low) + " - " + grouped(2 * low - 1);
}

json histogram_json(const degree_summary& d) {
  json list = json::array();
  for (std::size_t b = 0; b < d.histogram.size(); ++b) {
    const std::int64_t low = b == 0 ? 0 : std::int64_t{1} << (b - 1);
    list.push_back({{"from", low}, {"to", b < 2 ? low : 2 * low - 1}, {"rows", d.histogram[b]}});
  }
  return list;
}

template <class I>
json direction_json(const direction_view<I, I>& v) {
  const auto d = summarise(v.csr);
  return {{"rows", v.csr.rows},
          {"mean_degree", d.mean},
          {"median_degree", d.median},
          {"p99_degree", d.p99},
          {"max_degree", d.longest},
          {"empty_rows", d.empty},
          {"histogram", histogram_json(d)},
          {"schedule",
           {{"slice_edges", v.schedule.slice_edges},
            {"slices", v.schedule.slice_count},
            {"split_rows", v.schedule.split_row_count()},
            {"split_slices", v.schedule.split_slice_count()}}}};
}

template <class I>
std::string direction_text(const char* title, const direction_view<I, I>& v) {
  const auto d = summarise(v.csr);
  std::string out = fmt::format("\n{}\n", title);
  out += facts({{"degree", fmt::format("mean {}, median {}, p99 {}, max {}", rounded(d.mean),
                                       grouped(d.median), grouped(d.p99), grouped(d.longest))},
                {"empty rows", grouped(d.empty)},
                {"schedule", fmt::format("{} slices of at most {} edges; {} rows split into {}",
                                         grouped(v.schedule.slice_count), v.schedule.slice_edges,
                                         grouped(v.schedule.split_row_count()),
                                         grouped(v.schedule.split_slice_count()))}});
  if (d.histogram.empty()) return out;
  const auto most = static_cast<double>(std::ranges::max(d.histogram));
  table t({{"degree"}, {"rows"}, {"", align::left}});
  for (std::size_t b = 0; b < d.histogram.size(); ++b) {
    t.add({range_of(b), grouped(d.histogram[b]),
           bar(static_cast<double>(d.histogram[b]) / most, 40)});
  }
  return out + "\n" + t.text();
}

/// What `auto` would pick for products, and the times that it goes by.
template <class I>
void explain_spmm(const graph_view<I, I>& g, const context& ctx,
                  std::vector<std::string>& reasons) {
  for (const std::int64_t features : {32, 64, 128, 256, 512}) {
    const product_shape shape{g.rows(), g.columns(), g.edges(), features, 4, ctx.l2_bytes};
    const auto c = predict_spmm(shape, ctx.arch);
    reasons.push_back(fmt::format(
        "spmm of {} fp32 features: predicted {} ms by the engine, {} ms by cuSPARSE's csr2, {} ms "
        "by csr3; {}",
        features, rounded(c.engine_ms), rounded(c.csr2_ms), rounded(c.csr3_ms),
        c.engine_ms <= spmm_model_error * c.csr3_ms ? "the engine is picked"
                                                    : "cuSPARSE is picked"));
  }
}
template <class I>
void explain_spmm(const graph_view<I, I>&, const host_context&, std::vector<std::string>& reasons) {
  reasons.push_back("spmm: on the host there is nothing to pick, the engine does it");
}

/// Why the library takes the decisions that it takes for this graph.
template <class I>
std::vector<std::string> explain_graph(const graph_view<I, I>& g) {
  const auto& s = g.forward.schedule;
  std::int64_t split_edges = 0;
  for (std::int64_t r = 0; r < s.split_row_count(); ++r) split_edges += s.split_rows[r].degree;
  const double share =
      g.edges() == 0 ? 0.0
                     : 100.0 * static_cast<double>(split_edges) / static_cast<double>(g.edges());
  return {
      fmt::format("ids of {} bits: {}", 8 * sizeof(I),
                  sizeof(I) == 4 ? "nodes and edges stay below 2^31" : "nodes or edges reach 2^31"),
      fmt::format("slices of at most {} edges: the power of two from 8 to 1024 next below the "
                  "square root of twice the edges a multiprocessor has, or more where that would "
                  "cut rows of the mean degree",
                  s.slice_edges),
      fmt::format(
          "{} rows are longer and are cut; they hold {:.1f} % of the edges, and their parts "
          "are merged in slice order",
          grouped(s.split_row_count()), share),
      fmt::format("winners of min and max take a byte each, and a word more in {} rows of over 255 "
                  "edges",
                  grouped(g.forward.wide_rows.count))};
}

template <class I, class Context>
std::vector<std::string> explain(const graph_view<I, I>& g, const Context& ctx) {
  auto reasons = explain_graph(g);
  explain_spmm(g, ctx, reasons);
  return reasons;
}

template <class I>
json info_json(const std::string& name, const std::string& device, const graph_view<I, I>& g,
               const std::vector<std::string>& reasons) {
  json out{{"graph", name},
           {"device", device},
           {"rows", g.rows()},
           {"columns", g.columns()},
           {"edges", g.edges()},
           {"weighted", g.forward.csr.weights != nullptr},
           {"id_bits", 8 * sizeof(I)},
           {"forward", direction_json(g.forward)},
           {"reverse", direction_json(g.reverse)}};
  if (!reasons.empty()) out["explain"] = reasons;
  return out;
}

template <class I>
std::string info_text(const std::string& name, const std::string& device, const graph_view<I, I>& g,
                      const std::vector<std::string>& reasons) {
  std::string out = facts({{"graph", name},
                           {"device", device},
                           {"rows", grouped(g.rows())},
                           {"columns", grouped(g.columns())},
                           {"edges", grouped(g.edges())},
                           {"weighted", g.forward.csr.weights != nullptr ? "yes" : "no"}});
  out += direction_text("Receivers (forward)", g.forward);
  out += direction_text("Senders (reverse)", g.reverse);
  if (reasons.empty()) return out;
  out += "\nWhy\n";
  for (const auto& reason : reasons) out += "- " + reason + "\n";
  return out;
}

}  // namespace

void run(const info_options& options) {
  const auto source = load_graph(options.graph);
  with_graph(source, options.run, {}, [&](const auto& ctx, const std::string& device, auto& built) {
    const auto local = fetch(ctx, built);
    const auto view = local.view();
    const auto reasons = options.explain ? explain(view, ctx) : std::vector<std::string>{};
    fmt::print("{}", options.run.json ? dumped(info_json(source.name, device, view, reasons)) + "\n"
                                      : info_text(source.name, device, view, reasons));
  });
}

}  // namespace quipu::cli
