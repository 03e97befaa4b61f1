// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/matrix_market.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <functional>
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

using edge = std::tuple<std::int64_t, std::int64_t, double>;

std::vector<edge> edges_of(const edge_data& data) {
  std::vector<edge> edges;
  for (std::size_t k = 0; k < data.row.size(); ++k) {
    edges.emplace_back(data.row[k], data.column[k], data.value.empty() ? 1 : data.value[k]);
  }
  return edges;
}

struct good_case {
  const char* name;
  std::string text;
  std::int64_t rows, columns;
  std::vector<edge> edges;  // in file order, each mirror behind its entry
  bool has_values = true;
};

struct bad_case {
  const char* name;
  std::string text;
  std::int64_t line;
  status_code code = status_code::parse_error;
};

const std::vector<good_case>& good_cases() {
  static const std::vector<good_case> cases = {
      {"r01_array_skew.mtx",
       "%%MatrixMarket matrix array real skew-symmetric\n4 4\n1.5\n-2\n0\n4\n5\n-6\n",
       4,
       4,
       {{1, 0, 1.5},
        {0, 1, -1.5},
        {2, 0, -2},
        {0, 2, 2},
        {2, 1, 4},
        {1, 2, -4},
        {3, 1, 5},
        {1, 3, -5},
        {3, 2, -6},
        {2, 3, 6}}},
      {"r03_symmetric_diag.mtx",
       "%%MatrixMarket matrix coordinate real symmetric\n%\n3 3 4\n1 1 2.0\n2 1 -1.0\n3 3 5.0\n"
       "3 2 0.5\n",
       3,
       3,
       {{0, 0, 2}, {1, 0, -1}, {0, 1, -1}, {2, 2, 5}, {2, 1, 0.5}, {1, 2, 0.5}}},
      {"r05_pattern_general.mtx",
       "%%MatrixMarket matrix coordinate pattern general\n4 4 4\n4 1\n1 2\n1 3\n3 2\n",
       4,
       4,
       {{3, 0, 1}, {0, 1, 1}, {0, 2, 1}, {2, 1, 1}},
       false},
      {"r06_blank_lines_case.mtx",
       "%%MatrixMarket  MATRIX   Coordinate  Real  GENERAL\n\n   3  4      3\n\n1 1   1.25\n\n"
       "2 4      -2.5e1\n   3    2    .5\n\n",
       3,
       4,
       {{0, 0, 1.25}, {1, 3, -25}, {2, 1, 0.5}}},
      {"r08_empty_comment.mtx",
       "%%MatrixMarket matrix coordinate integer general\n%\n%%\n% two empty comments above\n"
       "2 2 2\n1 2 7\n2 1 -3\n",
       2,
       2,
       {{0, 1, 7}, {1, 0, -3}}},
      {"r09_leading_space.mtx",
       " %%MatrixMarket matrix coordinate real general\n3 3 2\n2 3 1.0\n3 1 2.0\n",
       3,
       3,
       {{1, 2, 1}, {2, 0, 2}}},
      {"r17_int64.mtx",
       "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 2147483648\n"
       "2 2 -9007199254740993\n",
       2,
       2,
       {{0, 0, 2147483648.0}, {1, 1, -9007199254740992.0}}},
      {"r18_over64.mtx",
       "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 9223372036854775808\n",
       1,
       1,
       {{0, 0, 9223372036854775808.0}}},
      {"r19_single_percent.mtx",
       "%MatrixMarket matrix coordinate pattern symmetric\n4 4 2\n2 1\n4 3\n",
       4,
       4,
       {{1, 0, 1}, {0, 1, 1}, {3, 2, 1}, {2, 3, 1}},
       false},
      {"r24_crlf.mtx",
       "%%MatrixMarket matrix coordinate real general\r\n% dos file\r\n2 3 3\r\n1 1 1.5\r\n"
       "1 3 -2\r\n2 2 0.25\r\n",
       2,
       3,
       {{0, 0, 1.5}, {0, 2, -2}, {1, 1, 0.25}}},
      {"r26_no_final_newline.mtx",
       "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 3.5\n2 1 -4.75",
       2,
       2,
       {{0, 1, 3.5}, {1, 0, -4.75}}},
      {"r28_symmetric_both.mtx",
       "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 1\n3 3\n",
       3,
       3,
       {{1, 0, 1}, {0, 1, 1}, {2, 0, 1}, {0, 2, 1}, {2, 2, 1}},
       false},
  };
  return cases;
}

