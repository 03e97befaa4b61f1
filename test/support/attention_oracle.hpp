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
};

struct attention_results {
  matrix output, logsumexp, alpha;
  // What rounding errors are proportional to: the terms of logits ([edges, heads]), and of outputs.
  matrix logit_magnitude, output_magnitude;
};

inline double leaky(double x, double slope) { return x > 0 ? x : slope * x; }

inline attention_results attend(const graph& g, const attention_inputs& in) {
  const auto edges = static_cast<std::int64_t>(g.indices.size());
  const auto heads = in.heads, dim = in.dim;
  const auto& values = in.kind == attention::transformer ? in.values : in.senders;
  attention_results out{matrix(g.rows, heads * dim), matrix(g.rows, heads), matrix(edges, heads),
                        matrix(edges, heads), matrix(g.rows, heads * dim)};
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
        for (std::int64_t f = h * dim; f < (h + 1) * dim && !none; ++f) {
          const double term = out.alpha.at(k, h) * values.at(g.indices[k], f);
          out.output.at(i, f) += term;
          out.output_magnitude.at(i, f) += std::fabs(term);
        }
      }
    }
  }
  return out;
}

struct attention_gradients {
  matrix receivers, senders, values, bias;
  // What rounding errors are proportional to.
  matrix receivers_magnitude, senders_magnitude, values_magnitude, bias_magnitude;
};

/// Gradients of <grad_output, output> of the transformer.
inline attention_gradients transformer_gradients(const graph& g, const attention_inputs& in,
                                                 const matrix& grad_output) {
  const auto forward = attend(g, in);
  const auto edges = static_cast<std::int64_t>(g.indices.size());
  const auto width = in.heads * in.dim;
  attention_gradients out{matrix(g.rows, width),    matrix(g.columns, width),
                          matrix(g.columns, width), matrix(edges, in.heads),
                          matrix(g.rows, width),    matrix(g.columns, width),
                          matrix(g.columns, width), matrix(edges, in.heads)};
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t h = 0; h < in.heads; ++h) {
      double lowered_by = 0, lowered_magnitude = 0;
      for (std::int64_t f = h * in.dim; f < (h + 1) * in.dim; ++f) {
        lowered_by += grad_output.at(i, f) * forward.output.at(i, f);
        lowered_magnitude += std::fabs(grad_output.at(i, f)) * forward.output_magnitude.at(i, f);
      }
      for (auto k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        const auto j = g.indices[k];
        const double alpha = forward.alpha.at(k, h);
        if (alpha == 0) continue;
        double product = 0, magnitude = lowered_magnitude;
        for (std::int64_t f = h * in.dim; f < (h + 1) * in.dim; ++f) {
          product += grad_output.at(i, f) * in.values.at(j, f);
          magnitude += std::fabs(grad_output.at(i, f) * in.values.at(j, f));
        }
        const double ds = alpha * (product - lowered_by);
        out.bias.at(k, h) = ds;
        out.bias_magnitude.at(k, h) = alpha * magnitude;
        for (std::int64_t f = h * in.dim; f < (h + 1) * in.dim; ++f) {
          out.receivers.at(i, f) += in.scale * ds * in.senders.at(j, f);
          out.senders.at(j, f) += in.scale * ds * in.receivers.at(i, f);
          out.values.at(j, f) += alpha * grad_output.at(i, f);
          const double off = std::fabs(in.scale) * alpha * magnitude;
          out.receivers_magnitude.at(i, f) += off * std::fabs(in.senders.at(j, f));
          out.senders_magnitude.at(j, f) += off * std::fabs(in.receivers.at(i, f));
          out.values_magnitude.at(j, f) += alpha * std::fabs(grad_output.at(i, f));
        }
      }
    }
  }
  return out;
}

}  // namespace oracle
