// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/npy.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "case_files.hpp"
#include "support/catch.hpp"

#if __has_include(<rapidcheck.h>)
#include <rapidcheck.h>
#endif

using namespace quipu;
using namespace quipu_test;

namespace {

/// A .npy file of `version` whose data begins at byte `data_at`.
std::string npy_file(const std::string& dictionary, const std::string& data, char version = 1,
                     std::size_t data_at = 128) {
  const std::size_t preamble = version == 1 ? 10 : 12;
  const std::size_t length = data_at - preamble;
  std::string file = std::string("\x93NUMPY") + version + '\0';
  for (std::size_t i = 0; i < preamble - 8; ++i) file += static_cast<char>(length >> 8 * i & 0xff);
  file += dictionary;
  REQUIRE(file.size() < data_at);
  file.append(data_at - file.size() - 1, ' ');
  return file + '\n' + data;
}

std::string dictionary(const std::string& dtype, const std::string& shape, bool fortran = false) {
  return "{'descr': " + dtype + ", 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

template <class T>
std::string raw(std::initializer_list<T> numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.begin(), bytes.size());
  return bytes;
}

std::string reversed(std::string bytes) {
  std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

result<npy_array> parse(const std::string& file) {
  return parse_npy(std::as_bytes(std::span(file.data(), file.size())));
}

struct good_case {
  const char* name;
  std::string file;
  npy_kind kind;
  std::vector<std::int64_t> shape;
  std::vector<double> numbers;
};

struct bad_case {
  const char* name;
  std::string file;
  status_code code = status_code::parse_error;
};

std::vector<good_case> good_cases() {
  const std::vector<double> six = {-1.5, -0.5, 0.5, 1.5, 2.5, 3.5};
  const std::string by_rows = raw({-1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3.5f});
  const std::string by_columns = raw({-1.5f, 1.5f, -0.5f, 2.5f, 0.5f, 3.5f});
  const std::string swapped = reversed(raw({1.0f})) + reversed(raw({-2.0f})) +
                              reversed(raw({3.5f})) + reversed(raw({0.001f}));
  return {
      {"n01_fortran.npy",
       npy_file(dictionary("'<f4'", "(2, 3)", true), by_columns),
       npy_kind::f4,
       {2, 3},
       six},
      {"n03_long_header.npy",
       npy_file(dictionary("'<f4'", "(2, 3)"), by_rows, 1, 832),
       npy_kind::f4,
       {2, 3},
       six},
      {"n04_v2.npy",
       npy_file(dictionary("'<f8'", "(3,)"), raw({1.5, -2.25, 1e300}), 2),
       npy_kind::f8,
       {3},
       {1.5, -2.25, 1e300}},
      {"n05_big_endian.npy",
       npy_file(dictionary("'>f4'", "(2, 2)"), swapped),
       npy_kind::f4,
       {2, 2},
       {1, -2, 3.5, 0.0010000000474974513}},
      {"n06_scalar.npy", npy_file(dictionary("'<f4'", "()"), raw({2.5f})), npy_kind::f4, {}, {2.5}},
      {"n09_u1.npy",
       npy_file(dictionary("'|u1'", "(4,)"), std::string("\x00\x07\x80\xff", 4)),
       npy_kind::u1,
       {4},
       {0, 7, 128, 255}},
      {"n11_py2_L.npy",
       npy_file(dictionary("'<f4'", "(2L, 3L)"), by_rows),
       npy_kind::f4,
       {2, 3},
       six},
      {"n14_empty_0x3.npy", npy_file(dictionary("'<f4'", "(0, 3)"), ""), npy_kind::f4, {0, 3}, {}},
  };
}

std::vector<bad_case> bad_cases() {
  const std::string six = raw({-1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3.5f});
  const std::string fields =
      raw<std::int64_t>({1}) + raw({2.5}) + raw<std::int64_t>({3}) + raw({4.5});
  return {
      {"n07_structured.npy", npy_file(dictionary("[('i', '<i8'), ('x', '<f8')]", "(2,)"), fields),
       status_code::unsupported},
      {"n12_shape_gt_2e31.npy", npy_file(dictionary("'<f4'", "(3000000000,)"), six)},
      {"n17_truncated_data.npy",
       npy_file(dictionary("'<f4'", "(2, 3)"), six.substr(0, six.size() - 1))},
      {"n18_trailing.npy", npy_file(dictionary("'<f4'", "(2,)"), raw({1.0f, 2.0f}) + "tail")},
  };
}

void check_good(const good_case& c, const result<npy_array>& got) {
  INFO(c.name << ": " << describe(got.error()));
  REQUIRE(got.ok());
  CHECK(got->kind == c.kind);
  CHECK(got->shape == c.shape);
  const auto numbers = npy_as<double>(*got);
  REQUIRE(numbers.ok());
  CHECK(*numbers == c.numbers);
}

void check_bad(const bad_case& c, const result<npy_array>& got) {
  INFO(c.name);
  REQUIRE_FALSE(got.ok());
  CHECK(got.error().code == c.code);
  CHECK(got.error().position == (c.code == status_code::parse_error ? 0 : -1));
}

/// The same answer from memory, from a file of known size and from a pipe.
void check_every_path(const std::string& file, const temporary_folder& folder) {
  const auto memory = parse(file);
  put_file(folder / "x.npy", file);
  const auto sized = read_npy(folder / "x.npy");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  std::jthread writer([&] { std::ofstream(folder / "pipe", std::ios::binary) << file; });
  const auto piped = read_npy(folder / "pipe");
  writer.join();
  std::filesystem::remove(folder / "pipe");
  for (const auto* other : {&sized, &piped}) {
    REQUIRE(other->ok() == memory.ok());
    CHECK(other->error().code == memory.error().code);
    CHECK(std::string(other->error().message) == memory.error().message);
    CHECK(other->error().actual == memory.error().actual);
    if (memory.ok()) CHECK((*other)->data == memory->data);
    if (memory.ok()) CHECK((*other)->shape == memory->shape);
  }
}

template <class T>
npy_array array_of(npy_kind kind, std::initializer_list<T> numbers) {
  npy_array array{kind, {static_cast<std::int64_t>(numbers.size())}, {}};
  array.data.resize(numbers.size() * sizeof(T));
  std::memcpy(array.data.data(), numbers.begin(), array.data.size());
  return array;
}

template <class To>
status_code conversion(const npy_array& array) {
  return npy_as<To>(array).error().code;
}

}  // namespace

TEST_CASE("npy: reported files that are right", "[host][io]") {
  temporary_folder folder;
  for (const auto& c : good_cases()) {
    check_good(c, parse(c.file));
    check_every_path(c.file, folder);
    if (const auto path = shared_case(c.name)) {
      CHECK(file_content(*path) == c.file);
      check_good(c, read_npy(*path));
    }
  }
}

TEST_CASE("npy: reported files that are wrong", "[host][io]") {
  temporary_folder folder;
  for (const auto& c : bad_cases()) {
    check_bad(c, parse(c.file));
    check_every_path(c.file, folder);
    if (const auto path = shared_case(c.name)) {
      CHECK(file_content(*path) == c.file);
      check_bad(c, read_npy(*path));
    }
  }
  CHECK(read_npy(folder / "none.npy").error().native == ENOENT);
  CHECK(read_npy(folder / "").error().code == status_code::io_error);
}

TEST_CASE("npy: a file cut anywhere is an error on every path", "[host][io]") {
  temporary_folder folder;
  for (const char version : {'\1', '\2', '\3'}) {
    const std::string file =
        npy_file(dictionary("'<i2'", "(3,)"), raw<std::int16_t>({1, 2, 3}), version);
    REQUIRE(parse(file).ok());
    for (std::size_t length = 0; length < file.size(); ++length) {
      check_bad({"cut", ""}, parse(file.substr(0, length)));
      put_file(folder / "cut.npy", file.substr(0, length));
      check_bad({"cut", ""}, read_npy(folder / "cut.npy"));
    }
    check_every_path(file.substr(0, 9), folder);
    check_every_path(file.substr(0, 11), folder);
    check_every_path(file.substr(0, 12), folder);
  }
}

TEST_CASE("npy: lying sizes cost nothing", "[host][io]") {
  temporary_folder folder;
  std::vector<std::string> files = {
      std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14),
      std::string("\x93NUMPY\x01\x00\xff\xff{}", 12),
      std::string("\x93NUMPY\x01\x00\x00\x00", 10),
      std::string("\x93NUMPY\x01\x00\x01\x00{", 11),
      std::string("\x93NUMPY\x01\x00\x01\x00{}}}}", 15),
      std::string("\x93NUMPY\x04\x00\x02\x00{}", 12),
      std::string("\x93NUMPY\x01\x01\x02\x00{}", 12),
  };
  for (const std::string shape :
       {"(9223372036854775807,)", "(4294967296, 4294967296)", "(9223372036854775808,)",
        "(99999999999999999999999,)", "(2305843009213693952,)", "(-1,)", "(-4, -1)", "(0, -1)"}) {
    files.push_back(npy_file(dictionary("'<f4'", shape), "abcd"));
  }
  std::string axes;
  for (int d = 0; d < 65; ++d) axes += "1, ";
  files.push_back(npy_file(dictionary("'<f4'", "(" + axes + ")"), "abcd", 1, 320));
  for (const auto& file : files) {
    check_bad({"lie", ""}, parse(file));
    check_every_path(file, folder);
  }
  // An empty axis makes the others harmless.
  CHECK(parse(npy_file(dictionary("'<f4'", "(0, 9223372036854775807, 8)"), "")).ok());
}

