// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "errors.hpp"
#include "names.hpp"
#include "numbers.hpp"
#include "options.hpp"
#include "quipu/version.hpp"

namespace quipu::cli {
namespace {

std::vector<std::string> split(const std::string& option, const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  for (const auto& word : words) {
    if (word.empty()) throw bad_input(option + ": an entry of the list is empty");
  }
  return words;
}

template <class Value>
std::vector<Value> choose_all(const std::string& option, const std::string& text,
                              const std::vector<std::pair<std::string, Value>>& names) {
  std::vector<Value> values;
  for (const auto& word : split(option, text)) values.push_back(choose(option, word, names));
  return values;
}

std::vector<std::int64_t> parse_counts(const std::string& option, const std::string& text) {
  std::vector<std::int64_t> counts;
  for (const auto& word : split(option, text)) {
    counts.push_back(parse_whole<std::int64_t>(option, word, 1));
  }
  return counts;
}

void add_graph(CLI::App& app, graph_argument& graph) {
  app.add_option("GRAPH", graph.text,
                 ".mtx | .txt .tsv .csv | .npz | folder | synthetic:NAME[,seed=N][,flat]")
      ->required()
      ->type_name("");
  app.add_flag("--one-based", graph.one_based, "Edge lists: the first node is 1");
  add_count(app, "--nodes", graph.nodes, "Edge lists: number of nodes (default: largest id + 1)",
            1);
  app.add_option("--separator", graph.separator, "Edge lists: character between two fields")
      ->check([](const std::string& s) {
        return s.size() == 1 ? std::string() : std::string("is not one character");
      })
      ->type_name("C");
  app.add_flag("--unweighted", graph.unweighted, "Forget the weights of the edges");
}

void add_dtype(CLI::App& app, run_options& run) {
  app.add_option_function<std::string>(
         "--dtype",
         [&run](const std::string& word) {
           run.dtypes = {choose("--dtype", word, element_names())};
         },
         "f32, f16 or bf16 (default: f32)")
      ->type_name("");
}

void add_edge_flag(CLI::App& app, const std::string& name, edge_option& option,
                   const std::string& text) {
  app.add_flag_function(
      name, [&option](std::int64_t) { option = edge_option::apply; }, text);
}

void add_info(CLI::App& root) {
  auto options = std::make_shared<info_options>();
  auto* app = root.add_subcommand("info", "Sizes, degrees and schedule of a graph");
  add_graph(*app, options->graph);
  add_run(*app, options->run);
  add_dtype(*app, options->run);
  app->add_flag("--json", options->run.json, "Print an object instead of text");
  app->add_flag("--explain", options->explain, "Say why the library decides as it does");
  app->callback([options] { run(*options); });
}

void add_convert(CLI::App& root) {
  auto options = std::make_shared<convert_options>();
  auto* app = root.add_subcommand("convert", "Write a graph in another format, changed if asked");
  add_graph(*app, options->graph);
  add_run(*app, options->run);
  add_dtype(*app, options->run);
  app->add_flag("--json", options->run.json, "Print an object instead of text");
  app->add_option("-o,--output", options->output, "Target: .mtx, .npz or a folder")
      ->required()
      ->type_name("OUT");
  app->add_flag("--transpose", options->transpose, "Senders become receivers; done first");
  add_edge_flag(*app, "--symmetrise", options->edges.symmetrise, "Also (j, i) for each (i, j)");
  add_edge_flag(*app, "--remove-self-loops", options->edges.remove_self_loops, "Drop (i, i)");
  add_edge_flag(*app, "--coalesce", options->edges.coalesce,
                "One edge for parallel ones, weights summed");
  add_edge_flag(*app, "--self-loops", options->edges.add_self_loops, "Add (i, i) where none is");
  app->callback([options] { run(*options); });
}

void add_reduce_choice(CLI::App& app, aggregate_options& options) {
  app.add_option_function<std::string>(
         "--op",
         [&options](const std::string& word) { options.op = choose("--op", word, reduce_names()); },
         "sum, mean, min or max")
      ->required()
      ->type_name("");
}

void add_aggregate(CLI::App& root) {
  auto options = std::make_shared<aggregate_options>();
  auto* app = root.add_subcommand("aggregate", "Reduce the rows of all senders of each receiver");
  add_graph(*app, options->graph);
  add_run(*app, options->run);
  add_dtype(*app, options->run);
  app->add_flag("--json", options->run.json, "Print an object instead of text");
  add_reduce_choice(*app, *options);
  const auto file = [&](const char* name, std::string& path, const char* text) {
    app->add_option(name, path, text)->type_name("F.npy");
  };
  file("--input", options->input, "[columns, features] of f2, f4 or f8 (default: drawn)");
  file("-o,--output", options->output, "[rows, features]: f2 for f16, else f4");
  file("--argument", options->argument, "[rows, features] winning edge positions, -1: none");
  file("--grad-output", options->grad_output, "[rows, features] (default: drawn)");
  file("--grad-input", options->grad_input, "[columns, features], runs the backward pass");
  add_count(*app, "--features", options->features, "Width of a drawn input (default: 64)", 1, "F");
  app->callback([options] { run(*options); });
}

void add_norm(CLI::App& app, normalisation& norm) {
  app.add_option_function<std::string>(
         "--norm",
         [&norm](const std::string& word) { norm = choose("--norm", word, norm_names()); },
         "none, mean, walk or symmetric (default: none)")
      ->type_name("");
}

void add_backend(CLI::App& app, spmm_options& plan) {
  app.add_option_function<std::string>(
         "--backend",
         [&plan](const std::string& word) {
           plan.backend = choose("--backend", word, backend_names());
         },
         "auto, engine or cusparse (default: auto)")
      ->type_name("");
}

void add_spmm(CLI::App& root) {
  auto options = std::make_shared<spmm_command_options>();
  auto* app = root.add_subcommand("spmm", "Multiply features by the normalised graph");
  add_graph(*app, options->graph);
  add_run(*app, options->run);
  add_dtype(*app, options->run);
  add_norm(*app, options->norm);
  add_backend(*app, options->plan);
  app->add_flag("--json", options->run.json, "Print an object instead of text");
  app->add_flag("--transpose", options->transpose, "Multiply by the transposed graph");
  add_real(*app, "--alpha", options->alpha, "Factor of the product (default: 1)");
  add_real(*app, "--beta", options->beta, "Factor of --initial (default: 0)");
  const auto file = [&](const char* name, std::string& path, const char* text) {
    app->add_option(name, path, text)->type_name("F.npy");
  };
  file("--input", options->input,
       "[columns, features] of f2, f4 or f8, [rows, ..] with --transpose (default: drawn)");
  file("--initial", options->initial, "As the output, what beta multiplies (default: drawn)");
  file("-o,--output", options->output,
       "[rows, features], [columns, ..] with --transpose: f2 for f16, else f4");
  add_count(*app, "--features", options->features, "Width of a drawn input (default: 64)", 1, "F");
  app->callback([options] { run(*options); });
}

/// gat, gatv2 and transformer: the same but for their operands.
void add_attention(CLI::App& root, attention_kind kind, const char* text) {
  auto options = std::make_shared<attention_options>();
  options->kind = kind;
  auto* app = root.add_subcommand(name_of(kind), text);
  add_graph(*app, options->graph);
  add_run(*app, options->run);
  add_dtype(*app, options->run);
  app->add_flag("--json", options->run.json, "Print an object instead of text");
  const auto file = [&](const char* name, std::string& path, const char* what) {
    app->add_option(name, path, what)->type_name("F.npy");
  };
  // An operand, and its gradient.
  const auto operand = [&](const std::string& name, std::string& path, std::string& gradient,
                           const std::string& shape) {
    const bool first = &path == &options->receivers;
    file(("--" + name).c_str(), path,
         (shape + (first ? " (default: drawn, as all operands)" : "")).c_str());
    file(("--grad-" + name).c_str(), gradient, (shape + ", runs the backward pass").c_str());
  };
  auto& o = *options;
  if (kind == attention_kind::gat) {
    operand("target-score", o.receivers, o.grad_receivers, "[rows, heads]");
    operand("source-score", o.senders, o.grad_senders, "[columns, heads]");
    operand("source", o.values, o.grad_values, "[columns, heads, dim]");
  } else if (kind == attention_kind::gatv2) {
    operand("target", o.receivers, o.grad_receivers, "[rows, heads, dim]");
    operand("source", o.senders, o.grad_senders, "[columns, heads, dim]");
    operand("attention", o.vector, o.grad_vector, "[heads, dim]");
  } else {
    operand("query", o.receivers, o.grad_receivers, "[rows, heads, dim]");
    operand("key", o.senders, o.grad_senders, "[columns, heads, dim]");
    operand("value", o.values, o.grad_values, "[columns, heads, dim]");
    app->add_option_function<std::string>(
           "--scale",
           [options](const std::string& word) { options->scale = parse_real("--scale", word); },
           "Factor of query times key (default: 1 / sqrt(dim))")
        ->type_name("NUMBER");
  }
  if (kind != attention_kind::transformer) {
    add_real(*app, "--slope", options->slope, "Of the leaky unit below 0 (default: 0.2)");
  }
  file("-o,--output", options->output, "[rows, heads, dim]: f2 for f16, else f4");
  file("--logsumexp", options->logsumexp, "[rows, heads] of f4");
  file("--alpha", options->alpha, "[edges, heads] of f4, in the order of the graph");
  file("--grad-output", options->grad_output, "[rows, heads, dim] (default: drawn)");
  add_real(*app, "--dropout", options->dropout, "Of edges and heads, by --seed (default: 0)");
  add_count(*app, "--heads", options->heads, "Of drawn operands (default: 1)", 1, "H");
  add_count(*app, "--dim", options->dim, "Of a head of drawn operands (default: 64)", 1, "D");
  app->callback([options] { run(*options); });
}

void add_sddmm(CLI::App& root) {
  auto options = std::make_shared<sddmm_command_options>();
  auto* app = root.add_subcommand("sddmm", "One dot product an edge: receiver's row by sender's");
  add_graph(*app, options->graph);
  add_run(*app, options->run);
  add_dtype(*app, options->run);
  add_norm(*app, options->norm);
  app->add_flag("--json", options->run.json, "Print an object instead of text");
  add_real(*app, "--alpha", options->alpha, "Factor of all (default: 1)");
  const auto file = [&](const char* name, std::string& path, const char* text) {
    app->add_option(name, path, text)->type_name("F.npy");
  };
  file("--left", options->left, "[rows, features] of f2, f4 or f8 (default: drawn)");
  file("--right", options->right, "[columns, features] (default: drawn)");
  file("-o,--output", options->output, "[edges] f4, in the order of the graph");
  add_count(*app, "--features", options->features, "Width of drawn matrices (default: 64)", 1, "F");
  app->callback([options] { run(*options); });
}

void add_list(CLI::App& app, const std::string& name, const std::string& text,
              std::function<void(const std::string&)> take) {
  app.add_option_function<std::string>(name, std::move(take), text)->type_name("A,B,..");
}

void add_bench(CLI::App& root) {
  auto options = std::make_shared<bench_options>();
  auto* app = root.add_subcommand("bench", "Time operations: median of many runs");
  add_graph(*app, options->graph);
  app->get_option("GRAPH")->required(false);  // or "pack" would be a graph
  add_run(*app, options->run);
  add_list(*app, "--op",
           "Of sum, mean, min, max, spmm, sddmm, gat, gatv2, transformer, gat_backward, "
           "gatv2_backward, transformer_backward (default: sum)",
           [options](const auto& text) { options->ops = choose_all("--op", text, bench_names()); });
  add_norm(*app, options->norm);
  add_backend(*app, options->plan);
  add_list(*app, "--dtype", "Of f32, f16, bf16 (default: f32)", [options](const auto& text) {
    options->run.dtypes = choose_all("--dtype", text, element_names());
  });
  add_list(*app, "--features", "Widths (default: 64)",
           [options](const auto& text) { options->features = parse_counts("--features", text); });
  add_list(*app, "--heads", "Of attention, which share the features (default: 1)",
           [options](const auto& text) { options->heads = parse_counts("--heads", text); });
  add_measuring(*app, options->measuring);
  add_bench_pack(*app);
  app->callback([options, app] {
    if (!app->get_subcommands().empty()) return;
    if (options->graph.text.empty()) throw bad_input("GRAPH: is required");
    run(*options);
  });
}

// One line, whatever a library put into its message.
int complain(const std::string& text, int code) {
  std::string line = text;
  std::ranges::replace(line, '\n', ' ');
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print(stderr, "quipu: {}\n", line);
  return code;
}

// CLI11's messages in the form `--option: what`.
std::string explain(const CLI::ParseError& wrong, const CLI::App& app) {
  std::string text = wrong.what();
  const auto left = app.remaining(true);
  const bool unknown =
      dynamic_cast<const CLI::ExtrasError*>(&wrong) != nullptr || app.get_subcommands().empty();
  if (unknown && !left.empty()) return left.front() + ": not expected";
  const bool command_missing = app.get_subcommands().empty();
  const auto at = text.find(" is required");
  if (!command_missing && at != std::string::npos) text.insert(at, ":");
  return text;
}

/// CLI11 takes an empty value for a missing one, and goes on with a default.
void refuse_empty_values(int argc, char** argv) {
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const bool named = word.starts_with("--") && word.ends_with("=");
    if (named) throw bad_input(word.substr(0, word.size() - 1) + ": is empty");
    if (word.empty()) throw bad_input(std::string(argv[k - 1]) + ": what follows is empty");
  }
}

/// What was printed may still lie in a buffer.
int finish_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return complain("standard output: cannot be written", 1);
}