const std::vector<bad_case>& bad_cases() {
  static const std::vector<bad_case> cases = {
      {"r11_truncated.mtx",
       "%%MatrixMarket matrix coordinate real general\n4 4 5\n1 1 1\n2 2 2\n3 3 3\n", 2},
      {"r11b_cut_in_line.mtx", "%%MatrixMarket matrix coordinate real general\n4 4 2\n1 1 1\n2 2",
       4},
      {"r13_huge_nnz.mtx",
       "%%MatrixMarket matrix coordinate real general\n2 2 18446744073709551615\n1 1 1.0\n"
       "1 2 2.0\n",
       2},
      {"r13b_nnz_gt_file.mtx",
       "%%MatrixMarket matrix coordinate real general\n10 10 4000000000000\n1 1 1.0\n", 2},
      {"r15_index_too_large.mtx",
       "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.0\n4 1 2.0\n", 4},
      {"r15b_not_a_number.mtx",
       "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 ^ 1.0\n2 1 2.0\n", 3},
      {"r21_no_size_line.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 1\n3 1\n3 2\n",
       2},
      {"r22_hermitian.mtx",
       "%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 2.0 0.0\n2 1 3.0 4.0\n", 1,
       status_code::unsupported},
      {"r23_complex_general.mtx",
       "%%MatrixMarket matrix coordinate complex general\n2 2 2\n1 2 1.0 -1.0\n2 1 0.5 2.0\n", 1,
       status_code::unsupported},
  };
  return cases;
}

void check_good(const good_case& c, const result<edge_data>& got) {
  INFO(c.name << ": " << describe(got.error()));
  REQUIRE(got.ok());
  CHECK(got->rows == c.rows);
  CHECK(got->columns == c.columns);
  CHECK(got->value.size() == (c.has_values ? c.edges.size() : 0));
  CHECK(edges_of(*got) == c.edges);
}

void check_bad(const bad_case& c, const result<edge_data>& got) {
  INFO(c.name << ": " << describe(got.error()));
  REQUIRE_FALSE(got.ok());
  CHECK(got.error().code == c.code);
  CHECK(got.error().position == c.line);
}

/// Parses `body` behind a banner and a size line; both are given.
result<edge_data> parse(const std::string& banner, const std::string& body, int threads = 0) {
  return parse_matrix_market("%%MatrixMarket matrix " + banner + "\n" + body, threads);
}

double only_value(const std::string& digits, const char* field = "real") {
  const auto got = parse("coordinate " + std::string(field) + " general", "1 1 1\n1 1 " + digits);
  INFO(digits << ": " << describe(got.error()));
  REQUIRE(got.ok());
  return got->value.at(0);
}

bool same(const result<edge_data>& a, const result<edge_data>& b) {
  if (a.ok() != b.ok()) return false;
  if (!a.ok()) {
    return a.error().code == b.error().code && a.error().position == b.error().position &&
           std::string(a.error().message) == b.error().message;
  }
  const auto bits = [](const edge_data& d) {
    std::vector<std::uint64_t> out;
    for (const double v : d.value) out.push_back(std::bit_cast<std::uint64_t>(v));
    return out;
  };
  return a->rows == b->rows && a->columns == b->columns && a->row == b->row &&
         a->column == b->column && bits(*a) == bits(*b);
}

}  // namespace