TEST_CASE("npy: header text", "[host][io]") {
  const std::string one = raw({1.0f});
  for (const std::string text :
       {"{'descr':'<f4','fortran_order':False,'shape':(1,)}",
        "{\"shape\": (1,), \"descr\": \"<f4\", \"fortran_order\": True}",
        "  { 'shape' : ( 1L , ) , 'fortran_order' : False , 'descr' : '=f4' , } \t\r\n",
        "{'descr': 'f4', 'fortran_order': False, 'shape': (1, 1, 1), }"}) {
    INFO(text);
    CHECK(parse(npy_file(text, one)).ok());
  }
  for (const std::string text :
       {"",
        "{",
        "{}",
        "[]",
        "{'descr'}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False 'shape': (1,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4",
        "{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': <f4, 'fortran_order': False, 'shape': (1,)}"}) {
    INFO(text);
    check_bad({"header", ""}, parse(npy_file(text, one)));
  }
  for (const std::string dtype :
       {"'<c8'", "'|O'", "'|S4'", "'<U1'", "'|V4'", "'<M8[ns]'", "'<m8'", "'<f16'", "'<i3'",
        "'<x4'", "''", "'<'", "('<f4', (1,))", "[('a', '<f4')]"}) {
    INFO(dtype);
    check_bad({"dtype", "", status_code::unsupported},
              parse(npy_file(dictionary(dtype, "(1,)"), one)));
  }
  const auto message = [&](const char* dtype) {
    return std::string(parse(npy_file(dictionary(dtype, "(1,)"), one)).error().message);
  };
  CHECK(message("'|O'").find("'O'") != std::string::npos);
  CHECK(message("'<c8'").find("complex") != std::string::npos);
  CHECK(message("[('a', '<f4')]").find("structured") != std::string::npos);
}

