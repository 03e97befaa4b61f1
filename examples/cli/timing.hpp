// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "options.hpp"
#include "output.hpp"
#include "place.hpp"
#include "table.hpp"

// What `bench` does with graphs and with tables alike.
namespace quipu::cli {

/// A bar on stderr while a person watches; nothing in a pipe.
class progress {
 public:
  explicit progress(std::size_t total) : total_(total), shown_(::isatty(STDERR_FILENO) == 1) {}
  ~progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void step() {
    ++done_;
    if (!shown_) return;
    const double share = static_cast<double>(done_) / static_cast<double>(total_);
    fmt::print(stderr, "\r\033[K{}/{} {}", done_, total_, bar(share, 40));
    std::fflush(stderr);
  }

 private:
  std::size_t total_;
  std::size_t done_ = 0;
  bool shown_;
};

/// Milliseconds.
struct timing {
  double median = 0;
  double lowest = 0;
};

/// Median and least of many runs, after two that are not counted.
template <class Context, class Once>
timing time_many(std::int32_t repeat, const Context& ctx, Once&& once) {
  for (int warm_up = 0; warm_up < 2; ++warm_up) time_once(ctx, once);
  std::vector<double> times(static_cast<std::size_t>(repeat));
  for (auto& time : times) time = time_once(ctx, once);
  std::ranges::sort(times);
  return {(times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2, times.front()};
}

// A millisecond is 1e-3 s, a billion 1e9.
inline double per_second_in_billions(double amount, double milliseconds) {
  return milliseconds > 0 ? amount / milliseconds / 1e6 : 0;
}

inline void write_json(const std::string& path, const json& report) {
  output_set files;
  std::ofstream file(files.stage(path));
  file << dumped(report) << "\n";
  file.close();
  if (!file) throw bad_input(path + ": cannot be written");
  files.commit();
}

/// The file that was asked for, and the table.
inline void publish(const measuring_options& measuring, const json& report,
                    const std::string& text) {
  if (!measuring.json_file.empty()) write_json(measuring.json_file, report);
  fmt::print("{}", text);
}

}  // namespace quipu::cli
