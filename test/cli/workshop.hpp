// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the command that QUIPU_COMMAND names on small files, as a user would.

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "quipu/io/npy.hpp"
#include "support/catch.hpp"

namespace test {

namespace fs = std::filesystem;
using quipu::check;

inline std::string content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// A folder of its own, in which the command runs.
class workshop {
 public:
  workshop() {
    auto pattern = (fs::temp_directory_path() / "quipu-cli-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  workshop(const workshop&) = delete;
  workshop& operator=(const workshop&) = delete;
  ~workshop() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    fs::remove(error_file(), ignored);
  }

  fs::path operator/(const std::string& name) const { return folder_ / name; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void write_floats(const std::string& name, const std::vector<std::int64_t>& shape,
                    const std::vector<float>& values) const {
    check(quipu::write_npy(folder_ / name, quipu::npy_kind::f4, shape, values.data()));
  }
  void write_ids(const std::string& name, const std::vector<std::int64_t>& values) const {
    const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(values.size())};
    check(quipu::write_npy(folder_ / name, quipu::npy_kind::i8, shape, values.data()));
  }

  template <class T>
  std::vector<T> read(const std::string& name) const {
    return check(quipu::npy_as<T>(check(quipu::read_npy(folder_ / name))));
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      names.insert(fs::relative(entry.path(), folder_).string());
    }
    return names;
  }

  outcome run(const std::string& arguments) const {
    const char* command = std::getenv("QUIPU_COMMAND");
    REQUIRE(command != nullptr);
    const std::string line = "cd '" + folder_.string() + "' && '" + command + "' " + arguments +
                             " 2>'" + error_file().string() + "'";
    FILE* pipe = ::popen(line.c_str(), "r");
    REQUIRE(pipe != nullptr);
    outcome o;
    std::array<char, 4096> piece{};
    while (const auto got = std::fread(piece.data(), 1, piece.size(), pipe)) {
      o.out.append(piece.data(), got);
    }
    const int status = ::pclose(pipe);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    o.err = content(error_file());
    return o;
  }

  /// Runs what must succeed, on the host; returns what it printed.
  std::string succeed(const std::string& arguments) const {
    const auto o = run(arguments + " --device host");
    CAPTURE(arguments, o.err);
    REQUIRE(o.code == 0);
    CHECK(o.err.empty());
    return o.out;
  }

 private:
  fs::path error_file() const { return folder_.string() + ".stderr"; }
  fs::path folder_;
};

// Receivers 0, 1, 2, 3 of senders: 0 <- {1 (2), 2 (-1)}, 1 <- {0 (0.5)}, 2 <- {}, 3 <- {0 (1), 1
// (3), 3 (1)}.
inline constexpr const char* small_list =
    "# from to weight\n1 0 2\n2 0 -1\n0 1 0.5\n0 3 1\n1 3 3\n3 3 1\n";
inline const std::vector<float> small_input{1, 10, 2, 20, 3, -30, 4, 40};

inline void write_small(const workshop& w) {
  w.write("small.txt", small_list);
  w.write_floats("x.npy", {4, 2}, small_input);
}

inline std::string karate() {
  return "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 1\n3 2\n";
}

}  // namespace test
