// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "errors.hpp"

namespace quipu::cli {
namespace {

namespace fs = std::filesystem;

// A link stays a link: what it leads to is replaced, or made.
fs::path behind_links(fs::path path) {
  std::error_code error;
  constexpr int most = 40;  // as Linux follows
  for (int followed = 0; fs::is_symlink(path, error); ++followed) {
    const auto next = fs::read_symlink(path, error);
    if (error || followed == most) throw bad_input(path.string() + ": the link leads nowhere");
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path.lexically_normal();
}

[[noreturn]] void fail_with_errno(const fs::path& target) {
  throw bad_input(target.string() + ": " + std::strerror(errno));
}

// A pipe whose reader has gone is an error to report, not the end of the program.
void copy_into(const fs::path& target, const fs::path& from) {
  std::signal(SIGPIPE, SIG_IGN);
  const int out = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
  if (out < 0) fail_with_errno(target);
  std::ifstream in(from, std::ios::binary);
  std::array<char, 1 << 16> piece;
  bool good = true;
  while (good && (in.read(piece.data(), piece.size()), in.gcount() > 0)) {
    const auto size = static_cast<std::size_t>(in.gcount());
    for (std::size_t done = 0; good && done < size;) {
      const auto put = ::write(out, piece.data() + done, size - done);
      if (put > 0) done += static_cast<std::size_t>(put);
      good = put >= 0 || errno == EINTR;
    }
  }
  const int cause = errno;
  if (::close(out) == 0 && good) return;
  if (!good) errno = cause;
  fail_with_errno(target);
}

}  // namespace

output_set::~output_set() {
  std::error_code ignored;
  for (const auto& file : files_) fs::remove(file.temporary, ignored);
  for (const auto& folder : created_folders_) fs::remove(folder, ignored);
}

fs::path output_set::stage(const fs::path& target) {
  std::error_code unreadable;
  const auto kind = fs::status(target, unreadable);
  if (fs::is_directory(kind)) throw bad_input(target.string() + ": is a folder");
  const auto serial = ".part" + std::to_string(::getpid());
  if (fs::exists(kind) && !fs::is_regular_file(kind)) {
    const auto name = "quipu" + serial + "-" + std::to_string(files_.size());
    files_.push_back({fs::temp_directory_path() / name, target, destination::stream});
    return files_.back().temporary;
  }
  const auto replaced = behind_links(target);
  for (const auto& file : files_) {
    if (file.target == replaced) throw bad_input(target.string() + ": named for two outputs");
  }
  auto temporary = replaced;
  temporary += serial;
  files_.push_back({temporary, replaced, destination::file});
  return temporary;
}

void output_set::folder(const fs::path& target) {
  std::error_code error;
  if (fs::create_directory(target, error)) created_folders_.push_back(target);
  if (error) throw bad_input(target.string() + ": " + error.message());
}

void output_set::replace_by_nothing(const fs::path& target) { obsolete_.push_back(target); }

void output_set::commit() {
  // Streams first: when one fails, no file has changed yet.
  for (const auto& file : files_) {
    if (file.to == destination::stream) copy_into(file.target, file.temporary);
  }
  std::error_code ignored;
  for (const auto& file : files_) {
    if (file.to == destination::stream) {
      fs::remove(file.temporary, ignored);
      continue;
    }
    std::error_code error;
    fs::rename(file.temporary, file.target, error);
    if (error) throw bad_input(file.target.string() + ": " + error.message());
  }
  files_.clear();
  created_folders_.clear();
  for (const auto& file : obsolete_) fs::remove(file, ignored);
}

}  // namespace quipu::cli