TEST_CASE("npy: every kind in both byte orders", "[host][io]") {
  const auto check = [](const std::string& name, npy_kind kind, const std::string& little,
                        double value) {
    INFO(name);
    check_good({"little", "", kind, {1}, {value}},
               parse(npy_file(dictionary("'<" + name + "'", "(1,)"), little)));
    check_good({"big", "", kind, {1}, {value}},
               parse(npy_file(dictionary("'>" + name + "'", "(1,)"), reversed(little))));
  };
  check("f2", npy_kind::f2, std::string("\x00\xc1", 2), -2.5);
  check("f2", npy_kind::f2, std::string("\x01\x00", 2), std::ldexp(1.0, -24));
  check("f4", npy_kind::f4, raw({0.1f}), 0.1f);
  check("f8", npy_kind::f8, raw({0.1}), 0.1);
  check("i1", npy_kind::i1, raw<std::int8_t>({-128}), -128);
  check("i2", npy_kind::i2, raw<std::int16_t>({-32768}), -32768);
  check("i4", npy_kind::i4, raw<std::int32_t>({-2147483647}), -2147483647);
  check("i8", npy_kind::i8, raw<std::int64_t>({-(std::int64_t{1} << 53)}), -9007199254740992.0);
  check("u1", npy_kind::u1, raw<std::uint8_t>({255}), 255);
  check("u2", npy_kind::u2, raw<std::uint16_t>({65535}), 65535);
  check("u4", npy_kind::u4, raw<std::uint32_t>({4294967295}), 4294967295.0);
  check("u8", npy_kind::u8, raw<std::uint64_t>({std::uint64_t{1} << 63}), 9223372036854775808.0);
  check("b1", npy_kind::b1, std::string("\x02"), 1);
}