TEST_CASE("Matrix Market: reported files that are right", "[host][io]") {
  temporary_folder folder;
  for (const auto& c : good_cases()) {
    check_good(c, parse_matrix_market(c.text));
    for (const int threads : {1, 2, 3, 50}) check_good(c, parse_matrix_market(c.text, threads));
    put_file(folder / c.name, c.text);
    check_good(c, read_matrix_market(folder / c.name));
    if (const auto path = shared_case(c.name)) {
      CHECK(file_content(*path) == c.text);
      check_good(c, read_matrix_market(*path));
    }
  }
}

TEST_CASE("Matrix Market: reported files that are wrong", "[host][io]") {
  temporary_folder folder;
  for (const auto& c : bad_cases()) {
    check_bad(c, parse_matrix_market(c.text));
    for (const int threads : {1, 2, 3, 50}) check_bad(c, parse_matrix_market(c.text, threads));
    put_file(folder / c.name, c.text);
    check_bad(c, read_matrix_market(folder / c.name));
    if (const auto path = shared_case(c.name)) {
      CHECK(file_content(*path) == c.text);
      check_bad(c, read_matrix_market(*path));
    }
  }
}

TEST_CASE("Matrix Market: line ends, blanks and comments", "[host][io]") {
  const good_case expected{"form", "", 2, 3, {{0, 0, 1.5}, {1, 2, -2}}};
  const std::string banner = "%%MatrixMarket matrix coordinate real general";
  for (const std::string end : {"\n", "\r\n", "\r", "\n\n", "\r\n\r\n", " \n", "\t\r\n"}) {
    const std::string text =
        banner + end + "%" + end + "2 3 2" + end + "1 1 1.5" + end + "% x" + end + "2 3 -2";
    check_good(expected, parse_matrix_market(text));
    check_good(expected, parse_matrix_market(text + end));
    check_good(expected, parse_matrix_market(end + text + end, 3));
  }
  check_good(expected, parse_matrix_market(banner + "\n2 3 2\n1 1 1.5\n2 3 -2\r"));
  check_good(expected, parse_matrix_market("\xEF\xBB\xBF" + banner + "\n2 3 2\n1 1 1.5\n2 3 -2"));
  check_good(expected, parse_matrix_market(banner + "\n\t2\t3\t2\n\t1 1\t+1.5\t\n2 3 -2e0"));
}

TEST_CASE("Matrix Market: numbers are correctly rounded", "[host][io]") {
  CHECK(only_value("0.1") == 0.1);
  CHECK(only_value("1.") == 1.0);
  CHECK(only_value("+.5E+1") == 5.0);
  CHECK(only_value("123456789012345678901234567890") == 123456789012345678901234567890.0);
  CHECK(only_value("9007199254740993") == 9007199254740992.0);
  CHECK(only_value("0.30000000000000004") == 0.30000000000000004);
  CHECK(only_value("2.2250738585072011e-308") == 2.2250738585072011e-308);
  CHECK(only_value("4.9e-324") == std::numeric_limits<double>::denorm_min());
  CHECK(only_value("1.7976931348623157e308") == std::numeric_limits<double>::max());
  CHECK(only_value("0." + std::string(30, '0') + "1") == 1e-31);
  CHECK(only_value("1e-400") == 0.0);
  CHECK(only_value("0." + std::string(400, '0') + "1") == 0.0);
  CHECK(std::signbit(only_value("-1e-99999999999999999999")));
  CHECK(std::signbit(only_value("-0")));
  CHECK(std::isnan(only_value("nan")));
  CHECK(only_value("-inf") == -std::numeric_limits<double>::infinity());
  CHECK(only_value("18446744073709551616", "integer") == 18446744073709551616.0);
  CHECK(only_value("-9999999999999999999", "integer") == -1e19);
  CHECK(only_value("+00000000000000000000000000000007", "integer") == 7.0);
}

