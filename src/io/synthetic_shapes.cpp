// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "quipu/io/synthetic.hpp"

namespace quipu {
namespace {

constexpr auto directed = edge_symmetry::directed;
constexpr auto symmetric = edge_symmetry::symmetric;
constexpr auto drawn = longest_row::drawn;
constexpr auto planted = longest_row::planted;

// name, nodes, edges, max_degree, tail, locality, community. Tails are fitted to the share of edges
// on the 1 % longest rows, or to the longest row, of the graph that a shape stands for.
constexpr std::array<synthetic_shape, 27> shapes{{
    {"arxiv_like", 169'343, 2'500'220, 13'155, 1.85, 0.6, 512, symmetric, drawn},
    {"products_like", 2'449'029, 133'768'506, 17'481, 2.5, 0.7, 1024, symmetric, drawn},
    {"reddit_like", 232'965, 124'231'394, 21'657, 3.0, 0.6, 4096, symmetric, drawn},
    {"hm_like", 46'563, 23'100'000, 31'458, 2.2, 0.3, 2048, symmetric, drawn},
    {"tolokers_like", 11'758, 1'142'742, 2'138, 2.46, 0.3, 1024, symmetric, drawn},
    {"avazu_like", 76'269, 23'400'000, 42'031, 2.0, 0.5, 2048, symmetric, drawn},
    {"twitch_like", 168'114, 14'800'000, 35'279, 2.1, 0.4, 1024, symmetric, drawn},
    {"reviews_like", 148'801, 2'572'484, 3'000, 2.13, 0.6, 512, symmetric, drawn},
    {"roads_like", 57'073, 227'682, 15, 6.0, 0.999, 64, symmetric, drawn},
    {"web_like", 2'890'331, 13'000'000, 228'990, 1.23, 0.3, 1024, symmetric, drawn},
    {"pubmed_like", 19'717, 97'700, 171, 2.2, 0.6, 256, symmetric, drawn},

    {"cora", 2'708, 10'556, 168, 2.2, 0.6, 256, symmetric, planted},
    {"citeseer", 3'327, 9'104, 99, 2.2, 0.6, 256, symmetric, planted},
    {"pubmed", 19'717, 88'648, 171, 2.2, 0.6, 256, symmetric, planted},
    {"city-roads-M", 57'073, 132'571, 6, 0, 0.999, 64, directed, planted},
    {"city-roads-L", 142'257, 279'062, 9, 0, 0.999, 64, directed, planted},
    {"artnet-exp", 50'405, 560'696, 198, 1.4, 0.5, 512, symmetric, planted},
    {"tolokers-2", 11'758, 1'038'000, 2'138, 1.45, 0.3, 1024, symmetric, planted},
    {"ogbn-arxiv", 169'343, 1'166'243, 13'155, 1.21, 0.6, 512, directed, planted},
    {"city-reviews", 148'801, 2'330'830, 7'437, 1.39, 0.6, 512, symmetric, planted},
    {"twitch-views", 168'114, 13'595'114, 35'279, 1.31, 0.4, 1024, symmetric, planted},
    {"hm-categories", 46'563, 21'461'990, 31'458, 1.08, 0.3, 2048, symmetric, planted},
    {"avazu-ctr", 76'269, 21'968'154, 42'031, 1.07, 0.5, 2048, symmetric, planted},
    {"pokec-regions", 1'632'803, 30'622'564, 13'733, 1.98, 0.6, 512, directed, planted},
    {"web-fraud", 2'890'331, 12'895'369, 228'990, 1.177, 0.3, 1024, directed, planted},
    {"ogbn-products", 2'449'029, 123'718'280, 17'481, 1.62, 0.6, 1024, symmetric, planted},
    {"ogbn-proteins", 132'534, 79'122'504, 7'750, 1.7, 0.6, 4096, symmetric, planted},
}};

constexpr status bad_option =
    failure(status_code::invalid_argument, "a synthetic graph's options are seed=N and flat");

std::string_view cut_word(std::string_view& text) {
  const auto comma = text.find(',');
  const auto word = text.substr(0, comma);
  text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  return word;
}

status apply_option(std::string_view word, synthetic_options& options) {
  if (word == "flat") {
    options.skew = degree_skew::flat;
    return success();
  }
  constexpr std::string_view prefix = "seed=";
  if (!word.starts_with(prefix)) return bad_option;
  word.remove_prefix(prefix.size());
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, options.seed);
  return error == std::errc{} && stop == end ? success() : bad_option;
}

}  // namespace

std::span<const synthetic_shape> synthetic_shapes() { return shapes; }

result<synthetic_request> parse_synthetic(std::string_view text) {
  if (text.ends_with(',')) return bad_option;
  const auto name = cut_word(text);
  const auto shape = std::ranges::find(shapes, name, &synthetic_shape::name);
  if (shape == shapes.end()) {
    return failure(status_code::invalid_argument, "no synthetic graph has this name");
  }
  synthetic_request request{*shape, {}};
  while (!text.empty()) {
    if (const auto s = apply_option(cut_word(text), request.options); !s.ok()) return s;
  }
  return request;
}

}  // namespace quipu
