// SPDX-License-Identifier: Apache-2.0
#include "file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace quipu::io_detail {

status io_failure(const char* message) noexcept {
  status s = failure(status_code::io_error, message);
  s.native = errno;
  return s;
}

descriptor& descriptor::operator=(descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

descriptor::~descriptor() { close(); }

bool descriptor::close() noexcept {
  const int number = std::exchange(number_, -1);
  return number < 0 || ::close(number) == 0;
}

result<input_file> input_file::open(const std::filesystem::path& path) {
  descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return io_failure("cannot open the file");
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return io_failure("cannot read the file's size");
  // A size of 0 is no promise: files of /proc say so and still have content.
  const bool knows_size = S_ISREG(about.st_mode) && about.st_size > 0;
  return input_file(std::move(file), knows_size ? about.st_size : -1);
}

namespace {

/// Calls read_some(where, bytes) until `bytes` have come or the file ends.
template <class ReadSome>
result<std::size_t> read_until(std::size_t bytes, ReadSome read_some) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = read_some(done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_failure("cannot read the file");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

result<std::size_t> input_file::read(void* target, std::size_t bytes) {
  return read_until(bytes, [&](std::size_t done, std::size_t left) {
    return ::read(file_.get(), static_cast<char*>(target) + done, left);
  });
}

result<std::size_t> input_file::read_at(std::int64_t offset, void* target,
                                        std::size_t bytes) const {
  return read_until(bytes, [&](std::size_t done, std::size_t left) {
    return ::pread(file_.get(), static_cast<char*>(target) + done, left,
                   offset + static_cast<std::int64_t>(done));
  });
}

result<file_bytes> load(input_file& file) {
  // One byte more than announced: the read that meets the end needs no second buffer.
  std::size_t capacity = file.size() >= 0 ? static_cast<std::size_t>(file.size()) + 1 : 65536;
  file_bytes content{std::make_unique_for_overwrite<char[]>(capacity), 0};
  for (;;) {
    const auto got = file.read(content.data.get() + content.size, capacity - content.size);
    if (!got) return got.error();
    content.size += *got;
    if (content.size < capacity) return content;
    capacity *= 2;
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    std::memcpy(larger.get(), content.data.get(), content.size);
    content.data = std::move(larger);
  }
}

result<file_bytes> load(const std::filesystem::path& path) {
  auto file = input_file::open(path);
  if (!file) return file.error();
  return load(*file);
}

result<output_file> output_file::create(const std::filesystem::path& path) {
  std::string destination = path.native();
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0) {
    if (!S_ISREG(about.st_mode)) {
      descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
      if (device.get() < 0) return io_failure("cannot open the file for writing");
      return output_file(std::move(device), {}, std::move(destination));
    }
    // The target of a link is replaced, not the link.
    std::error_code unresolved;
    const auto target = std::filesystem::canonical(path, unresolved);
    if (!unresolved) destination = target.native();
  }
  static std::atomic<unsigned> serial{0};
  for (int attempt = 0;; ++attempt) {
    std::string temporary = destination + ".partial-" + std::to_string(::getpid()) + "-" +
                            std::to_string(serial.fetch_add(1));
    descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() >= 0) {
      return output_file(std::move(file), std::move(temporary), std::move(destination));
    }
    if (errno != EEXIST || attempt == 100) return io_failure("cannot create the file");
  }
}

output_file::~output_file() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

status output_file::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(file_.get(), next, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_failure("cannot write the file");
    next += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return success();
}

status output_file::commit() {
  if (!file_.close()) return io_failure("cannot write the file");
  if (temporary_.empty()) return success();
  if (std::rename(temporary_.c_str(), destination_.c_str()) != 0) {
    return io_failure("cannot move the written file to its place");
  }
  temporary_.clear();
  return success();
}

}  // namespace quipu::io_detail
