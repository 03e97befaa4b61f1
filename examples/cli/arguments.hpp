// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "names.hpp"
#include "numbers.hpp"
#include "options.hpp"

// Options of the command line that several verbs have.
namespace quipu::cli {

template <class Value>
Value choose(const std::string& option, const std::string& word,
             const std::vector<std::pair<std::string, Value>>& names) {
  for (const auto& [name, value] : names) {
    if (name == word) return value;
  }
  throw bad_input(option + ": does not know " + word);
}

/// An option that takes a whole number from `lowest` on.
template <class Target>
void add_count(CLI::App& app, const std::string& name, Target& target, const std::string& text,
               std::int64_t lowest, const std::string& unit = "N") {
  app.add_option_function<std::string>(
         name,
         [&target, name, lowest](const std::string& word) {
           using number =
               typename std::conditional_t<std::is_arithmetic_v<Target>, std::type_identity<Target>,
                                           std::type_identity<std::int64_t>>::type;
           target = parse_whole<number>(name, word, lowest);
         },
         text)
      ->type_name(unit);
}

inline void add_real(CLI::App& app, const std::string& name, double& target,
                     const std::string& text) {
  app.add_option_function<std::string>(
         name, [&target, name](const std::string& word) { target = parse_real(name, word); }, text)
      ->type_name("NUMBER");
}

/// Where to run.
inline void add_place(CLI::App& app, run_options& run) {
  app.add_option_function<std::string>(
         "--device",
         [&run](const std::string& word) { run.device = choose("--device", word, device_names()); },
         "auto, cuda or host (default: auto, the GPU if there is one)")
      ->type_name("");
  add_count(app, "--threads", run.threads, "On the host (default: one a core)", 0);
}

inline void add_run(CLI::App& app, run_options& run) {
  add_place(app, run);
  add_count(app, "--seed", run.seed, "For numbers that are drawn", 0);
}

/// How often to measure, and where to leave what was found.
inline void add_measuring(CLI::App& app, measuring_options& measuring) {
  add_count(app, "--repeat", measuring.repeat, "Timed runs (default: 20)", 1);
  app.add_option("--json", measuring.json_file, "Also write the results here")->type_name("FILE");
}

/// profile, pack, unpack and gather.
void add_pack_verbs(CLI::App& root);
/// bench pack.
void add_bench_pack(CLI::App& bench);

}  // namespace quipu::cli
