// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "errors.hpp"
#include "names.hpp"
#include "packed_array.hpp"
#include "table.hpp"

namespace quipu::cli {
namespace {

constexpr std::size_t most_exponents = 8;  // that are named

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

/// A bit string, and as a float what it stands for.
std::string text_of(std::uint64_t bits, const table_profile& p) {
  const auto digits = fmt::format("{:#0{}x}", bits, 2 + 2 * p.element_bytes);
  float value = 0;
  if (p.format == number_format::bits) return digits;
  if (p.format == number_format::float16) {
    value = static_cast<float>(std::bit_cast<float16>(static_cast<std::uint16_t>(bits)));
  } else {
    const int shift = p.format == number_format::bfloat16 ? 16 : 0;
    value = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << shift);
  }
  return fmt::format("{} ({})", value, digits);
}

/// Exponents that come up, the most frequent ones first.
std::vector<std::size_t> frequent_exponents(const table_profile& p) {
  std::vector<std::size_t> order(p.exponents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t e) { return p.exponents[e]; });
  std::erase_if(order, [&](std::size_t e) { return p.exponents[e] == 0; });
  order.resize(std::min(order.size(), most_exponents));
  return order;
}

double share_of(const table_profile& p, std::size_t exponent) {
  const auto all = std::accumulate(p.exponents.begin(), p.exponents.end(), 0.0);
  return p.exponents[exponent] / all;
}

/// "2^-3"; the smallest stands for what is below it and for 0, the largest for what is no number.
std::string exponent_text(const table_profile& p, std::size_t exponent) {
  if (exponent == 0) return "0";
  if (exponent + 1 == p.exponents.size()) return "inf";
  const auto bias = static_cast<std::int64_t>(p.exponents.size() / 2 - 1);
  return fmt::format("2^{}", static_cast<std::int64_t>(exponent) - bias);
}

double ratio_of(const table_profile& p, const packing_estimate& e) {
  const auto row_bytes = static_cast<double>(p.width * p.element_bytes);
  return e.row_bytes > 0 ? row_bytes / e.row_bytes : 1.0;
}

/// The goals that a packing is picked for; for a link its records may be aligned to more.
std::vector<std::string> goals_of(const table_profile& p, const packing_estimate& e) {
  std::vector<std::string> goals;
  for (const auto& [name, goal] : goal_names()) {
    const auto picked = choose_packing(p, goal).how;
    if (picked.how == e.how.how && picked.exponent.code_bits == e.how.exponent.code_bits) {
      goals.push_back(name);
    }
  }
  return goals;
}

json report_of(const std::string& path, const table_profile& p) {
  json report{{"input", path},
              {"rows", p.rows},
              {"sampled_rows", p.sampled_rows},
              {"width", p.width},
              {"element", element_name(p.format, p.element_bytes)},
              {"most_frequent", {{"bits", p.fill}, {"share", p.fill_share}}}};
  if (p.format != number_format::bits) {
    auto& exponents = report["exponents"] = json::array();
    for (const auto e : frequent_exponents(p)) {
      exponents.push_back({{"exponent", e}, {"share", share_of(p, e)}});
    }
  }
  for (const auto& e : p.packings) {
    json packing{{"codec", name_of(e.how.how)}};
    if (e.how.how == codec::exponent) packing["code_bits"] = e.how.exponent.code_bits;
    packing["row_bytes"] = e.row_bytes;
    packing["ratio"] = ratio_of(p, e);
    packing["picked_for"] = goals_of(p, e);
    report["packings"].push_back(std::move(packing));
  }
  return report;
}

void print_text(const std::string& path, const table_profile& p) {
  std::vector<std::pair<std::string, std::string>> lines{
      {"input", path},
      {"rows", grouped(p.rows)},
      {"sampled", grouped(p.sampled_rows)},
      {"width", grouped(p.width)},
      {"element", element_name(p.format, p.element_bytes)},
      {"most frequent", text_of(p.fill, p) + ", " + percent(p.fill_share)}};
  std::string exponents;
  for (const auto e : frequent_exponents(p)) {
    exponents += fmt::format("{}{}: {}", exponents.empty() ? "" : ", ", exponent_text(p, e),
                             percent(share_of(p, e)));
  }
  if (!exponents.empty()) lines.emplace_back("exponents", exponents);
  table packings({{"codec", align::left}, {"bytes a row"}, {"ratio"}, {"picked for", align::left}});
  for (const auto& e : p.packings) {
    const auto goals = goals_of(p, e);
    packings.add({codec_text(e.how), rounded(e.row_bytes), rounded(ratio_of(p, e)),
                  fmt::format("{}", fmt::join(goals, ", "))});
  }
  fmt::print("{}\n{}", facts(lines), packings.text());
}

}  // namespace

void run(const profile_command_options& options) {
  const auto& path = options.table.path;
  const auto table = read_table(options.table);
  const host_context host{options.run.threads};
  const auto profile = require(path, make_profile(host, table.view(), options.table.look));
  if (options.run.json) {
    fmt::print("{}\n", dumped(report_of(path, profile)));
  } else {
    print_text(path, profile);
  }
}

}  // namespace quipu::cli
