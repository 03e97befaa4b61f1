// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "load_graph.hpp"

namespace quipu::cli {

/// Reads what scipy.sparse.save_npz wrote for a CSR matrix. Such a file always has values; when all
/// are 1 the graph counts as unweighted.
edge_source read_scipy_npz(const std::filesystem::path& path);

/// Writes compressed rows so that scipy.sparse.load_npz reads them. `path` is where the bytes go,
/// `name` what messages call it.
void write_scipy_npz(const std::filesystem::path& path, const std::string& name,
                     const edge_source& rows);

/// Reads a folder with indptr.npy, indices.npy and, if there, data.npy (weights) and shape.npy
/// ([rows, columns]); without it the graph is square.
edge_source read_npy_folder(const std::filesystem::path& path);

}  // namespace quipu::cli
