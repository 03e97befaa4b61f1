// SPDX-License-Identifier: Apache-2.0
#pragma once

// Public bug reports about attention, named by their ids in the collection they come from.

#include <fstream>
#include <nlohmann/json.hpp>

#include "attention/attention_checks.hpp"

namespace test {

/// A number, or its name where JSON has none.
inline double number_of(const nlohmann::json& j) {
  return j.is_string() ? std::stod(j.get<std::string>()) : j.get<double>();
}
inline void flatten(const nlohmann::json& j, std::vector<double>& to) {
  if (j.is_array()) {
    for (const auto& e : j) flatten(e, to);
  } else {
    to.push_back(number_of(j));
  }
}
inline oracle::matrix matrix_of(const nlohmann::json& j, std::int64_t rows, std::int64_t width) {
  oracle::matrix m(rows, width);
  m.values.clear();
  flatten(j, m.values);
  REQUIRE(static_cast<std::int64_t>(m.values.size()) == rows * width);
  return m;
}

template <class T, class Runner>
void check_attention_case(const Runner& runner, const nlohmann::json& c) {
  oracle::graph g;
  g.rows = c.at("num_dst");
  g.columns = c.at("num_src");
  g.offsets = c.at("rowptr").get<std::vector<std::int64_t>>();
  g.indices = c.at("col").get<std::vector<std::int64_t>>();
  const std::int64_t heads = c.at("heads"), dim = c.at("dim");
  const bool v2 = c.at("kind") == "gatv2";
  auto p = make_problem<T>(
      g, {v2 ? oracle::attention::gatv2 : oracle::attention::transformer, heads, dim});
  const auto operand = [&](const char* name, std::int64_t rows) {
    return stored_heads<T>(matrix_of(c.at(name), rows, heads * dim), heads, dim, {}, NAN);
  };
  // Values may be narrower than keys: what is left is zeros, and is not compared.
  const auto& first_value = c.at(v2 ? "x_src" : "v");
  const auto value_dim =
      first_value.empty() ? dim : static_cast<std::int64_t>(first_value.at(0).at(0).size());
  const auto padded = [&](const nlohmann::json& j, std::int64_t rows) {
    const auto narrow = matrix_of(j, rows, heads * value_dim);
    oracle::matrix m(rows, heads * dim);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t f = 0; f < heads * value_dim; ++f)
        m.at(i, f / value_dim * dim + f % value_dim) = narrow.at(i, f);
    return m;
  };
  p.receivers = operand(v2 ? "x_dst" : "q", g.rows);
  p.senders = operand(v2 ? "x_src" : "k", g.columns);
  p.values = stored_heads<T>(padded(first_value, g.columns), heads, dim, {}, NAN);
  if (v2) {
    p.vector = stored_matrix<T>(matrix_of(c.at("att"), heads, dim));
    p.slope = c.at("negative_slope");
  } else {
    p.scale = c.at("scale");
  }
  const auto got = runner(p);
  const double tolerance = c.at("tol");
  const auto close = [&](const oracle::matrix& have, const oracle::matrix& want) {
    for (std::size_t k = 0; k < want.values.size(); ++k) {
      INFO("element " << k << " want " << want.values[k] << " got " << have.values[k]);
      REQUIRE(std::fabs(have.values[k] - want.values[k]) <=
              tolerance * std::max(1.0, std::fabs(want.values[k])));
    }
  };
  close(got.output.rounded(), padded(c.at("expect").at("out"), g.rows));
  close(got.alpha.rounded(),
        matrix_of(c.at("expect").at("alpha"), static_cast<std::int64_t>(g.indices.size()), heads));
}

/// All cases of the collection, where it lies beside the repository.
template <class Runner>
void check_attention_cases(const Runner& runner) {
  const char* shared = std::getenv("QUIPU_SHARED");
  std::ifstream file(shared == nullptr ? std::string()
                                       : std::string(shared) + "/cases/kernel_cases.json");
  if (!file) {
    WARN("skipped: no collection of cases here (QUIPU_SHARED)");
    return;
  }
  int found = 0;
  const auto collection = nlohmann::json::parse(file);
  for (const auto& c : collection.at("cases")) {
    if (c.at("kind") != "gatv2" && c.at("kind") != "transformer") continue;
    INFO(c.at("id").get<std::string>());
    ++found;
    if (c.at("dtype") == "f16") {
      check_attention_case<quipu::float16>(runner, c);
    } else {
      check_attention_case<float>(runner, c);
    }
  }
  REQUIRE(found > 0);
}

