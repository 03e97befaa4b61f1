// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention in float64, straight from the formulas, with the magnitudes that errors follow.

#include <limits>

#include "support/oracle.hpp"

namespace oracle {

enum class attention { gat, gatv2, transformer };

/// Operands are [rows or columns, heads * dim] without gaps; what a kind has no use for is empty.
struct attention_inputs {
  attention kind = attention::gatv2;
  std::int64_t heads = 1, dim = 1;
  matrix receivers;                       // target or query
  matrix senders;                         // source or key
  matrix values;                          // transformer only: else the senders
  matrix vector;                          // gatv2: [heads, dim]
  matrix receiver_scores, sender_scores;  // gat: [rows or columns, heads]
  matrix bias;                            // transformer: [edges, heads]; no rows: none
  double slope = 0.2, scale = 1;
  matrix kept;  // what dropout multiplies alpha by: [edges, heads]; no rows: none

  double kept_at(std::int64_t edge, std::int64_t head) const {
    return kept.rows > 0 ? kept.at(edge, head) : 1;
  }
};

/// The mask of dropout by its definition: the upper half of number offset + edge * heads + head of
/// the stream of splitmix64 that starts at the finaliser of the seed.
inline matrix dropout_mask(std::int64_t edges, std::int64_t heads, double probability,
                           std::uint64_t seed, std::uint64_t offset) {
  const auto finalise = [](std::uint64_t z) {
    z ^= z >> 30;
    z *= 13787848793156543929ull;
    z ^= z >> 27;
    z *= 10723151780598845931ull;
    return z ^ z >> 31;
  };
  matrix kept(edges, heads);
  std::uint64_t state = finalise(seed) + offset * 11400714819323198485ull;
  for (double& k : kept.values) {
    state += 11400714819323198485ull;
    const auto draw = static_cast<double>(finalise(state) >> 32) / 4294967296.0;
    k = draw < probability ? 0 : 1 / (1 - probability);
  }
  return kept;
}

struct attention_results {
  matrix output, logsumexp;
  matrix alpha;    // before dropout
  matrix applied;  // after it
  // What rounding errors are proportional to: the terms of logits ([edges, heads]), and of outputs.
  matrix logit_magnitude, output_magnitude;
};

inline double leaky(double x, double slope) { return x > 0 ? x : slope * x; }

inline attention_results attend(const graph& g, const attention_inputs& in) {
  const auto edges = static_cast<std::int64_t>(g.indices.size());
  const auto heads = in.heads, dim = in.dim;
  const auto& values = in.kind == attention::transformer ? in.values : in.senders;
  attention_results out{matrix(g.rows, heads * dim), matrix(g.rows, heads),
                        matrix(edges, heads),        matrix(edges, heads),
                        matrix(edges, heads),        matrix(g.rows, heads * dim)};
  matrix logits(edges, heads);
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      double largest = -std::numeric_limits<double>::infinity();
      for (auto k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        const auto j = g.indices[k];
        double logit = 0, magnitude = 0;
        if (in.kind == attention::gat) {
          logit = leaky(in.receiver_scores.at(i, h) + in.sender_scores.at(j, h), in.slope);
          magnitude = std::fabs(in.receiver_scores.at(i, h)) + std::fabs(in.sender_scores.at(j, h));
        }
        for (std::int64_t f = h * dim; f < (h + 1) * dim && in.kind != attention::gat; ++f) {
          const double r = in.receivers.at(i, f), s = in.senders.at(j, f);
          if (in.kind == attention::gatv2) {
            const double a = in.vector.at(h, f - h * dim);
            logit += a * leaky(r + s, in.slope);
            magnitude += std::fabs(a) * (std::fabs(r) + std::fabs(s));
          } else {
            logit += in.scale * r * s;
            magnitude += std::fabs(in.scale * r * s);
          }
        }
        if (in.bias.rows > 0) {
          logit += in.bias.at(k, h);
          magnitude += std::fabs(in.bias.at(k, h));
        }
        logits.at(k, h) = logit;
        out.logit_magnitude.at(k, h) = magnitude;
        largest = std::fmax(largest, logit);
      }
      double total = 0;
      const bool none = std::isinf(largest) && largest < 0;
      for (auto k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        total += out.alpha.at(k, h) = none ? 0 : std::exp(logits.at(k, h) - largest);
      }
      out.logsumexp.at(i, h) = none ? largest : largest + std::log(total);
      for (auto k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        if (!none) out.alpha.at(k, h) /= total;
        out.applied.at(k, h) = out.alpha.at(k, h) * in.kept_at(k, h);
        for (std::int64_t f = h * dim; f < (h + 1) * dim && !none; ++f) {
          const double term = out.applied.at(k, h) * values.at(g.indices[k], f);
          out.output.at(i, f) += term;
          out.output_magnitude.at(i, f) += std::fabs(term);
        }
      }
    }
  }
  return out;
}

