// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace quipu::cli {

/// Files that appear together or not at all: each is written beside its target and renamed by
/// `commit`; without it the destructor removes whatever was written. What a link leads to is
/// replaced, not the link. What is no file (a pipe, /dev/null) is written to, by `commit`.
class output_set {
 public:
  output_set() = default;
  output_set(const output_set&) = delete;
  output_set& operator=(const output_set&) = delete;
  ~output_set();

  /// Where to write what shall become `target`.
  std::filesystem::path stage(const std::filesystem::path& target);
  /// A folder for staged files; created now if it is not there.
  void folder(const std::filesystem::path& target);
  /// A file of an earlier run that must not stay beside the new ones.
  void replace_by_nothing(const std::filesystem::path& target);
  void commit();

 private:
  enum class destination : std::uint8_t { file, stream };
  struct staged_file {
    std::filesystem::path temporary;
    std::filesystem::path target;
    destination to;
  };
  std::vector<staged_file> files_;
  std::vector<std::filesystem::path> obsolete_;
  std::vector<std::filesystem::path> created_folders_;
};

}  // namespace quipu::cli