int run_command(int argc, char** argv) {
  CLI::App app("Graph layers, graph files and packed tables, on a GPU or without one", "quipu");
  app.set_version_flag("--version", fmt::format("quipu {}.{}.{}", QUIPU_VERSION_MAJOR,
                                                QUIPU_VERSION_MINOR, QUIPU_VERSION_PATCH));
  app.require_subcommand(1);
  add_info(app);
  add_convert(app);
  add_aggregate(app);
  add_spmm(app);
  add_attention(app, attention_kind::gat, "Attend by scores of nodes (GAT)");
  add_attention(app, attention_kind::gatv2, "Attend by a vector (GATv2)");
  add_attention(app, attention_kind::transformer, "Attend by query and key (graph transformer)");
  add_sddmm(app);
  add_bench(app);
  add_pack_verbs(app);
  try {
    refuse_empty_values(argc, argv);
    app.parse(argc, argv);
    return finish_output();
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    return complain(explain(wrong, app), 2);
  } catch (const bad_input& wrong) {
    return complain(wrong.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", 1);
  } catch (const std::exception& wrong) {
    return complain(wrong.what(), 1);
  }
}

}  // namespace
}  // namespace quipu::cli

int main(int argc, char** argv) { return quipu::cli::run_command(argc, argv); }