/// A gradient, and what its rounding errors are proportional to.
struct gradient {
  matrix value, magnitude;
  gradient(std::int64_t rows, std::int64_t width) : value(rows, width), magnitude(rows, width) {}
  void add(std::int64_t row, std::int64_t f, double term, double size) {
    value.at(row, f) += term;
    magnitude.at(row, f) += size;
  }
};

/// What a kind has no use for stays zero.
struct attention_gradients {
  gradient receivers, senders, values, vector, receiver_scores, sender_scores, bias;
};

/// Gradients of <grad_output, output>. `in_parts`: magnitudes are those of an implementation that
/// makes leaky'(x) of slope and 1 - slope, and ds * leaky(x) of target and source one by one.
inline attention_gradients attention_backward(const graph& g, const attention_inputs& in,
                                              const matrix& grad_output, bool in_parts = false) {
  const auto forward = attend(g, in);
  const auto edges = static_cast<std::int64_t>(g.indices.size());
  const auto heads = in.heads, dim = in.dim, width = heads * dim;
  const auto& values = in.kind == attention::transformer ? in.values : in.senders;
  attention_gradients out{{g.rows, width}, {g.columns, width}, {g.columns, width}, {heads, dim},
                          {g.rows, heads}, {g.columns, heads}, {edges, heads}};
  // An edge's ds, with how far off it may be in units of rounding; w is the weight of grad_output.
  const auto add_edge = [&](std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t h,
                            double ds, double off, double w) {
    if (in.kind == attention::gat) {
      const double x = in.receiver_scores.at(i, h) + in.sender_scores.at(j, h);
      const double slope = x > 0 ? 1 : in.slope;
      out.receiver_scores.add(i, h, ds * slope, off * std::fabs(slope));
      out.sender_scores.add(j, h, ds * slope, off * std::fabs(slope));
    }
    out.bias.add(k, h, ds, off);
    for (std::int64_t f = h * dim; f < (h + 1) * dim; ++f) {
      const double r = in.receivers.at(i, f), s = in.senders.at(j, f);
      const double sent = w * grad_output.at(i, f);
      if (in.kind == attention::transformer) {
        out.receivers.add(i, f, in.scale * ds * s, std::fabs(in.scale * off * s));
        out.senders.add(j, f, in.scale * ds * r, std::fabs(in.scale * off * r));
        out.values.add(j, f, sent, std::fabs(sent));
        continue;
      }
      out.senders.add(j, f, sent, std::fabs(sent));
      if (in.kind == attention::gat) continue;
      const double slope = r + s > 0 ? 1 : in.slope, a = in.vector.at(h, f - h * dim);
      const double parts = std::fabs(in.slope) + (r + s > 0 ? std::fabs(1 - in.slope) : 0);
      const double size = off * (in_parts ? parts : std::fabs(slope));
      const double x = in_parts ? std::fabs(r) + std::fabs(s) : std::fabs(r + s);
      out.receivers.add(i, f, ds * a * slope, size * std::fabs(a));
      out.senders.add(j, f, ds * a * slope, size * std::fabs(a));
      out.vector.add(h, f - h * dim, ds * slope * (r + s), size * x);
    }
  };
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      double lowered_by = 0, lowered_magnitude = 0;
      for (std::int64_t f = h * dim; f < (h + 1) * dim; ++f) {
        lowered_by += grad_output.at(i, f) * forward.output.at(i, f);
        lowered_magnitude += std::fabs(grad_output.at(i, f)) * forward.output_magnitude.at(i, f);
      }
      for (auto k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        const auto j = g.indices[k];
        const double alpha = forward.alpha.at(k, h), kept = in.kept_at(k, h);
        if (alpha == 0) continue;
        double product = 0, magnitude = lowered_magnitude;
        for (std::int64_t f = h * dim; f < (h + 1) * dim; ++f) {
          product += grad_output.at(i, f) * values.at(j, f);
          magnitude += kept * std::fabs(grad_output.at(i, f) * values.at(j, f));
        }
        add_edge(i, j, k, h, alpha * (kept * product - lowered_by), alpha * magnitude,
                 forward.applied.at(k, h));
      }
    }
  }
  return out;
}

}  // namespace oracle
