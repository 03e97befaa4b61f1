// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the graph library leaves to others, on the host in plain loops and on a GPU by cuBLAS and a
// few kernels: one face for both, so that the model is written once.

#include <cublas_v2.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "quipu/core/buffer.hpp"
#include "quipu/core/context.hpp"

namespace gatv2 {

#ifdef __CUDACC__
#define GATV2_HD __host__ __device__
#else
#define GATV2_HD
#endif

GATV2_HD inline float elu(float x) { return x > 0 ? x : expm1f(x); }
/// By its result: elu'(x) = elu(x) + 1 below 0.
GATV2_HD inline float elu_slope(float y) { return y > 0 ? 1.0f : y + 1; }

/// Cross entropy of one row of logits, its gradient over `rows`; returns the loss.
GATV2_HD inline float cross_entropy(const float* logits, std::int32_t label, std::int64_t classes,
                                    std::int64_t rows, float* grad) {
  float most = logits[0], total = 0;
  for (std::int64_t c = 1; c < classes; ++c) most = logits[c] > most ? logits[c] : most;
  for (std::int64_t c = 0; c < classes; ++c) total += expf(logits[c] - most);
  for (std::int64_t c = 0; c < classes; ++c) {
    grad[c] =
        (expf(logits[c] - most) / total - (c == label ? 1.0f : 0.0f)) / static_cast<float>(rows);
  }
  return most + logf(total) - logits[label];
}

class host_machine {
 public:
  using executor = quipu::host_context;
  explicit host_machine(executor ctx) : ctx_(ctx) {}
  const executor& ctx() const { return ctx_; }

  template <class T>
  quipu::buffer<T> place(const std::vector<T>& values) const {
    auto b = quipu::check(quipu::make_host_buffer<T>(static_cast<std::int64_t>(values.size())));
    std::copy(values.begin(), values.end(), b.data());
    return b;
  }
  quipu::buffer<float> room(std::int64_t count) const {
    return place(std::vector<float>(static_cast<std::size_t>(count)));
  }
  template <class Args>
  quipu::buffer<char> scratch(const Args&) const {
    return {};
  }

  /// out [rows, width] = a b + factor * out; a is [rows, inner] or, transposed, [inner, rows].
  void multiply(const float* a, bool transpose_a, const float* b, bool transpose_b,
                std::int64_t rows, std::int64_t inner, std::int64_t width, float factor,
                float* out) const {
    for (std::int64_t k = 0; k < rows * width; ++k) out[k] = factor == 0 ? 0 : factor * out[k];
    for (std::int64_t o = 0; o < (transpose_a ? inner : rows); ++o) {
      for (std::int64_t i = 0; i < (transpose_a ? rows : inner); ++i) {
        const float f = a[o * (transpose_a ? rows : inner) + i];
        if (f == 0) continue;  // words are rare
        const std::int64_t r = transpose_a ? i : o, k = transpose_a ? o : i;
        for (std::int64_t j = 0; j < width; ++j) {
          out[r * width + j] += f * (transpose_b ? b[j * inner + k] : b[k * width + j]);
        }
      }
    }
  }
  template <class Change>
  void for_each(std::int64_t count, const Change& change) const {
    for (std::int64_t k = 0; k < count; ++k) change(k);
  }
  double sum(const quipu::buffer<float>& values) const {
    double total = 0;
    for (std::int64_t k = 0; k < values.size(); ++k) total += static_cast<double>(values.data()[k]);
    return total;
  }

 private:
  executor ctx_;
};

#ifdef __CUDACC__
template <class Change>
__global__ void for_each_kernel(std::int64_t count, const Change change) {
  const auto k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k < count) change(k);
}

class device_machine {
 public:
  using executor = quipu::context;
  explicit device_machine(const executor& ctx) : ctx_(ctx) {
    cublasCreate(&blas_);
    cublasSetStream(blas_, ctx.stream);
  }
  ~device_machine() { cublasDestroy(blas_); }
  device_machine(const device_machine&) = delete;
  device_machine& operator=(const device_machine&) = delete;
  const executor& ctx() const { return ctx_; }

  template <class T>
  quipu::buffer<T> place(const std::vector<T>& values) const {
    return quipu::check(quipu::to_device(ctx_, values));
  }
  quipu::buffer<float> room(std::int64_t count) const {
    return place(std::vector<float>(static_cast<std::size_t>(count)));
  }
  template <class Args>
  quipu::buffer<char> scratch(const Args& a) const {
    return quipu::check(
        quipu::make_device_buffer<char>(ctx_, static_cast<std::int64_t>(workspace_bytes(ctx_, a))));
  }

  /// cuBLAS sees everything transposed.
  void multiply(const float* a, bool transpose_a, const float* b, bool transpose_b,
                std::int64_t rows, std::int64_t inner, std::int64_t width, float factor,
                float* out) const {
    const float one = 1;
    const auto m = static_cast<int>(width), n = static_cast<int>(rows), k = static_cast<int>(inner);
    cublasSgemm(blas_, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &one, b, transpose_b ? k : m, a,
                transpose_a ? n : k, &factor, out, m);
  }
  template <class Change>
  void for_each(std::int64_t count, const Change& change) const {
    for_each_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, ctx_.stream>>>(count,
                                                                                         change);
  }
  double sum(const quipu::buffer<float>& values) const {
    double total = 0;
    for (const float v : quipu::check(quipu::to_host(ctx_, values)))
      total += static_cast<double>(v);
    return total;
  }

 private:
  executor ctx_;
  cublasHandle_t blas_ = nullptr;
};
#endif

}  // namespace gatv2
