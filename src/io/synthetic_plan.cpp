// SPDX-License-Identifier: Apache-2.0
#include "io/synthetic_plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace quipu::io_detail {
namespace {

// Weights become integers in these units; 2^20 per unit keeps the sum of any graph below 2^63.
constexpr double weight_unit = 1 << 20;
// Rows beside a planted one stay below it: their expected degree ends at this share of it.
constexpr double cap_beside_planted = 0.7;

status invalid(const char* message) { return failure(status_code::invalid_argument, message); }

status check_shape(const synthetic_shape& s) {
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  const bool symmetric = s.symmetry == edge_symmetry::symmetric;
  if (s.nodes < 2 || s.nodes > largest) return invalid("synthetic: nodes outside [2, 2^31)");
  if (s.edges < 1 || s.edges > largest) return invalid("synthetic: edges outside [1, 2^31)");
  if (symmetric && s.edges % 2 != 0)
    return invalid("synthetic: edges of a symmetric shape are odd");
  if (s.edges > s.nodes * (s.nodes - 1)) return invalid("synthetic: more edges than node pairs");
  if (!(s.tail == 0 || s.tail > 1)) return invalid("synthetic: tail is neither 0 nor above 1");
  if (!(s.locality >= 0 && s.locality <= 1)) return invalid("synthetic: locality outside [0, 1]");
  if (s.community < 1) return invalid("synthetic: community is below 1");
  if (s.max_degree < 1 || s.max_degree >= s.nodes) {
    return invalid("synthetic: max_degree outside [1, nodes)");
  }
  if (s.longest == longest_row::planted && s.max_degree > s.edges / (symmetric ? 2 : 1)) {
    return invalid("synthetic: max_degree exceeds the edges");
  }
  return success();
}

// Pareto weights, the heaviest lifted to the cap so that every seed has its long row.
std::vector<double> pareto_weights(const synthetic_shape& s, std::uint64_t stream) {
  std::vector<double> w(static_cast<std::size_t>(s.nodes));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double u = static_cast<double>((random_bits(stream, i) >> 11) + 1) * 0x1p-53;
    w[i] = std::pow(std::max(u, 1e-9), -1 / s.tail);
  }
  const double mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  const double mean_degree = static_cast<double>(s.edges) / static_cast<double>(s.nodes);
  const double share = s.longest == longest_row::planted ? cap_beside_planted : 1.0;
  const double cap = std::max(1.0, mean * share * static_cast<double>(s.max_degree) / mean_degree);
  *std::max_element(w.begin(), w.end()) = cap;
  for (double& value : w) value = std::min(value, cap);
  return w;
}

void fill_weights(const synthetic_shape& s, std::uint64_t stream, synthetic_plan& plan) {
  plan.weight_end.resize(static_cast<std::size_t>(s.nodes));
  const auto weights =
      s.tail == 0 ? std::vector<double>(plan.weight_end.size(), 1.0) : pareto_weights(s, stream);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const bool is_hub = plan.draw.planted > 0 && i == plan.draw.hub;
    if (!is_hub) sum += static_cast<std::uint64_t>(std::llround(weights[i] * weight_unit));
    plan.weight_end[i] = sum;
  }
  plan.draw.total = sum;
}

// About two buckets a node, so that a search touches one or two cache lines.
void fill_guide(synthetic_plan& plan) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(plan.draw.total)) -
                                    static_cast<int>(std::bit_width(plan.draw.nodes)) - 1);
  const std::uint64_t buckets = ((plan.draw.total - 1) >> shift) + 1;
  plan.draw.guide_shift = shift;
  plan.guide.resize(buckets + 1);
  std::uint32_t node = 0;
  for (std::uint64_t b = 0; b < buckets; ++b) {
    while (plan.weight_end[node] <= b << shift) ++node;
    plan.guide[b] = node;
  }
  plan.guide[buckets] = static_cast<std::uint32_t>(plan.draw.nodes - 1);
}

void plant_hub(const synthetic_shape& s, std::uint64_t stream, edge_draw& draw) {
  draw.planted = static_cast<std::uint64_t>(s.max_degree);
  draw.hub = below(random_bits(stream, 0), draw.nodes);
  draw.hub_stride = 1 + below(random_bits(stream, 1), draw.nodes - 1);
  while (std::gcd(draw.hub_stride, draw.nodes) != 1) ++draw.hub_stride;
}

}  // namespace

result<synthetic_plan> make_plan(const synthetic_request& request) {
  synthetic_shape s = request.shape;
  if (const auto bad = check_shape(s); !bad.ok()) return bad;
  const bool flat = request.options.skew == degree_skew::flat;
  if (flat) {
    s.tail = 0;
    s.longest = longest_row::drawn;
  }
  synthetic_plan plan;
  edge_draw& draw = plan.draw;
  draw.nodes = static_cast<std::uint64_t>(s.nodes);
  draw.id_bits = static_cast<int>(std::bit_width(draw.nodes - 1));
  draw.community = static_cast<std::uint64_t>(s.community);
  draw.locality = static_cast<std::uint64_t>(std::llround(s.locality * 0x1p32));
  draw.symmetric = s.symmetry == edge_symmetry::symmetric;
  const auto stream = [&](std::uint64_t purpose) {
    return random_bits(mix_bits(request.options.seed), purpose);
  };
  draw.first_stream = stream(0);
  draw.second_stream = stream(1);
  draw.local_stream = stream(2);
  draw.rank_stream = stream(3);
  if (s.longest == longest_row::planted) plant_hub(s, stream(4), draw);
  fill_weights(s, stream(5), plan);
  fill_guide(plan);
  plan.wanted = static_cast<std::uint64_t>(draw.symmetric ? s.edges / 2 : s.edges);
  if (!draw.symmetric && !flat) plan.longest = static_cast<std::uint64_t>(s.max_degree);
  return plan;
}

std::uint64_t first_draws(const synthetic_plan& plan) {
  return plan.wanted + (plan.wanted - plan.draw.planted) / 16;
}

result<std::uint64_t> next_draws(const synthetic_plan& plan, std::uint64_t draws,
                                 std::uint64_t kept) {
  const std::uint64_t missing = plan.wanted - kept;
  const std::uint64_t more = missing + missing / 2 + draws / 64 + 64;
  const bool hopeless =
      draws > 16 * plan.wanted + 65'536 || draws + more > (std::uint64_t{1} << 31);
  if (hopeless) return invalid("synthetic: too few distinct edges for this shape");
  return draws + more;
}

}  // namespace quipu::io_detail