TEST_CASE("npy: Fortran order of any rank", "[host][io]") {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {7},      {1, 5}, {5, 1}, {40, 37}, {2, 3, 4}, {3, 1, 2}, {2, 3, 4, 5}, {33, 2, 1, 3, 35},
      {2, 0, 3}};
  for (const auto& shape : shapes) {
    std::string text = "(", data;
    std::int64_t count = 1;
    for (const auto n : shape) {
      text += std::to_string(n) + ",";
      count *= n;
    }
    std::vector<double> expected;
    std::vector<std::int32_t> stored(static_cast<std::size_t>(count));
    for (std::int64_t c = 0; c < count; ++c) {
      // Split the C position into indices, last axis first, and put them together the other way.
      std::vector<std::int64_t> index(shape.size());
      std::int64_t rest = c, at = 0;
      for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
      for (std::size_t d = shape.size(); d-- > 0;) at = at * shape[d] + index[d];
      stored[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(c * 1000003);
      expected.push_back(static_cast<std::int32_t>(c * 1000003));
    }
    data.assign(reinterpret_cast<const char*>(stored.data()), stored.size() * 4);
    check_good({"fortran", "", npy_kind::i4, shape, expected},
               parse(npy_file(dictionary("'<i4'", text + ")", true), data)));
  }
}

TEST_CASE("npy: conversions check their range", "[host][io]") {
  constexpr auto ok = status_code::ok, range = status_code::out_of_range;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto i8 = [](std::int64_t n) { return array_of<std::int64_t>(npy_kind::i8, {n}); };
  const auto u8 = [](std::uint64_t n) { return array_of<std::uint64_t>(npy_kind::u8, {n}); };
  const auto f8 = [](double x) { return array_of<double>(npy_kind::f8, {x}); };
  const auto f4 = [](float x) { return array_of<float>(npy_kind::f4, {x}); };
  CHECK(conversion<std::int32_t>(i8(2147483647)) == ok);
  CHECK(conversion<std::int32_t>(i8(2147483648)) == range);
  CHECK(conversion<std::int32_t>(i8(-2147483648)) == ok);
  CHECK(conversion<std::int32_t>(i8(-2147483649)) == range);
  CHECK(conversion<std::int64_t>(u8(std::uint64_t{1} << 63)) == range);
  CHECK(conversion<std::int64_t>(u8((std::uint64_t{1} << 63) - 1)) == ok);
  CHECK(conversion<std::int32_t>(f8(2147483647.0)) == ok);
  CHECK(conversion<std::int32_t>(f8(2147483648.0)) == range);
  CHECK(conversion<std::int32_t>(f4(2147483648.0f)) == range);
  CHECK(conversion<std::int32_t>(f4(-2147483648.0f)) == ok);
  CHECK(conversion<std::int64_t>(f8(9223372036854775808.0)) == range);
  CHECK(conversion<std::int64_t>(f8(-9223372036854775808.0)) == ok);
  CHECK(conversion<std::int64_t>(f8(0.5)) == range);
  CHECK(conversion<std::int64_t>(f8(std::nan(""))) == range);
  CHECK(conversion<std::int64_t>(f8(-infinity)) == range);
  CHECK(conversion<float>(f8(1e39)) == range);
  CHECK(conversion<float>(f8(infinity)) == ok);
  CHECK(conversion<float>(f8(std::nan(""))) == ok);
  CHECK(conversion<float>(f8(1e-60)) == ok);
  CHECK(npy_as<std::int32_t>(array_of<std::int64_t>(npy_kind::i8, {1, 2, 1ll << 40}))
            .error()
            .position == 2);
  npy_array wrong = i8(1);
  wrong.shape = {2};
  CHECK(conversion<double>(wrong) == status_code::invalid_argument);
  wrong.shape = {-1};
  CHECK(conversion<double>(wrong) == status_code::invalid_argument);
}

