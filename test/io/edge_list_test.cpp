// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/edge_list.hpp"

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "case_files.hpp"
#include "support/catch.hpp"

#if __has_include(<rapidcheck.h>)
#include <rapidcheck.h>
#endif

using namespace quipu;
using namespace quipu_test;

namespace {

using edge = std::tuple<std::int64_t, std::int64_t, double>;  // from, to, weight

std::vector<edge> edges_of(const edge_data& data) {
  std::vector<edge> edges;
  for (std::size_t k = 0; k < data.row.size(); ++k) {
    edges.emplace_back(data.column[k], data.row[k], data.value.empty() ? 1 : data.value[k]);
  }
  return edges;
}

struct good_case {
  const char* name;
  std::string text;
  std::int64_t nodes;
  std::vector<edge> edges;
  bool has_weights = false;
  edge_list_options options = {};
};

struct bad_case {
  const char* name;
  std::string text;
  std::int64_t line;
  edge_list_options options = {};
};

const std::vector<good_case>& good_cases() {
  static const std::vector<good_case> cases = {
      {"e01_inline_comment.txt",
       "0 1 # first\n# 7 8\n1 2#tight\n2 0\n",
       3,
       {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}}},
      {"e03_weights.txt",
       "1 2 1\n1 3 0.5\n1 4 2e-3\n",
       5,
       {{1, 2, 1}, {1, 3, 0.5}, {1, 4, 0.002}},
       true},
      {"e05_blank_lines.txt", "\n0 1\n\n   \n1 2\n\n", 3, {{0, 1, 1}, {1, 2, 1}}},
      {"e09_commas.csv",
       "0,1,2.5\n1, 2, -1\n2,0,4\n",
       3,
       {{0, 1, 2.5}, {1, 2, -1}, {2, 0, 4}},
       true},
      {"e11_one_based_tab.tsv",
       "1\t2\t3\n3\t1\t-4\n",
       3,
       {{0, 1, 3}, {2, 0, -4}},
       true,
       {.base = id_base::one}},
      {"e13_big_ids.txt",
       "4294967297 1\n1 4294967297\n",
       4294967298,
       {{4294967297, 1, 1}, {1, 4294967297, 1}}},
      {"e16_empty.txt", "# nothing\n\n", 0, {}},
  };
  return cases;
}

const std::vector<bad_case>& bad_cases() {
  static const std::vector<bad_case> cases = {
      {"e07_bad_line.txt", "0 1\n1\n1 2\n", 2},
      {"e11b_names.txt", "a b\nb c\n", 1},
  };
  return cases;
}

void check_good(const good_case& c, const result<edge_data>& got) {
  INFO(c.name << ": " << describe(got.error()));
  REQUIRE(got.ok());
  CHECK(got->rows == c.nodes);
  CHECK(got->columns == c.nodes);
  CHECK(got->value.size() == (c.has_weights ? c.edges.size() : 0));
  CHECK(edges_of(*got) == c.edges);
}

void check_bad(const bad_case& c, const result<edge_data>& got) {
  INFO(c.name << ": " << c.text);
  REQUIRE_FALSE(got.ok());
  CHECK(got.error().code == status_code::parse_error);
  CHECK(got.error().position == c.line);
}

void check_bad_text(const std::string& text, std::int64_t line, edge_list_options options = {}) {
  for (const int threads : {0, 1, 2, 5}) {
    check_bad({"text", text, line}, parse_edge_list(text, options, threads));
  }
}

bool same(const result<edge_data>& a, const result<edge_data>& b) {
  if (a.ok() != b.ok()) return false;
  if (!a.ok()) {
    return a.error().code == b.error().code && a.error().position == b.error().position &&
           std::string(a.error().message) == b.error().message;
  }
  return a->rows == b->rows && a->columns == b->columns && a->row == b->row &&
         a->column == b->column && a->value == b->value;
}

}  // namespace

TEST_CASE("edge list: reported files that are right", "[host][io]") {
  temporary_folder folder;
  for (const auto& c : good_cases()) {
    for (const int threads : {0, 1, 2, 3, 50}) {
      check_good(c, parse_edge_list(c.text, c.options, threads));
    }
    put_file(folder / c.name, c.text);
    check_good(c, read_edge_list(folder / c.name, c.options));
    if (const auto path = shared_case(c.name)) {
      CHECK(file_content(*path) == c.text);
      check_good(c, read_edge_list(*path, c.options));
    }
  }
}

