// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <sys/resource.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "support/catch.hpp"

namespace quipu_test {

/// A folder of its own for one test, removed afterwards.
class temporary_folder {
 public:
  temporary_folder() {
    static int serial = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("quipu-io-" + std::to_string(::getpid()) + "-" + std::to_string(serial++));
    std::filesystem::create_directories(path_);
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(path_),
                         std::filesystem::directory_iterator());
  }

 private:
  std::filesystem::path path_;
};

inline void put_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  REQUIRE(file.flush().good());
}

inline std::string file_content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The case file of that name in the folder QUIPU_SHARED/cases; none: the test goes on with the
/// copy in its source.
inline std::optional<std::filesystem::path> shared_case(const std::string& name) {
  const char* const shared = std::getenv("QUIPU_SHARED");
  if (shared == nullptr) {
    WARN("skipped: " << name << " from QUIPU_SHARED, which is not set; the built-in copy ran");
    return std::nullopt;
  }
  std::filesystem::path path = std::filesystem::path(shared) / "cases" / name;
  if (!std::filesystem::exists(path)) {
    WARN("skipped: " << path << " is not there; the built-in copy ran");
    return std::nullopt;
  }
  return path;
}

/// While it lives, no file can grow beyond `bytes`: writes fail as they do on a full disk.
class file_size_limit {
 public:
  explicit file_size_limit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  file_size_limit(const file_size_limit&) = delete;
  file_size_limit& operator=(const file_size_limit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace quipu_test
