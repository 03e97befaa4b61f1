// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cusparse.h>

#include <cstddef>
#include <utility>

#include "quipu/core/buffer.hpp"
#include "quipu/core/element.hpp"
#include "quipu/sparse/cost_model.hpp"

namespace quipu::detail {

/// Turns cuSPARSE's code into a status. Never called with success as a failure's reason.
status from_cusparse(cusparseStatus_t code, const char* what) noexcept;

/// Owns one cuSPARSE object.
template <class Object, auto Destroy>
class cusparse_object {
 public:
  cusparse_object() = default;
  cusparse_object(cusparse_object&& o) noexcept : object_(std::exchange(o.object_, nullptr)) {}
  cusparse_object& operator=(cusparse_object&& o) noexcept {
    std::swap(object_, o.object_);
    return *this;
  }
  ~cusparse_object() {
    if (object_ != nullptr) (void)Destroy(object_);
  }
  Object get() const noexcept { return object_; }
  Object* receive() noexcept { return &object_; }

 private:
  Object object_ = nullptr;
};
using cusparse_handle = cusparse_object<cusparseHandle_t, cusparseDestroy>;
using cusparse_rows = cusparse_object<cusparseConstSpMatDescr_t, cusparseDestroySpMat>;
using cusparse_matrix = cusparse_object<cusparseDnMatDescr_t, cusparseDestroyDnMat>;

/// A sparse matrix as cuSPARSE takes it: ids and offsets of one size.
struct sparse_operand {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t edges = 0;
  const void* offsets = nullptr;
  const void* indices = nullptr;
  const void* values = nullptr;  // [edges] of the element type
  int id_bits = 32;
  element_kind element = element_kind::f32;
};

/// One dense operand of a call.
struct dense_operand {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
};

/// Y = alpha A X + beta Y by cuSPARSE, row-major, with all that can be kept between calls.
class cusparse_product {
 public:
  /// Queries the scratch size, allocates it and preprocesses on the context's stream.
  static result<cusparse_product> make(const context&, const sparse_operand&, std::int64_t features,
                                       cusparse_algorithm, const dense_operand& input,
                                       const dense_operand& output);
  /// Looks at the values anew after they have changed in place.
  status refresh(const context&);
  /// Enqueues. Only the dense pointers and strides may differ from those of `make`.
  status run(const context&, const dense_operand& input, const dense_operand& output, float alpha,
             float beta);
  std::size_t bytes() const noexcept { return scratch_.bytes(); }

 private:
  status set_stream(const context&);
  status set_dense(const dense_operand& input, const dense_operand& output);

  sparse_operand matrix_;
  std::int64_t features_ = 0;
  cusparseSpMMAlg_t algorithm_ = CUSPARSE_SPMM_CSR_ALG3;
  cusparse_handle handle_;
  cusparse_rows rows_;
  cusparse_matrix input_, output_;
  dense_operand input_at_, output_at_;
  cudaStream_t stream_ = nullptr;
  buffer<std::byte> scratch_;
};

}  // namespace quipu::detail