TEST_CASE("edge list: reported files that are wrong", "[host][io]") {
  temporary_folder folder;
  for (const auto& c : bad_cases()) {
    check_bad_text(c.text, c.line, c.options);
    put_file(folder / c.name, c.text);
    check_bad(c, read_edge_list(folder / c.name, c.options));
    if (const auto path = shared_case(c.name)) {
      CHECK(file_content(*path) == c.text);
      check_bad(c, read_edge_list(*path, c.options));
    }
  }
  CHECK(read_edge_list(folder / "none.txt").error().native == ENOENT);
  CHECK(read_edge_list(folder / "").error().code == status_code::io_error);
}

TEST_CASE("edge list: line ends, blanks, comments and nothing at all", "[host][io]") {
  for (const std::string end : {"\n", "\r\n", "\r", "\n\n", " \n", "% x\n", "\t#\r\n"}) {
    const std::string text = "0 1" + end + "#" + end + "  2\t 0" + end;
    for (const int threads : {1, 2, 3, 9}) {
      check_good({"text", "", 3, {{0, 1, 1}, {2, 0, 1}}}, parse_edge_list(text, {}, threads));
    }
  }
  check_good({"mark", "", 2, {{1, 1, 1}}}, parse_edge_list("\xEF\xBB\xBF"
                                                           "1 1"));
  for (const std::string text : {"", "\n", "  ", "#", "% 1 2\r", "\r\n\r\n"}) {
    check_good({"none", "", 0, {}}, parse_edge_list(text));
    check_good({"none", "", 7, {}}, parse_edge_list(text, {.nodes = 7}));
  }
}

TEST_CASE("edge list: options", "[host][io]") {
  const edge_list_options one{.base = id_base::one};
  check_good({"base", "", 4, {{0, 1, 1}, {0, 3, 1}}}, parse_edge_list("1 2\n1 4\n", one));
  check_good({"nodes", "", 9, {{0, 8, 1}}}, parse_edge_list("0 8", {.nodes = 9}));
  check_good({"nodes", "", 8, {{0, 7, 1}}},
             parse_edge_list("1 8", {.base = id_base::one, .nodes = 8}));
  check_bad_text("0 1\n0 9\n", 2, {.nodes = 9});
  check_bad_text("1 9\n", 1, {.base = id_base::one, .nodes = 8});
  check_bad_text("1 2\n2 0\n", 2, one);
  for (const char c : {',', ';', '|', ':'}) {
    const std::string s(1, c);
    const edge_list_options options{.separator = c};
    check_good({"text", "", 3, {{0, 1, 2.5}, {1, 2, -1}}, true},
               parse_edge_list("0" + s + "1" + s + "2.5\n 1 " + s + " 2 " + s + " -1 \n", options));
    check_bad_text("0" + s + "1\n0 1\n", 2, options);
    check_bad_text("0" + s + s + "1\n", 1, options);
    check_bad_text("0" + s + "1" + s + "\n", 1, options);
    check_bad_text(s + "0" + s + "1\n", 1, options);
  }
  for (const char c : {' ', '\t'}) {
    check_good({"text", "", 2, {{0, 1, 1}}}, parse_edge_list("0 \t 1", {.separator = c}));
    check_bad_text("0,1", 1, {.separator = c});
  }
  // The first line settles the separator; later lines must follow.
  check_bad_text("0 1\n0,1\n", 2);
  check_bad_text("0,1\n0 1\n", 2);
  check_good({"comment", "", 2, {{0, 1, 1}}}, parse_edge_list("0 1 # a, b"));
  const auto code = [](edge_list_options options, int threads = 0) {
    return parse_edge_list("0 1", options, threads).error().code;
  };
  CHECK(code({.nodes = -1}) == status_code::invalid_argument);
  CHECK(code({.separator = 'x'}) == status_code::invalid_argument);
  CHECK(code({.separator = '#'}) == status_code::invalid_argument);
  CHECK(code({.base = static_cast<id_base>(7)}) == status_code::invalid_argument);
  CHECK(code({}, -1) == status_code::invalid_argument);
}