TEST_CASE("Matrix Market: bad fields name their line", "[host][io]") {
  for (const std::string value : {"", "x", "1x", "1e", "1 2", ".", "+-1", "--1", "1e400", "0x1p3",
                                  "1,5", "-", "1e+", "inf1", "1\v2"}) {
    INFO("value '" << value << "'");
    check_bad({"value", "", 4},
              parse("coordinate real general", "2 2 2\n1 1 1\n2 2 " + value + "\n"));
  }
  for (const std::string value : {"1.0", "1e3", "nan", "", "1 1", "-"}) {
    INFO("integer '" << value << "'");
    check_bad({"integer", "", 4},
              parse("coordinate integer general", "2 2 2\n1 1 1\n2 2 " + value + "\n"));
  }
  for (const std::string line : {"0 1", "1 0", "3 1", "1 4", "-1 1", "1 -1", "1", "1 1 1", "1.0 1",
                                 "+1 1", "1 99999999999999999999", "a b", "1;1"}) {
    INFO("line '" << line << "'");
    check_bad({"index", "", 5},
              parse("coordinate pattern general", "2 3 3\n\n1 3\n" + line + "\n2 1\n"));
  }
  check_bad({"diagonal", "", 4}, parse("coordinate real skew-symmetric", "3 3 2\n2 1 5\n3 3 0\n"));
}

TEST_CASE("Matrix Market: bad headers", "[host][io]") {
  const auto parse_text = [](const std::string& text) { return parse_matrix_market(text); };
  for (const std::string text :
       {"", "\n", "1 1 1\n", "%%MatrixMarket", "%%MatrixMarket\n", "%%%MatrixMarket matrix",
        "%%MatrixMarket vector coordinate real general\n1 1 0\n",
        "%%MatrixMarket matrix list real general\n1 1 0\n",
        "%%MatrixMarket matrix coordinate quaternion general\n1 1 0\n",
        "%%MatrixMarket matrix coordinate real\n1 1 0\n",
        "%%MatrixMarket matrix coordinate real diagonal\n1 1 0\n",
        "%%MatrixMarket matrix coordinate real general more\n1 1 0\n",
        "%%MatrixMarket matrix array pattern general\n1 1\n1\n",
        "%%MatrixMarket matrix coordinate pattern skew-symmetric\n2 2 1\n2 1\n"}) {
    INFO("text '" << text << "'");
    const auto got = parse_text(text);
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().code == status_code::parse_error);
    CHECK(got.error().position >= 1);
  }
  CHECK(parse("coordinate real hermitian", "1 1 0\n").error().code == status_code::unsupported);
  for (const std::string size : {"1 1", "1 1 0 0", "1 1 x", "1 1 1.0", "-1 1 0", "1 1 -1",
                                 "9223372036854775808 1 0", "1 1 1", "2 3 4000000000000000000"}) {
    INFO("size line '" << size << "'");
    check_bad({"size", "", 3}, parse("coordinate real general", "%\n" + size + "\n"));
  }
  check_bad({"none", "", 2}, parse("coordinate real general", "% only a comment"));
  check_bad({"square", "", 2}, parse("coordinate real symmetric", "2 3 0\n"));
  const auto mismatch = parse("coordinate real general", "9 9 2\n1 1 1\n2 2 2\n3 3 3\n");
  check_bad({"more", "", 2}, mismatch);
  CHECK(mismatch.error().expected == 2);
  CHECK(mismatch.error().actual == 3);
  CHECK(parse_matrix_market("", -1).error().code == status_code::invalid_argument);
}

TEST_CASE("Matrix Market: sizes are 64 bit", "[host][io]") {
  const auto got = parse("coordinate pattern general",
                         "9223372036854775807 4294967297 1\n9223372036854775807 4294967297\n");
  REQUIRE(got.ok());
  CHECK(got->rows == std::numeric_limits<std::int64_t>::max());
  CHECK(got->row.at(0) == std::numeric_limits<std::int64_t>::max() - 1);
  CHECK(got->column.at(0) == 4294967296);
  CHECK(parse("coordinate real general", "0 0 0\n").ok());
}

