// SPDX-License-Identifier: Apache-2.0
#pragma once

// The truth that tests compare with: float64, straight from the formulas, one loop each. It
// includes nothing of the library, so that it cannot share its mistakes.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oracle {

struct graph {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> indices;
  std::vector<double> weights;  // empty: 1

  double weight(std::int64_t k) const { return weights.empty() ? 1.0 : weights[k]; }
};

/// Row-major [rows, width].
struct matrix {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::vector<double> values;

  matrix() = default;
  matrix(std::int64_t r, std::int64_t w, double fill = 0.0)
      : rows(r), width(w), values(static_cast<std::size_t>(r * w), fill) {}
  double& at(std::int64_t r, std::int64_t f) { return values[r * width + f]; }
  double at(std::int64_t r, std::int64_t f) const { return values[r * width + f]; }
};

inline matrix sum(const graph& g, const matrix& x) {
  matrix y(g.rows, x.width);
  for (std::int64_t i = 0; i < g.rows; ++i)
    for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k)
      for (std::int64_t f = 0; f < x.width; ++f) y.at(i, f) += g.weight(k) * x.at(g.indices[k], f);
  return y;
}

/// Sum of magnitudes: what rounding errors of a sum are proportional to.
inline matrix sum_of_magnitudes(const graph& g, const matrix& x) {
  matrix y(g.rows, x.width);
  for (std::int64_t i = 0; i < g.rows; ++i)
    for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k)
      for (std::int64_t f = 0; f < x.width; ++f)
        y.at(i, f) += std::fabs(g.weight(k) * x.at(g.indices[k], f));
  return y;
}

inline matrix mean(const graph& g, const matrix& x) {
  matrix y = sum(g, x);
  for (std::int64_t i = 0; i < g.rows; ++i) {
    const double degree = static_cast<double>(g.offsets[i + 1] - g.offsets[i]);
    if (degree == 0) continue;
    for (std::int64_t f = 0; f < x.width; ++f) y.at(i, f) /= degree;
  }
  return y;
}

inline matrix squares(const graph& g, matrix x) {
  for (double& v : x.values) v *= v;
  graph plain = g;
  plain.weights.clear();
  return sum(plain, x);
}

struct winners {
  matrix value;
  std::vector<std::int64_t> edge;  // [rows * width], -1 for none
};

/// sign +1: max, -1: min. First of equals; first NaN before all; empty rows 0 and -1.
inline winners extremum(const graph& g, const matrix& x, int sign) {
  winners w{matrix(g.rows, x.width), std::vector<std::int64_t>(g.rows * x.width, -1)};
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t f = 0; f < x.width; ++f) {
      std::int64_t best = -1;
      for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        const double v = x.at(g.indices[k], f);
        if (best < 0) {
          best = k;
          continue;
        }
        const double b = x.at(g.indices[best], f);
        if (std::isnan(b)) break;
        if (std::isnan(v) || (sign > 0 ? v > b : v < b)) best = k;
      }
      w.edge[i * x.width + f] = best;
      if (best >= 0) w.value.at(i, f) = x.at(g.indices[best], f);
    }
  }
  return w;
}

inline matrix sum_backward(const graph& g, const matrix& dy) {
  matrix dx(g.columns, dy.width);
  for (std::int64_t i = 0; i < g.rows; ++i)
    for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k)
      for (std::int64_t f = 0; f < dy.width; ++f)
        dx.at(g.indices[k], f) += g.weight(k) * dy.at(i, f);
  return dx;
}

inline matrix mean_backward(const graph& g, matrix dy) {
  for (std::int64_t i = 0; i < g.rows; ++i) {
    const double degree = static_cast<double>(g.offsets[i + 1] - g.offsets[i]);
    for (std::int64_t f = 0; f < dy.width && degree > 0; ++f) dy.at(i, f) /= degree;
  }
  return sum_backward(g, dy);
}

inline matrix extremum_backward(const graph& g, const winners& w, const matrix& dy) {
  matrix dx(g.columns, dy.width);
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t f = 0; f < dy.width; ++f) {
      const auto k = w.edge[i * dy.width + f];
      if (k >= 0) dx.at(g.indices[k], f) += dy.at(i, f);
    }
  }
  return dx;
}

inline matrix squares_backward(const graph& g, const matrix& x, const matrix& dy) {
  graph plain = g;
  plain.weights.clear();
  matrix dx = sum_backward(plain, dy);
  std::vector<bool> sends(static_cast<std::size_t>(g.columns), false);
  for (const auto j : g.indices) sends[static_cast<std::size_t>(j)] = true;
  for (std::int64_t j = 0; j < g.columns; ++j)
    for (std::int64_t f = 0; f < dx.width; ++f)
      dx.at(j, f) = sends[static_cast<std::size_t>(j)] ? dx.at(j, f) * 2.0 * x.at(j, f) : 0.0;
  return dx;
}

enum class normalisation { none, mean, walk, symmetric };

/// Coefficient of each edge: weight over what the normalisation divides by.
inline std::vector<double> coefficients(const graph& g, normalisation n) {
  std::vector<double> out(static_cast<std::size_t>(g.columns), 0.0), c(g.indices.size());
  for (const auto j : g.indices) ++out[static_cast<std::size_t>(j)];
  for (std::int64_t i = 0; i < g.rows; ++i) {
    const double in = static_cast<double>(g.offsets[i + 1] - g.offsets[i]);
    for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
      const double sent = out[static_cast<std::size_t>(g.indices[k])];
      const double divisor = n == normalisation::mean        ? in
                             : n == normalisation::walk      ? sent
                             : n == normalisation::symmetric ? std::sqrt(in * sent)
                                                             : 1.0;
      c[k] = g.weight(k) / divisor;
    }
  }
  return c;
}

/// alpha N(A) X + beta Y.
inline matrix product(const graph& g, const std::vector<double>& c, const matrix& x, double alpha,
                      double beta, const matrix& y0) {
  matrix y(g.rows, x.width);
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t f = 0; f < x.width; ++f) {
      double sum = 0;
      for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k) {
        sum += c[k] * x.at(g.indices[k], f);
      }
      y.at(i, f) = alpha * sum + (beta == 0 ? 0.0 : beta * y0.at(i, f));
    }
  }
  return y;
}

/// alpha N(A)^T dY + beta dX.
inline matrix product_backward(const graph& g, const std::vector<double>& c, const matrix& dy,
                               double alpha, double beta, const matrix& dx0) {
  matrix dx(g.columns, dy.width);
  for (std::int64_t i = 0; i < g.rows; ++i)
    for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k)
      for (std::int64_t f = 0; f < dy.width; ++f)
        dx.at(g.indices[k], f) += alpha * c[k] * dy.at(i, f);
  for (std::size_t k = 0; k < dx.values.size() && beta != 0; ++k) {
    dx.values[k] += beta * dx0.values[k];
  }
  return dx;
}

/// One dot product an edge, times its coefficient.
inline std::vector<double> sampled(const graph& g, const std::vector<double>& c, const matrix& left,
                                   const matrix& right) {
  std::vector<double> d(g.indices.size());
  for (std::int64_t i = 0; i < g.rows; ++i)
    for (std::int64_t k = g.offsets[i]; k < g.offsets[i + 1]; ++k)
      for (std::int64_t f = 0; f < left.width; ++f)
        d[k] += c[k] * left.at(i, f) * right.at(g.indices[k], f);
  return d;
}

}  // namespace oracle
