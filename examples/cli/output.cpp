// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <unistd.h>

#include "errors.hpp"

namespace quipu::cli {

namespace fs = std::filesystem;

output_set::~output_set() {
  std::error_code ignored;
  for (const auto& file : files_) fs::remove(file.temporary, ignored);
  for (const auto& folder : created_folders_) fs::remove(folder, ignored);
}

fs::path output_set::stage(const fs::path& target) {
  if (fs::is_directory(target)) throw bad_input(target.string() + ": is a folder");
  for (const auto& file : files_) {
    if (file.target == target) throw bad_input(target.string() + ": named for two outputs");
  }
  auto temporary = target;
  temporary += ".part" + std::to_string(::getpid());
  files_.push_back({temporary, target});
  return temporary;
}

void output_set::folder(const fs::path& target) {
  std::error_code error;
  if (fs::create_directory(target, error)) created_folders_.push_back(target);
  if (error) throw bad_input(target.string() + ": " + error.message());
}

void output_set::replace_by_nothing(const fs::path& target) { obsolete_.push_back(target); }

void output_set::commit() {
  for (const auto& file : files_) {
    std::error_code error;
    fs::rename(file.temporary, file.target, error);
    if (error) throw bad_input(file.target.string() + ": " + error.message());
  }
  files_.clear();
  created_folders_.clear();
  for (const auto& file : obsolete_) {
    std::error_code ignored;
    fs::remove(file, ignored);
  }
}

}  // namespace quipu::cli