TEST_CASE("Matrix Market: array files keep their non-zeros", "[host][io]") {
  check_good({"general", "", 3, 2, {{1, 0, 2}, {0, 1, 4}, {2, 1, -6}}},
             parse("array real general", "3 2\n0\n2\n0\n4\n-0\n-6\n"));
  check_good({"integer", "", 1, 2, {{0, 1, 5}}}, parse("array integer general", "1 2\n0\n5\n"));
  const std::string triangle = "3 3\n1\n2\n0\n4\n5\n6\n";
  for (const int threads : {1, 2, 3, 4, 5, 6, 7}) {
    check_good({"symmetric",
                "",
                3,
                3,
                {{0, 0, 1}, {1, 0, 2}, {0, 1, 2}, {1, 1, 4}, {2, 1, 5}, {1, 2, 5}, {2, 2, 6}}},
               parse("array real symmetric", triangle, threads));
  }
  check_good({"one", "", 1, 1, {}}, parse("array real skew-symmetric", "1 1\n"));
  check_good({"none", "", 0, 7, {}}, parse("array real general", "0 7\n"));
  check_bad({"few", "", 2}, parse("array real general", "2 2\n1\n2\n3\n"));
  check_bad({"many", "", 2}, parse("array real general", "1 2\n1\n2\n3\n"));
  check_bad({"two in a line", "", 3}, parse("array real general", "1 2\n1 2\n3\n"));
  for (const std::string size : {"4294967296 4294967296", "9223372036854775807 2",
                                 "9223372036854775807 1", "3000000000 3000000000"}) {
    check_bad({"huge", "", 2}, parse("array real general", size + "\n1\n"));
  }
  check_bad({"huge", "", 2}, parse("array real symmetric", "4294967296 4294967296\n1\n"));
  check_bad({"huge", "", 2}, parse("array real symmetric", "2000000000 2000000000\n1\n"));
}

TEST_CASE("Matrix Market: any number of threads gives the same answer", "[host][io]") {
  std::string body;
  const int lines = 5000;
  for (int k = 0; k < lines; ++k) {
    body += std::to_string(k % 97 + 1) + " " + std::to_string(k * 31 % 97 + 1) + " " +
            std::to_string(k) + ".25" + (k % 3 == 0 ? "\r\n" : "\n") + (k % 7 == 0 ? "%\n\n" : "");
  }
  const std::string size = "97 97 " + std::to_string(lines) + "\n";
  std::string broken = body;
  for (const std::size_t where : {broken.size() / 5, broken.size() / 2, broken.size() / 4 * 3}) {
    broken[broken.find('.', where)] = '?';
  }
  for (const std::string banner : {"coordinate real general", "coordinate real symmetric"}) {
    const auto right = parse(banner, size + body, 1), wrong = parse(banner, size + broken, 1);
    REQUIRE(right.ok());
    REQUIRE_FALSE(wrong.ok());
    for (const int threads : {0, 2, 3, 4, 7, 16, 1000}) {
      CHECK(same(right, parse(banner, size + body, threads)));
      CHECK(same(wrong, parse(banner, size + broken, threads)));
    }
  }
}

TEST_CASE("Matrix Market: written files read back, and failures leave nothing", "[host][io]") {
  temporary_folder folder;
  edge_data edges{3, 2, {2, 0, 2}, {1, 0, 1}, {0.1, -0.0, 5e-324}};
  REQUIRE(write_matrix_market(folder / "a.mtx", edges).ok());
  CHECK(file_content(folder / "a.mtx") ==
        "%%MatrixMarket matrix coordinate real general\n3 2 3\n3 2 0.1\n1 1 -0\n3 2 5e-324\n");
  edges.value.clear();
  REQUIRE(write_matrix_market(folder / "a.mtx", edges).ok());
  CHECK(file_content(folder / "a.mtx") ==
        "%%MatrixMarket matrix coordinate pattern general\n3 2 3\n3 2\n1 1\n3 2\n");
  CHECK(folder.files() == 1);

  const auto missing = write_matrix_market(folder / "no/such/folder.mtx", edges);
  CHECK(missing.code == status_code::io_error);
  CHECK(missing.native == ENOENT);
  CHECK(read_matrix_market(folder / "none.mtx").error().native == ENOENT);
  CHECK(read_matrix_market(folder / "").error().code == status_code::io_error);

  edge_data large{1, 1, std::vector<std::int64_t>(100000), std::vector<std::int64_t>(100000), {}};
  {
    const file_size_limit limit(65536);
    CHECK(write_matrix_market(folder / "a.mtx", large).code == status_code::io_error);
    CHECK(write_matrix_market(folder / "b.mtx", large).native == EFBIG);
  }
  CHECK(folder.files() == 1);
  CHECK(read_matrix_market(folder / "a.mtx").ok());

  std::filesystem::create_symlink(folder / "a.mtx", folder / "link.mtx");
  REQUIRE(write_matrix_market(folder / "link.mtx", large).ok());
  CHECK(std::filesystem::is_symlink(folder / "link.mtx"));
  CHECK(read_matrix_market(folder / "a.mtx")->row.size() == 100000);
  if (std::filesystem::exists("/dev/full")) {
    CHECK(write_matrix_market("/dev/full", large).native == ENOSPC);
    CHECK(std::filesystem::is_character_file("/dev/full"));
  }
}