TEST_CASE("edge list: the first bad line is named", "[host][io]") {
  for (const std::string line :
       {"1", "1 2 3 4", "-1 2", "1 -2", "+1 2", "1.0 2", "1 2.5", "x 1", "1 y", "1 2 z", "1 2 0.5x",
        "1 2 1e999", "9223372036854775808 1", "99999999999999999999999 1", "1;2", "1 2,3"}) {
    INFO("line '" << line << "'");
    check_bad_text("% head\n0 1\n\n" + line + "\n1\n", 4);
  }
  check_bad_text("0 1\n1 2 0.5\n", 2);
  check_bad_text("0 1 0.5\n1 2\n", 2);
  check_bad_text("0 1 0.5\n1 2 # 0.5\n", 2);
  check_bad_text("0 1 0.5\r1 2 1\r3\r4\r", 3);
}

TEST_CASE("edge list: the largest ids", "[host][io]") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  check_good({"most", "", most, {{most - 1, 0, 1}}}, parse_edge_list("9223372036854775806 0"));
  check_good({"most", "", most, {{most - 1, 0, 1}}},
             parse_edge_list("9223372036854775807 1", {.base = id_base::one}));
  check_bad_text("0 1\n0 9223372036854775807\n", 2);  // max id + 1 would not fit
  check_good({"zeros", "", 8, {{7, 0, 1}}}, parse_edge_list(std::string(40, '0') + "7 000"));
}

TEST_CASE("edge list: any number of threads gives the same answer", "[host][io]") {
  std::string text;
  for (int k = 0; k < 5000; ++k) {
    text += std::to_string(k % 997) + (k % 2 ? " " : "\t") + std::to_string(k * 31 % 1009) +
            (k % 3 == 0 ? "\r\n" : "\n") + (k % 7 == 0 ? "# x\n\n" : "");
  }
  std::string broken = text;
  for (const std::size_t where : {broken.size() / 5, broken.size() / 2, broken.size() / 4 * 3}) {
    broken[broken.find('\t', where)] = '?';
  }
  const auto right = parse_edge_list(text, {}, 1), wrong = parse_edge_list(broken, {}, 1);
  REQUIRE(right.ok());
  REQUIRE_FALSE(wrong.ok());
  for (const int threads : {0, 2, 3, 4, 7, 16, 1000}) {
    CHECK(same(right, parse_edge_list(text, {}, threads)));
    CHECK(same(wrong, parse_edge_list(broken, {}, threads)));
  }
}

#if __has_include(<rapidcheck.h>)
TEST_CASE("edge list: properties", "[host][io]") {
  REQUIRE(rc::check("what is printed reads back", [](bool weighted) {
    const auto most = std::int64_t{1} << *rc::gen::inRange(1, 63);
    const auto ids = rc::gen::inRange<std::int64_t>(0, most);
    const auto pairs =
        *rc::gen::container<std::vector<std::tuple<std::int64_t, std::int64_t, int>>>(
            rc::gen::tuple(ids, ids, rc::gen::inRange(-100000, 100000)));
    std::string text;
    std::vector<edge> expected;
    for (const auto& [from, to, eighths] : pairs) {
      text += std::to_string(from) + "," + std::to_string(to);
      if (weighted) text += "," + std::to_string(eighths / 8.0);
      text += "\n";
      expected.emplace_back(from, to, weighted ? eighths / 8.0 : 1.0);
    }
    for (const int threads : {1, 4}) {
      const auto got = parse_edge_list(text, {}, threads);
      RC_ASSERT(got.ok());
      RC_ASSERT(edges_of(*got) == expected);
    }
  }));
  REQUIRE(rc::check("threads never change the outcome", [] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "1 2\n", "2 2\n", "3 1\r\n", "\n", "% c\n", "1\n", "9 9 9\n", "x", "2 1\r", "#"));
    std::string text;
    for (const auto& piece : pieces) text += piece;
    const auto alone = parse_edge_list(text, {}, 1);
    for (const int threads : {2, 3, 5, 17}) {
      RC_ASSERT(same(alone, parse_edge_list(text, {}, threads)));
    }
  }));
}
#endif