TEST_CASE("npy: written files", "[host][io]") {
  temporary_folder folder;
  const npy_array array = array_of<float>(npy_kind::f4, {1.0f, -2.0f});
  REQUIRE(write_npy(folder / "a.npy", array).ok());
  // Byte for byte what numpy.save writes.
  CHECK(file_content(folder / "a.npy") ==
        npy_file(dictionary("'<f4'", "(2,)"), raw({1.0f, -2.0f}), 1, 128));
  const std::int64_t shape[] = {2, 1};
  const float numbers[] = {3.0f, 4.0f};
  REQUIRE(write_npy(folder / "a.npy", npy_kind::f4, shape, numbers).ok());
  check_good({"view", "", npy_kind::f4, {2, 1}, {3, 4}}, read_npy(folder / "a.npy"));
  const std::vector<std::int64_t> long_shape(64, 1), too_long(65, 1);
  REQUIRE(write_npy(folder / "a.npy", npy_kind::f4, long_shape, numbers).ok());
  CHECK(file_content(folder / "a.npy").size() % 64 == 4);
  CHECK(read_npy(folder / "a.npy")->shape == long_shape);
  REQUIRE(write_npy(folder / "a.npy", npy_kind::f4, {}, numbers).ok());
  CHECK(read_npy(folder / "a.npy")->shape.empty());

  const auto code = [&](std::vector<std::int64_t> sizes, const void* data) {
    return write_npy(folder / "a.npy", npy_kind::f4, sizes, data).code;
  };
  CHECK(code({-1}, numbers) == status_code::invalid_argument);
  CHECK(code({std::int64_t{1} << 62}, numbers) == status_code::invalid_argument);
  CHECK(code(too_long, numbers) == status_code::invalid_argument);
  CHECK(code({2}, nullptr) == status_code::invalid_argument);
  npy_array wrong = array;
  wrong.shape = {3};
  CHECK(write_npy(folder / "a.npy", wrong).code == status_code::invalid_argument);
  CHECK(write_npy(folder / "no/a.npy", array).native == ENOENT);
  const std::vector<float> many(100000);
  {
    const file_size_limit limit(65536);
    CHECK(code({100000}, many.data()) == status_code::io_error);
  }
  CHECK(folder.files() == 1);
  CHECK(read_npy(folder / "a.npy")->shape.empty());  // the old file is still whole
  CHECK(code({0, 5}, nullptr) == status_code::ok);
}

#if __has_include(<rapidcheck.h>)
TEST_CASE("npy: properties", "[host][io]") {
  temporary_folder folder;
  REQUIRE(rc::check("what is written reads back byte for byte", [&] {
    npy_array array;
    array.kind = static_cast<npy_kind>(*rc::gen::inRange(0, 12));
    array.shape = *rc::gen::resize(
        5, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 6)));
    const auto count = npy_count(array.shape, array.kind);
    for (const auto byte : *rc::gen::container<std::vector<std::uint8_t>>(
             static_cast<std::size_t>(count) * npy_item_bytes(array.kind),
             rc::gen::arbitrary<std::uint8_t>())) {
      array.data.push_back(std::byte{byte});
    }
    RC_ASSERT(write_npy(folder / "p.npy", array).ok());
    const auto got = read_npy(folder / "p.npy");
    RC_ASSERT(got.ok());
    RC_ASSERT(got->kind == array.kind);
    RC_ASSERT(got->shape == array.shape);
    RC_ASSERT(got->data == array.data);
  }));
}
#endif
