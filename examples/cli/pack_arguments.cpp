// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "arguments.hpp"

namespace quipu::cli {
namespace {

void add_host_run(CLI::App& app, run_options& run) {
  app.add_option_function<std::string>(
         "--device",
         [&run](const std::string& word) {
           run.device = choose("--device", word, device_names());
           if (run.device == device_choice::cuda) {
             throw bad_input("--device: tables are packed and unpacked on the host alone");
           }
         },
         "auto or host, which are the same here")
      ->type_name("");
  add_count(app, "--threads", run.threads, "On the host (default: one a core)", 0);
  app.add_flag("--json", run.json, "Print an object instead of text");
}

void add_table(CLI::App& app, table_argument& table) {
  app.add_option("X.npy", table.path,
                 "A table: its first axis are rows, the others make a row; or "
                 "synthetic:normal|relu|ones,ROWS,WIDTH")
      ->required()
      ->type_name("");
  app.add_option_function<std::string>(
         "--as",
         [&table](const std::string& word) { table.as = choose("--as", word, format_names()); },
         "f32, f16, bf16 or bits (default: f4 and f2 as floats, all else as bits)")
      ->type_name("");
  add_count(app, "--sample", table.look.sample_rows,
            "Rows to look at, 0: all (default: up to 4096, of a million elements)", 0);
  app.add_option_function<std::string>(
         "--threshold",
         [&table](const std::string& word) {
           table.look.threshold = parse_real("--threshold", word);
           if (table.look.threshold >= 0 && table.look.threshold <= 1) return;
           throw bad_input("--threshold: " + word + " is not from 0 to 1");
         },
         "Share of rows in which a bit that is left out agrees (default: found out)")
      ->type_name("NUMBER");
  add_count(app, "--clusters", table.look.clusters, "Of rows with masks of their own (default: 1)",
            1, "K");
  add_count(app, "--seed", table.look.seed, "For what is drawn, and rows that clusters start from",
            0);
}

void add_output(CLI::App& app, std::string& output, const char* text, const char* type) {
  app.add_option("-o,--output", output, text)->required()->type_name(type);
}

void add_profile(CLI::App& root) {
  auto options = std::make_shared<profile_command_options>();
  auto* app = root.add_subcommand("profile", "What a table packs to, by each codec");
  add_table(*app, options->table);
  add_host_run(*app, options->run);
  app->callback([options] { run(*options); });
}

void add_pack(CLI::App& root) {
  auto options = std::make_shared<pack_command_options>();
  auto* app = root.add_subcommand("pack", "Write a table without loss in fewer bytes");
  add_table(*app, options->table);
  add_output(*app, options->output, "The packed table", "X.qpk");
  app->add_option_function<std::string>(
         "--codec",
         [options](const std::string& word) {
           options->how = choose("--codec", word, codec_names());
         },
         "raw, invariant, exponent or sparse (default: the best one); raw wherever that is smaller")
      ->type_name("");
  app->add_option_function<std::string>(
         "--goal",
         [options](const std::string& word) {
           options->goal = choose("--goal", word, goal_names());
         },
         "smallest; memory: what also decodes quickly; link: for gathers from pinned memory "
         "(default: "
         "smallest)")
      ->type_name("");
  add_host_run(*app, options->run);
  app->callback([options] { run(*options); });
}

void add_unpack(CLI::App& root) {
  auto options = std::make_shared<unpack_command_options>();
  auto* app = root.add_subcommand("unpack", "Write a packed table as it was");
  app->add_option("X.qpk", options->input, "A packed table")->required()->type_name("");
  add_output(*app, options->output, "The array, of its old type and shape", "X.npy");
  add_host_run(*app, options->run);
  app->callback([options] { run(*options); });
}

void add_gather(CLI::App& root) {
  auto options = std::make_shared<gather_command_options>();
  auto* app = root.add_subcommand("gather", "Write some rows of a packed table");
  app->add_option("X.qpk", options->input, "A packed table")->required()->type_name("");
  app->add_option("--rows", options->rows, "Which, in any order: [n] of i4 or i8")
      ->required()
      ->type_name("R.npy");
  add_output(*app, options->output, "[n, ..], otherwise as the table was", "Y.npy");
  add_host_run(*app, options->run);
  app->callback([options] { run(*options); });
}

/// What is said of a graph would be lost on a table.
void refuse_words_before_pack(const CLI::App& bench) {
  for (const auto* option : bench.get_options()) {
    if (option == bench.get_help_ptr() || option->count() == 0) continue;
    throw bad_input(option->get_name() + ": not before pack");
  }
}

}  // namespace

void add_pack_verbs(CLI::App& root) {
  add_profile(root);
  add_pack(root);
  add_unpack(root);
  add_gather(root);
}

void add_bench_pack(CLI::App& bench) {
  auto options = std::make_shared<bench_pack_options>();
  auto* app = bench.add_subcommand("pack", "Time all packings of a table instead");
  add_table(*app, options->table);
  add_place(*app, options->run);
  add_measuring(*app, options->measuring);
  app->preparse_callback([&bench](std::size_t) { refuse_words_before_pack(bench); });
  app->callback([options] { run(*options); });
}

}  // namespace quipu::cli
