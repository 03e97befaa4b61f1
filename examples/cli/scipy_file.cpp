// SPDX-License-Identifier: Apache-2.0
#include "scipy_file.hpp"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "quipu/io/npy.hpp"

namespace quipu::cli {
namespace {

struct zip_closer {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct member_closer {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using zip_archive = std::unique_ptr<zip_t, zip_closer>;

zip_archive open_zip(const std::filesystem::path& path, int flags, const std::string& name) {
  int code = 0;
  zip_archive archive(zip_open(path.c_str(), flags, &code));
  if (archive) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string text = name + ": " + zip_error_strerror(&error);
  zip_error_fini(&error);
  throw bad_input(text);
}

// Grows with what is really there; the size that the archive announces is not trusted.
std::vector<std::byte> read_member(zip_t* archive, const std::string& name, const char* member) {
  const std::unique_ptr<zip_file_t, member_closer> file(zip_fopen(archive, member, 0));
  if (!file) throw bad_input(name + ": holds no " + member + "; is it a scipy CSR matrix?");
  std::vector<std::byte> bytes;
  constexpr std::size_t step = 1 << 20;
  for (;;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + step);
    const auto got = zip_fread(file.get(), bytes.data() + size, step);
    if (got < 0) throw bad_input(name + ": " + member + " is damaged");
    bytes.resize(size + static_cast<std::size_t>(got));
    if (got == 0) return bytes;
  }
}

std::string place_in(const std::string& name, const char* member) {
  return name + "(" + member + ")";
}

template <class T>
std::vector<T> numbers(const std::string& name, const npy_array& array) {
  if (array.shape.size() != 1) throw bad_input(name + ": is not a vector");
  return require(name, npy_as<T>(array));
}

npy_array member_array(zip_t* archive, const std::string& name, const char* member) {
  return require(place_in(name, member), parse_npy(read_member(archive, name, member)));
}

std::vector<std::int64_t> member_ids(zip_t* archive, const std::string& name, const char* member) {
  return numbers<std::int64_t>(place_in(name, member), member_array(archive, name, member));
}

// fp32 holds every weight of the graph; what only fp64 can hold is refused by its edge.
std::vector<float> weights(const std::string& name, const std::string& where,
                           const npy_array& array) {
  if (array.shape.size() != 1) throw bad_input(where + ": is not a vector");
  auto values = npy_as<float>(array);
  if (values.error().code == status_code::out_of_range) {
    refuse_weight(name, values.error().position);
  }
  return require(where, std::move(values));
}

// The format is a NumPy string of one or four bytes a letter, which `parse_npy` does not offer.
void require_csr(zip_t* archive, const std::string& name) {
  std::string letters;
  for (const auto byte : read_member(archive, name, "format.npy")) {
    if (byte != std::byte{0}) letters += static_cast<char>(byte);
  }
  if (!letters.ends_with("csr")) throw bad_input(name + ": the matrix is not in CSR format");
}

void finish(edge_source& s) {
  if (s.offsets.empty()) throw bad_input(s.name + ": indptr is empty");
  s.edges = static_cast<std::int64_t>(s.column.size());
  if (static_cast<std::int64_t>(s.offsets.size()) != s.rows + 1) {
    throw bad_input(s.name + ": indptr does not have rows + 1 entries");
  }
  if (!s.weights.empty() && s.weights.size() != s.column.size()) {
    throw bad_input(s.name + ": data and indices differ in length");
  }
}

void set_shape(edge_source& s, const std::vector<std::int64_t>& shape) {
  if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0) {
    throw bad_input(s.name + ": shape is not [rows, columns]");
  }
  s.rows = shape[0];
  s.columns = shape[1];
}

/// A .npy file in memory, for types that `write_npy` knows and for strings.
std::vector<char> npy_image(const std::string& type, const std::string& shape, const void* data,
                            std::size_t bytes) {
  std::string head = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  head.append(63 - (10 + head.size()) % 64, ' ');
  head += '\n';
  std::vector<char> image{'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
  image.push_back(static_cast<char>(head.size() & 0xff));
  image.push_back(static_cast<char>(head.size() >> 8));
  image.insert(image.end(), head.begin(), head.end());
  const auto* begin = static_cast<const char*>(data);
  image.insert(image.end(), begin, begin + bytes);
  return image;
}

template <class T>
std::vector<char> vector_image(const std::string& type, std::span<const T> values) {
  return npy_image(type, "(" + std::to_string(values.size()) + ",)", values.data(),
                   values.size_bytes());
}

// Images must outlive zip_close, which reads them.
struct zip_member {
  const char* name;
  std::vector<char> image;
};

void add_member(zip_t* archive, const std::string& name, const zip_member& member) {
  zip_source_t* source = zip_source_buffer(archive, member.image.data(), member.image.size(), 0);
  const auto index =
      source == nullptr ? -1 : zip_file_add(archive, member.name, source, ZIP_FL_OVERWRITE);
  if (index < 0) {
    zip_source_free(source);
    throw std::runtime_error(name + ": " + zip_strerror(archive));
  }
  const auto entry = static_cast<zip_uint64_t>(index);
  zip_set_file_compression(archive, entry, ZIP_CM_STORE, 0);
  // The first day that a zip knows, as NumPy writes it: the same graph gives the same bytes.
  constexpr zip_uint16_t midnight = 0, first_of_1980 = (1 << 5) | 1;
  zip_file_set_dostime(archive, entry, midnight, first_of_1980, 0);
}

}  // namespace

edge_source read_scipy_npz(const std::filesystem::path& path) {
  edge_source s;
  s.name = path.string();
  const auto archive = open_zip(path, ZIP_RDONLY, s.name);
  require_csr(archive.get(), s.name);
  set_shape(s, member_ids(archive.get(), s.name, "shape.npy"));
  s.offsets = member_ids(archive.get(), s.name, "indptr.npy");
  s.column = member_ids(archive.get(), s.name, "indices.npy");
  s.weights = weights(s.name, place_in(s.name, "data.npy"),
                      member_array(archive.get(), s.name, "data.npy"));
  finish(s);
  if (std::ranges::all_of(s.weights, [](float w) { return w == 1; })) s.weights.clear();
  return s;
}

void write_scipy_npz(const std::filesystem::path& path, const std::string& name,
                     const edge_source& rows) {
  const std::array<std::int64_t, 2> shape{rows.rows, rows.columns};
  const std::vector<float> ones(rows.weights.empty() ? rows.column.size() : 0, 1.0f);
  const std::vector<zip_member> members{
      {"indices.npy", vector_image<std::int64_t>("<i8", rows.column)},
      {"indptr.npy", vector_image<std::int64_t>("<i8", rows.offsets)},
      {"format.npy", npy_image("|S3", "()", "csr", 3)},
      {"shape.npy", vector_image<std::int64_t>("<i8", shape)},
      {"data.npy", vector_image<float>("<f4", rows.weights.empty() ? ones : rows.weights)}};
  auto archive = open_zip(path, ZIP_CREATE | ZIP_TRUNCATE, name);
  for (const auto& member : members) add_member(archive.get(), name, member);
  if (zip_close(archive.get()) != 0) throw bad_input(name + ": " + zip_strerror(archive.get()));
  (void)archive.release();  // closed and freed
}

edge_source read_npy_folder(const std::filesystem::path& path) {
  edge_source s;
  s.name = path.string();
  const auto array = [&](const char* file) {
    const auto where = (path / file).string();
    return require(where, read_npy(where));
  };
  const auto ids = [&](const char* file) {
    return numbers<std::int64_t>((path / file).string(), array(file));
  };
  s.offsets = ids("indptr.npy");
  s.column = ids("indices.npy");
  if (std::filesystem::exists(path / "data.npy")) {
    s.weights = weights(s.name, (path / "data.npy").string(), array("data.npy"));
  }
  if (std::filesystem::exists(path / "shape.npy")) {
    set_shape(s, ids("shape.npy"));
  } else {
    s.rows = s.columns = static_cast<std::int64_t>(s.offsets.size()) - 1;
  }
  finish(s);
  return s;
}

}  // namespace quipu::cli
