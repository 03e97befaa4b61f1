// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cusparse.h>

#include <cstdint>
#include <vector>

#include "quipu/core/buffer.hpp"
#include "quipu/graph/graph.hpp"

namespace bench {

/// cuSPARSE's product with a graph of ones, fp32, used as its manual says: handle, descriptors and
/// scratch kept, preprocessed. It shares no code with the library's plans.
class cusparse_baseline {
 public:
  using graph_type = quipu::graph_view<std::int32_t, std::int32_t>;

  cusparse_baseline(const quipu::context& ctx, const graph_type& g, int features, const float* x,
                    float* y, cusparseSpMMAlg_t algorithm,
                    cusparseOperation_t op = CUSPARSE_OPERATION_NON_TRANSPOSE)
      : op_(op), algorithm_(algorithm) {
    const bool turned = op == CUSPARSE_OPERATION_TRANSPOSE;
    ones_ = quipu::check(
        quipu::to_device(ctx, std::vector<float>(static_cast<std::size_t>(g.edges()), 1.0f)));
    cusparseCreate(&handle_);
    cusparseSetStream(handle_, ctx.stream);
    cusparseCreateConstCsr(&a_, g.rows(), g.columns(), g.edges(), g.forward.csr.offsets,
                           g.forward.csr.indices, ones_.data(), CUSPARSE_INDEX_32I,
                           CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F);
    cusparseCreateConstDnMat(&x_, turned ? g.rows() : g.columns(), features, features, x,
                             CUDA_R_32F, CUSPARSE_ORDER_ROW);
    cusparseCreateDnMat(&y_, turned ? g.columns() : g.rows(), features, features, y, CUDA_R_32F,
                        CUSPARSE_ORDER_ROW);
    std::size_t bytes = 0;
    cusparseSpMM_bufferSize(handle_, op_, plain, &one, a_, x_, &zero, y_, CUDA_R_32F, algorithm_,
                            &bytes);
    scratch_ =
        quipu::check(quipu::make_device_buffer<char>(ctx, static_cast<std::int64_t>(bytes) + 256));
    cusparseSpMM_preprocess(handle_, op_, plain, &one, a_, x_, &zero, y_, CUDA_R_32F, algorithm_,
                            scratch_.data());
  }
  ~cusparse_baseline() {
    cusparseDestroyDnMat(x_);
    cusparseDestroyDnMat(y_);
    cusparseDestroySpMat(a_);
    cusparseDestroy(handle_);
  }
  cusparse_baseline(const cusparse_baseline&) = delete;
  cusparse_baseline& operator=(const cusparse_baseline&) = delete;

  bool run() {
    return cusparseSpMM(handle_, op_, plain, &one, a_, x_, &zero, y_, CUDA_R_32F, algorithm_,
                        scratch_.data()) == CUSPARSE_STATUS_SUCCESS;
  }

 private:
  static constexpr auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
  static constexpr float one = 1.0f, zero = 0.0f;

  cusparseOperation_t op_;
  cusparseSpMMAlg_t algorithm_;
  quipu::buffer<float> ones_;
  cusparseHandle_t handle_ = nullptr;
  cusparseConstSpMatDescr_t a_ = nullptr;
  cusparseConstDnMatDescr_t x_ = nullptr;
  cusparseDnMatDescr_t y_ = nullptr;
  quipu::buffer<char> scratch_;
};

}  // namespace bench
