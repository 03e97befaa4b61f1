// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "quipu/io/npy.hpp"
#include "quipu/io/packed_file.hpp"
#include "quipu/pack/table.hpp"

// Arrays of .npy files as tables, and what a packed file has to remember of them.
namespace quipu::cli {

/// An array whose first axis are rows and whose other axes make one row.
struct table_array {
  npy_array array;
  number_format format = number_format::bits;

  table_view view() const;
  std::string element() const;
};

/// A file, or numbers that are drawn. Throws bad_input for an array without axes, and where `as`
/// does not suit its type.
table_array read_table(const table_argument& argument);

/// "f32", "f16", "bf16", or "16 bits".
std::string element_name(number_format format, std::int32_t element_bytes);

/// "sparse", or "exponent, 3 bits".
std::string codec_text(const packing& how);

/// Type and shape of an array.
struct array_shape {
  npy_kind kind = npy_kind::f4;
  std::vector<std::int64_t> shape;
};

/// A note for a packed file: {"npy":"f4","shape":[3,4]}.
std::string note_of(const npy_array& array);

/// What a packed file was made of: by its note, or if that speaks of no array, [rows, width] of the
/// type that suits. Throws bad_input where the note contradicts the packing.
array_shape shape_of(const std::string& path, const packed_file& file);

/// An array with so many rows, all zeros. Throws bad_input where it is more than this machine's
/// memory holds: a small file can stand for a large array.
npy_array make_array(const std::string& path, array_shape like, std::int64_t rows);

/// Where the rows of such an array go.
mutable_table_view view_of(npy_array& array, const packing& how);

}  // namespace quipu::cli
