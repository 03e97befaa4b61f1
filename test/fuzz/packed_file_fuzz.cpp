// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/packed_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../io/packed_seal.hpp"
#include "quipu/pack/pack.hpp"

namespace {

using namespace quipu;

void demand(bool truth) {
  if (!truth) std::abort();
}

/// A file in memory, under a name that can be opened.
class memory_file {
 public:
  memory_file() : file_(::memfd_create("fuzz", 0)) { demand(file_ >= 0); }
  std::string hold(const std::string& bytes) const {
    demand(::ftruncate(file_, 0) == 0);
    demand(::pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return "/proc/self/fd/" + std::to_string(file_);
  }

 private:
  int file_;
};

/// The bytes of unpacked rows; none if a row is malformed.
std::vector<std::byte> unpack_all(packed_table& packed) {
  const auto& how = packed.how();
  const auto row_bytes = how.width * how.element_bytes;
  std::vector<std::byte> out(static_cast<std::size_t>(packed.rows() * row_bytes));
  const mutable_table_view to{out.data(),        packed.rows(), how.width,
                              how.element_bytes, row_bytes,     how.format};
  const auto s = unpack(host_context{1}, {packed.view(), to, 0});
  if (s.ok()) return out;
  demand(s.code == status_code::parse_error && s.position >= 0 && s.position < packed.rows());
  return {};
}

/// Whether records lie in the order of rows.
bool rises(packed_table& packed) {
  const auto v = packed.view();
  for (std::int64_t r = 1; v.addresses != nullptr && r < v.records(); ++r) {
    if ((v.addresses[r] & 0x7fffffff) < (v.addresses[r - 1] & 0x7fffffff)) return false;
  }
  return true;
}

void check_error(const status& s) {
  demand(s.message[0] != '\0' && s.code != status_code::ok);
  demand(s.code != status_code::io_error && s.code != status_code::invalid_argument);
}

void check_file(const std::string& path, std::size_t file_bytes) {
  const auto file = packed_file::open(path);
  if (!file.ok()) return check_error(file.error());
  auto whole = file->read();
  if (!whole.ok()) return check_error(whole.error());
  const auto row_bytes = file->how().width * file->how().element_bytes;
  demand(whole->view().stored_bytes() <= static_cast<std::int64_t>(file_bytes));
  if (row_bytes > 0 && file->rows() > (std::int64_t{1} << 22) / row_bytes) return;
  const auto all = unpack_all(*whole);
  for (const auto& [first, count] :
       {std::pair{std::int64_t{0}, file->rows()}, std::pair{file->rows() / 3, file->rows() / 2}}) {
    auto some = file->read_rows(first, count);
    if (!some.ok()) {
      check_error(some.error());
      continue;
    }
    demand(some->view().stored_bytes() <= whole->view().stored_bytes());
    const auto rows = unpack_all(*some);
    // A record that overruns its place ends with what follows it, which is another one in part of
    // a table whose records were moved.
    if (rows.empty() || all.empty() || !rises(*whole)) continue;
    demand(std::memcmp(rows.data(), all.data() + first * row_bytes, rows.size()) == 0);
  }
}

}  // namespace

/// Any bytes give a table of no more bytes than they are, the same in whole and in part, or an
/// error that says why not; also when their checksums are right.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const memory_file file;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check_file(file.hold(bytes), size);
  if (size < 64) return 0;
  const auto& magic = "\x93qpk\r\n\x1a\n\x01\0\0";
  std::memcpy(bytes.data(), magic, 12);
  quipu_test::seal(bytes);
  check_file(file.hold(bytes), size);
  return 0;
}
