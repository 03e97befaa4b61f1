// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "quipu/core/status.hpp"

namespace quipu::io_detail {

/// io_error with the current errno in `native`.
status io_failure(const char* message) noexcept;

/// Owns a POSIX descriptor.
class descriptor {
 public:
  explicit descriptor(int number = -1) noexcept : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept;
  ~descriptor();

  int get() const noexcept { return number_; }
  /// False, with errno set, when the system reports a late write error.
  bool close() noexcept;

 private:
  int number_;
};

/// A file open for reading.
class input_file {
 public:
  static result<input_file> open(const std::filesystem::path& path);

  /// Size of a regular file in bytes; -1 for pipes, devices and files that do not tell.
  std::int64_t size() const noexcept { return size_; }
  /// Reads until `bytes` have come or the file ends; returns the number read.
  result<std::size_t> read(void* target, std::size_t bytes);
  /// The same from byte `offset` of a regular file on; `read` goes on from where it was.
  result<std::size_t> read_at(std::int64_t offset, void* target, std::size_t bytes) const;

 private:
  input_file(descriptor file, std::int64_t size) : file_(std::move(file)), size_(size) {}
  descriptor file_;
  std::int64_t size_;
};

/// The content of a file.
struct file_bytes {
  std::unique_ptr<char[]> data;
  std::size_t size = 0;
  std::string_view text() const noexcept { return {data.get(), size}; }
};

/// Reads everything that `file` still holds. A plain read, not a mapping: a file that shrinks while
/// it is parsed would otherwise end the process with SIGBUS.
result<file_bytes> load(input_file& file);
result<file_bytes> load(const std::filesystem::path& path);

/// A file that appears complete or not at all: written beside its destination, renamed by `commit`,
/// removed when `commit` was not reached. Devices and pipes are written directly.
class output_file {
 public:
  static result<output_file> create(const std::filesystem::path& path);
  output_file(output_file&& other) noexcept = default;
  output_file& operator=(output_file&&) = delete;
  ~output_file();

  status write(const void* data, std::size_t bytes);
  status commit();

 private:
  output_file(descriptor file, std::string temporary, std::string destination)
      : file_(std::move(file)),
        temporary_(std::move(temporary)),
        destination_(std::move(destination)) {}
  descriptor file_;
  std::string temporary_;  // empty when written directly, or moved from
  std::string destination_;
};

/// Runs `body` and turns an allocation that fails into a status.
template <class Body>
auto catch_out_of_memory(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failure(status_code::out_of_memory, "not enough host memory for the file's content");
  } catch (const std::length_error&) {
    return failure(status_code::out_of_memory, "not enough host memory for the file's content");
  }
}

}  // namespace quipu::io_detail