TEST_CASE("Matrix Market: edges that do not fit together are refused", "[host][io]") {
  temporary_folder folder;
  const auto code = [&](const edge_data& e) {
    return write_matrix_market(folder / "x.mtx", e).code;
  };
  CHECK(code({-1, 1, {}, {}, {}}) == status_code::invalid_argument);
  CHECK(code({1, 1, {0}, {}, {}}) == status_code::invalid_argument);
  CHECK(code({1, 1, {0}, {0}, {1, 2}}) == status_code::invalid_argument);
  CHECK(code({1, 1, {1}, {0}, {}}) == status_code::out_of_range);
  CHECK(code({1, 1, {0}, {-1}, {}}) == status_code::out_of_range);
  CHECK(folder.files() == 0);
}

#if __has_include(<rapidcheck.h>)
TEST_CASE("Matrix Market: properties", "[host][io]") {
  temporary_folder folder;
  const auto any_edges = [](bool with_values) {
    edge_data data;
    data.rows = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 62);
    data.columns = *rc::gen::inRange<std::int64_t>(1, 1000);
    const auto count = *rc::gen::inRange<std::size_t>(1, 200);
    data.row = *rc::gen::container<std::vector<std::int64_t>>(
        count, rc::gen::inRange<std::int64_t>(0, data.rows));
    data.column = *rc::gen::container<std::vector<std::int64_t>>(
        count, rc::gen::inRange<std::int64_t>(0, data.columns));
    if (!with_values) return data;
    for (const auto bits : *rc::gen::container<std::vector<std::uint64_t>>(
             count, rc::gen::arbitrary<std::uint64_t>())) {
      const double value = std::bit_cast<double>(bits);
      data.value.push_back(std::isnan(value) ? 0.5 : value);
    }
    return data;
  };
  REQUIRE(rc::check("what is written reads back bit for bit", [&](bool with_values) {
    const edge_data data = any_edges(with_values);
    RC_ASSERT(write_matrix_market(folder / "p.mtx", data).ok());
    RC_ASSERT(same(data, read_matrix_market(folder / "p.mtx")));
  }));
  REQUIRE(rc::check("threads never change the outcome", [] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "1 2 3\n", "2 2 0.5\n", "3 1 -1\r\n", "\n", "% c\n", "1 1\n", "9 9 9\n", "x", "2 1 7\r"));
    std::string body;
    for (const auto& piece : pieces) body += piece;
    const auto lines = *rc::gen::inRange<std::size_t>(0, pieces.size() + 1);
    const std::string banner = *rc::gen::element<std::string>(
        "coordinate real general", "coordinate real symmetric", "coordinate integer general");
    const std::string rest = "3 3 " + std::to_string(lines) + "\n" + body;
    const auto alone = parse(banner, rest, 1);
    for (const int threads : {2, 3, 5, 17}) RC_ASSERT(same(alone, parse(banner, rest, threads)));
  }));
}
#endif
