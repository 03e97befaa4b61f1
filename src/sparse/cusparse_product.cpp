// SPDX-License-Identifier: Apache-2.0
#include "sparse/cusparse_product.hpp"

#include <algorithm>

namespace quipu::detail {

namespace {

constexpr auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr auto compute = CUDA_R_32F;

cudaDataType data_type(element_kind kind) {
  switch (kind) {
    case element_kind::f16:
      return CUDA_R_16F;
    case element_kind::bf16:
      return CUDA_R_16BF;
    case element_kind::f64:
      return CUDA_R_64F;
    case element_kind::f32:
      break;
  }
  return CUDA_R_32F;
}

cusparseSpMMAlg_t algorithm_of(cusparse_algorithm a) {
  switch (a) {
    case cusparse_algorithm::csr1:
      return CUSPARSE_SPMM_CSR_ALG1;
    case cusparse_algorithm::csr2:
      return CUSPARSE_SPMM_CSR_ALG2;
    case cusparse_algorithm::automatic:
    case cusparse_algorithm::csr3:
      break;
  }
  return CUSPARSE_SPMM_CSR_ALG3;
}

/// cuSPARSE refuses more edges than rows * columns, which parallel edges can bring. The columns
/// that are claimed beyond the real ones are named by no edge, so nothing is read there.
std::int64_t claimed_columns(const sparse_operand& m) {
  return m.rows == 0 ? m.columns : std::max(m.columns, (m.edges + m.rows - 1) / m.rows);
}

status make_dense(cusparse_matrix& out, std::int64_t rows, std::int64_t features,
                  const dense_operand& at, element_kind element) {
  cusparse_matrix made;
  const auto code =
      cusparseCreateDnMat(made.receive(), rows, features, std::max(at.row_stride, features),
                          const_cast<void*>(at.data), data_type(element), CUSPARSE_ORDER_ROW);
  if (code != CUSPARSE_STATUS_SUCCESS) return from_cusparse(code, "cuSPARSE: dense matrix");
  out = std::move(made);
  return success();
}

}  // namespace

status from_cusparse(cusparseStatus_t code, const char* what) noexcept {
  status s =
      failure(code == CUSPARSE_STATUS_ALLOC_FAILED || code == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES
                  ? status_code::out_of_memory
                  : status_code::cusparse_error,
              what);
  if (s.code == status_code::cusparse_error) s.native = static_cast<std::int32_t>(code);
  return s;
}

result<cusparse_product> cusparse_product::make(const context& ctx, const sparse_operand& matrix,
                                                std::int64_t features, cusparse_algorithm algorithm,
                                                const dense_operand& input,
                                                const dense_operand& output) {
  cusparse_product p;
  p.matrix_ = matrix;
  p.features_ = features;
  p.algorithm_ = algorithm_of(algorithm);
  if (auto c = cusparseCreate(p.handle_.receive()); c != CUSPARSE_STATUS_SUCCESS) {
    return from_cusparse(c, "cuSPARSE: handle");
  }
  const auto ids = matrix.id_bits == 32 ? CUSPARSE_INDEX_32I : CUSPARSE_INDEX_64I;
  if (auto c =
          cusparseCreateConstCsr(p.rows_.receive(), matrix.rows, claimed_columns(matrix),
                                 matrix.edges, matrix.offsets, matrix.indices, matrix.values, ids,
                                 ids, CUSPARSE_INDEX_BASE_ZERO, data_type(matrix.element));
      c != CUSPARSE_STATUS_SUCCESS) {
    return from_cusparse(c, "cuSPARSE: sparse matrix");
  }
  if (auto s = p.set_stream(ctx); !s.ok()) return s;
  if (auto s = p.set_dense(input, output); !s.ok()) return s;
  const float one = 1.0f, zero = 0.0f;
  std::size_t bytes = 0;
  if (auto c = cusparseSpMM_bufferSize(p.handle_.get(), plain, plain, &one, p.rows_.get(),
                                       p.input_.get(), &zero, p.output_.get(), compute,
                                       p.algorithm_, &bytes);
      c != CUSPARSE_STATUS_SUCCESS) {
    return from_cusparse(c, "cuSPARSE: scratch size");
  }
  auto scratch = make_device_buffer<std::byte>(
      ctx, static_cast<std::int64_t>(std::max<std::size_t>(bytes, 16)));
  if (!scratch) return scratch.error();
  p.scratch_ = *std::move(scratch);
  if (auto s = p.refresh(ctx); !s.ok()) return s;
  return result<cusparse_product>(std::move(p));
}

status cusparse_product::refresh(const context& ctx) {
  // Preprocessing for csr3 writes out of bounds and loses rows where a row is much longer than the
  // others (CUDA 13.0: rows of 0 and 3001 edges; docs/performance.md). Without it csr3 is right.
  if (algorithm_ == CUSPARSE_SPMM_CSR_ALG3) return success();
  if (auto s = set_stream(ctx); !s.ok()) return s;
  const float one = 1.0f, zero = 0.0f;
  const auto c =
      cusparseSpMM_preprocess(handle_.get(), plain, plain, &one, rows_.get(), input_.get(), &zero,
                              output_.get(), compute, algorithm_, scratch_.data());
  return c == CUSPARSE_STATUS_SUCCESS ? success() : from_cusparse(c, "cuSPARSE: preprocessing");
}

status cusparse_product::run(const context& ctx, const dense_operand& input,
                             const dense_operand& output, float alpha, float beta) {
  if (auto s = set_stream(ctx); !s.ok()) return s;
  if (auto s = set_dense(input, output); !s.ok()) return s;
  const auto c = cusparseSpMM(handle_.get(), plain, plain, &alpha, rows_.get(), input_.get(), &beta,
                              output_.get(), compute, algorithm_, scratch_.data());
  return c == CUSPARSE_STATUS_SUCCESS ? success() : from_cusparse(c, "cuSPARSE: product");
}

status cusparse_product::set_stream(const context& ctx) {
  if (stream_ == ctx.stream) return success();
  const auto c = cusparseSetStream(handle_.get(), ctx.stream);
  if (c != CUSPARSE_STATUS_SUCCESS) return from_cusparse(c, "cuSPARSE: stream");
  stream_ = ctx.stream;
  return success();
}

status cusparse_product::set_dense(const dense_operand& input, const dense_operand& output) {
  const auto set = [&](cusparse_matrix& m, dense_operand& at, const dense_operand& wanted,
                       std::int64_t rows) -> status {
    if (m.get() == nullptr || at.row_stride != wanted.row_stride) {
      if (auto s = make_dense(m, rows, features_, wanted, matrix_.element); !s.ok()) return s;
    } else if (at.data != wanted.data) {
      const auto c = cusparseDnMatSetValues(m.get(), const_cast<void*>(wanted.data));
      if (c != CUSPARSE_STATUS_SUCCESS) return from_cusparse(c, "cuSPARSE: dense pointer");
    }
    at = wanted;
    return success();
  };
  if (auto s = set(input_, input_at_, input, claimed_columns(matrix_)); !s.ok()) return s;
  return set(output_, output_at_, output, matrix_.rows);
}

}  // namespace quipu::detail
