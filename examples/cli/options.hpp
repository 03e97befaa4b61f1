// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quipu/core/element.hpp"
#include "quipu/graph/graph.hpp"
#include "quipu/pack/profile.hpp"
#include "quipu/reduce/aggregate.hpp"
#include "quipu/sparse/spmm.hpp"

namespace quipu::cli {

enum class device_choice : std::uint8_t { automatic, cuda, host };

/// What every subcommand takes.
struct run_options {
  device_choice device = device_choice::automatic;
  std::vector<element_kind> dtypes{element_kind::f32};  // bench takes several, others the first
  std::uint64_t seed = 0;
  std::int32_t threads = 0;
  bool json = false;
};

/// How to read GRAPH.
struct graph_argument {
  std::string text;
  bool one_based = false;   // edge lists alone
  std::int64_t nodes = 0;   // edge lists alone; 0: largest id + 1
  std::string separator;    // edge lists alone; empty: found out
  bool unweighted = false;  // forget the file's weights
};

struct info_options {
  run_options run;
  graph_argument graph;
  bool explain = false;
};

struct convert_options {
  run_options run;
  graph_argument graph;
  std::string output;
  bool transpose = false;
  graph_options edges;
};

struct aggregate_options {
  run_options run;
  graph_argument graph;
  reduce op = reduce::sum;
  std::optional<std::int64_t> features;
  std::string input;        // empty: drawn
  std::string output;       // empty: not written
  std::string argument;     // empty: not wanted
  std::string grad_output;  // empty: drawn, if a gradient is wanted
  std::string grad_input;   // empty: no backward pass
};

struct spmm_command_options {
  run_options run;
  graph_argument graph;
  normalisation norm = normalisation::none;
  spmm_options plan;
  bool transpose = false;
  double alpha = 1;
  double beta = 0;
  std::optional<std::int64_t> features;
  std::string input;    // empty: drawn
  std::string initial;  // what beta multiplies; empty: drawn
  std::string output;   // empty: not written
};

struct sddmm_command_options {
  run_options run;
  graph_argument graph;
  normalisation norm = normalisation::none;
  double alpha = 1;
  std::optional<std::int64_t> features;
  std::string left;    // empty: drawn
  std::string right;   // empty: drawn
  std::string output;  // empty: not written
};

enum class attention_kind : std::uint8_t { gat, gatv2, transformer };

/// Operands by the side that they belong to; the command names them as the verb does.
struct attention_options {
  run_options run;
  graph_argument graph;
  attention_kind kind = attention_kind::gatv2;
  std::optional<std::int64_t> heads, dim;
  std::string receivers;  // target, query or target scores; empty: drawn, as all operands
  std::string senders;    // source, key or source scores
  std::string values;     // value; the source of gat
  std::string vector;     // attention of gatv2
  double slope = 0.2;
  std::optional<double> scale;  // none: 1 / sqrt(dim)
  std::string output;           // empty: not written
  std::string logsumexp;        // the same
  std::string alpha;            // the same
  double dropout = 0;           // its mask follows from the run's seed
  std::string grad_output;      // empty: drawn, if a gradient is wanted
  // Gradients of the operands above; all empty: no backward pass.
  std::string grad_receivers, grad_senders, grad_values, grad_vector;

  bool wants_gradients() const {
    return !(grad_receivers.empty() && grad_senders.empty() && grad_values.empty() &&
             grad_vector.empty());
  }
};

/// What `bench` times: a reduction, a product, or attention.
enum class bench_op : std::uint8_t {
  sum,
  mean,
  min,
  max,
  spmm,
  sddmm,
  gat,
  gatv2,
  transformer,
  gat_backward,
  gatv2_backward,
  transformer_backward
};

struct measuring_options {
  std::int32_t repeat = 20;
  std::string json_file;  // empty: the table alone
};

struct bench_options {
  run_options run;
  graph_argument graph;
  std::vector<bench_op> ops{bench_op::sum};
  normalisation norm = normalisation::none;
  spmm_options plan;
  std::vector<std::int64_t> features{64};  // of all heads together
  std::vector<std::int64_t> heads{1};      // of attention
  measuring_options measuring;
};

/// Which table, and how to look at it.
struct table_argument {
  std::string path;                 // or synthetic:NAME,ROWS,WIDTH
  std::optional<number_format> as;  // none: floats of the file's type, else bits
  profile_options look;             // its seed is also that of synthetic numbers
};

struct profile_command_options {
  run_options run;
  table_argument table;
};

struct pack_command_options {
  run_options run;
  table_argument table;
  std::string output;
  std::optional<codec> how;  // none: the best one
  packing_goal goal = packing_goal::smallest;
};

struct bench_pack_options {
  run_options run;
  table_argument table;
  measuring_options measuring;
};

struct unpack_command_options {
  run_options run;
  std::string input;
  std::string output;
};

struct gather_command_options {
  run_options run;
  std::string input;
  std::string rows;
  std::string output;
};

void run(const info_options&);
void run(const convert_options&);
void run(const aggregate_options&);
void run(const spmm_command_options&);
void run(const sddmm_command_options&);
void run(const attention_options&);
void run(const bench_options&);
void run(const bench_pack_options&);
void run(const profile_command_options&);
void run(const pack_command_options&);
void run(const unpack_command_options&);
void run(const gather_command_options&);

}  // namespace quipu::cli