/// Those that need no numbers from outside.
template <class Runner>
void check_attention_corners(const Runner& runner) {
  oracle::graph g;
  g.rows = 2;
  g.columns = 4;
  g.offsets = {0, 2, 4};
  g.indices = {0, 1, 2, 3};
  const double inf = std::numeric_limits<double>::infinity();
  const auto column = [](std::vector<double> values) {
    oracle::matrix m(static_cast<std::int64_t>(values.size()), 1);
    m.values = std::move(values);
    return stored_heads<float>(m, 1, 1, {}, NAN);
  };
  {  // A06: a row whose logits are all -inf gives zeros, not NaN
    auto p = make_problem<float>(g, {oracle::attention::transformer, 1, 1});
    p.receivers = column({1, 1});
    p.senders = column({0.5, -0.25, -inf, -inf});
    p.values = column({2, 4, 6, 8});
    const auto got = runner(p);
    REQUIRE(std::fabs(got.output.m.at(0, 0) - 2.64164260165) < 1e-5);
    REQUIRE(got.output.m.at(1, 0) == 0.0f);
    REQUIRE(got.logsumexp.at(1, 0) == -std::numeric_limits<float>::infinity());
    REQUIRE(got.alpha.at(2, 0) == 0.0f);
  }
  {  // whatever the values are: without a weight there is nothing
    auto p = make_problem<float>(g, {oracle::attention::transformer, 1, 1});
    p.receivers = column({1, 1});
    p.senders = column({0.5, -0.25, -inf, -inf});
    p.values = column({2, 4, inf, NAN});
    const auto got = runner(p);
    REQUIRE(got.output.m.at(1, 0) == 0.0f);
    REQUIRE(got.alpha.at(3, 0) == 0.0f);
  }
  {  // all senders at -inf, which are the values too
    auto p = make_problem<float>(g, {oracle::attention::gatv2, 1, 1});
    p.receivers = column({1, 1});
    p.senders = column({-inf, -inf, 2, 2});
    p.vector = stored_matrix<float>(1, 1, 1.0);
    const auto got = runner(p);
    REQUIRE(got.output.m.at(0, 0) == 0.0f);
    REQUIRE(got.logsumexp.at(0, 0) == -std::numeric_limits<float>::infinity());
    REQUIRE(std::fabs(got.output.m.at(1, 0) - 2.0f) < 1e-5f);
  }
  {  // one sender at -inf: leaky(-inf) is -inf, not NaN
    auto p = make_problem<float>(g, {oracle::attention::gatv2, 1, 1});
    p.receivers = column({1, 1});
    p.senders = column({-inf, 3, 2, 2});
    p.vector = stored_matrix<float>(1, 1, 1.0);
    const auto got = runner(p);
    REQUIRE(got.alpha.at(0, 0) == 0.0f);
    REQUIRE(std::fabs(got.alpha.at(1, 0) - 1.0f) < 1e-6f);
    REQUIRE(std::fabs(got.logsumexp.at(0, 0) - 4.0f) < 1e-5f);
    REQUIRE(std::fabs(got.output.m.at(1, 0) - 2.0f) < 1e-5f);
  }
  {  // a NaN stays in its own row
    auto p = make_problem<float>(g, {oracle::attention::gatv2, 1, 1});
    p.senders = column({NAN, 3, 2, 2});
    const auto got = runner(p);
    REQUIRE(std::isnan(got.output.m.at(0, 0)));
    REQUIRE(std::isnan(got.logsumexp.at(0, 0)));
    REQUIRE(std::fabs(got.output.m.at(1, 0) - 2.0f) < 1e-5f);
  }
  {  // scale 0 is a value: equal weights
    auto p = make_problem<float>(g, {oracle::attention::transformer, 1, 8});
    p.scale = 0;
    const auto got = runner(p);
    for (int k = 0; k < 4; ++k) REQUIRE(std::fabs(got.alpha.at(k, 0) - 0.5f) < 1e-6f);
  }
}

}  // namespace test
