// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/workshop.hpp"
#include "quipu/io/packed_file.hpp"

using namespace test;

namespace {

using quipu::npy_kind;

/// Numbers of which some come up more often than others, as bytes.
std::vector<std::byte> bytes_for(std::int64_t count, npy_kind kind) {
  const auto item = quipu::npy_item_bytes(kind);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * item);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t whole = i * i % 11 == 0 ? i % 127 : 0;
    const auto real = 1.0f + static_cast<float>(i % 64) / 64;
    auto* to = bytes.data() + static_cast<std::size_t>(i) * item;
    if (kind == npy_kind::f4) {
      std::memcpy(to, &real, item);
    } else {
      std::memcpy(to, &whole, item);
    }
  }
  return bytes;
}

void write_array(const workshop& w, const std::string& name, npy_kind kind,
                 const std::vector<std::int64_t>& shape) {
  check(quipu::write_npy(w / name, {kind, shape, bytes_for(quipu::npy_count(shape, kind), kind)}));
}

void check_same(const workshop& w, const std::string& one, const std::string& other) {
  CHECK(content(w / one) == content(w / other));
}

/// A packed [4, 2] of 4 bytes, with a note.
void write_packed_array(const workshop& w, const std::string& name, const std::string& note) {
  const std::vector<std::uint32_t> values(8, 3);
  const auto table = quipu::make_table_view(values.data(), 4, 2);
  auto packed = check(quipu::make_packed(quipu::host_context{1}, table, quipu::raw_packing(table)));
  check(quipu::write_packed(w / name, packed.view(), note));
}

/// Exit code 2 and one line that says `what`.
void refuse(const workshop& w, const std::string& arguments, const std::string& what) {
  const auto o = w.run(arguments);
  CAPTURE(arguments, o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  CHECK(o.err.find(what) != std::string::npos);
  CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
}

/// Stored bytes of a packing by its codec; of exponents what 2 bits take.
std::map<std::string, std::int64_t> stored_by_bench(const workshop& w, const std::string& table) {
  w.succeed("bench pack " + table + " --repeat 1 --json b.json");
  std::map<std::string, std::int64_t> stored;
  const auto report = nlohmann::json::parse(content(w / "b.json"));
  for (const auto& m : report["results"]) stored[m["codec"]] = m["stored_bytes"];
  return stored;
}

}  // namespace

TEST_CASE("arrays of all types and ranks come back from packed files", "[cli]") {
  const workshop w;
  for (const auto kind :
       {npy_kind::f2, npy_kind::f4, npy_kind::f8, npy_kind::i1, npy_kind::i2, npy_kind::i4,
        npy_kind::i8, npy_kind::u1, npy_kind::u2, npy_kind::u4, npy_kind::u8, npy_kind::b1}) {
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{
             {40, 3, 5}, {70}, {9, 16}, {0, 4}, {4, 0, 2}, {1, 1, 1, 1}}) {
      write_array(w, "x.npy", kind, shape);
      w.succeed("pack x.npy -o x.qpk");
      w.succeed("unpack x.qpk -o y.npy --threads 2");
      check_same(w, "x.npy", "y.npy");
    }
  }
  write_array(w, "x.npy", npy_kind::u2, {30, 65});
  for (const std::string options :
       {"--as bf16", "--as f16", "--as bits", "--codec raw", "--codec invariant --clusters 3",
        "--codec invariant --threshold 0.9 --seed 7", "--codec sparse", "--goal memory",
        "--as bf16 --codec exponent", "--sample 5", "--sample 0 --threads 1"}) {
    w.succeed("pack x.npy -o x.qpk " + options);
    w.succeed("unpack x.qpk -o y.npy");
    check_same(w, "x.npy", "y.npy");
  }
}

TEST_CASE("pack says what it has done", "[cli]") {
  const workshop w;
  write_array(w, "x.npy", npy_kind::f4, {500, 8, 16});
  const auto report = nlohmann::json::parse(w.succeed("pack x.npy -o x.qpk --json"));
  CHECK(report["rows"] == 500);
  CHECK(report["width"] == 128);
  CHECK(report["element"] == "f32");
  CHECK(report["bytes"] == 500 * 512);
  CHECK(report["ratio"].get<double>() == Approx(500 * 512 / report["packed_bytes"].get<double>()));
  CHECK(report["file_bytes"] == fs::file_size(w / "x.qpk"));
  CHECK(report["ratio"].get<double>() > 2);
  const auto as_is = nlohmann::json::parse(w.succeed("pack x.npy -o y.qpk --codec raw --json"));
  CHECK(as_is["codec"] == "raw");
  CHECK(as_is["packed_bytes"] == 500 * 512);
  const auto text = w.succeed("pack x.npy -o y.qpk --codec exponent");
  CHECK(text.find("codec         exponent") != std::string::npos);
  CHECK(text.find("ratio ") != std::string::npos);
}

TEST_CASE("profile shows every codec and what is picked", "[cli]") {
  const workshop w;
  write_array(w, "x.npy", npy_kind::f4, {500, 128});
  const auto text = w.succeed("profile x.npy");
  for (const auto* what : {"f32", "2^0: 100 %", "exponent, 2 bits", "exponent, 3 bits", "invariant",
                           "sparse", "raw", "bytes a row", "smallest"}) {
    CAPTURE(what);
    CHECK(text.find(what) != std::string::npos);
  }
  const auto report = nlohmann::json::parse(w.succeed("profile x.npy --sample 100 --json"));
  CHECK(report["rows"] == 500);
  CHECK(report["sampled_rows"] == 100);
  CHECK(report["exponents"][0]["exponent"] == 127);
  std::size_t picked = 0;
  for (const auto& p : report["packings"]) {
    picked += p["picked_for"].size();
    CHECK(p["ratio"].get<double>() == Approx(512 / p["row_bytes"].get<double>()));
    if (p["codec"] == "raw") CHECK(p["ratio"] == 1.0);
  }
  CHECK(picked == 3);  // once for each goal
  const auto bits = nlohmann::json::parse(w.succeed("profile x.npy --as bits --json"));
  CHECK(bits["element"] == "32 bits");
  CHECK(bits.count("exponents") == 0);
  w.succeed("profile x.npy --threshold 1 --clusters 2 --seed 3");
}

TEST_CASE("bench pack measures every packing", "[cli]") {
  const workshop w;
  write_array(w, "x.npy", npy_kind::f4, {300, 8, 16});
  const auto text = w.succeed("bench pack x.npy --repeat 2 --threads 2 --json b.json");
  const auto r = nlohmann::json::parse(content(w / "b.json"));
  CHECK(r["rows"] == 300);
  CHECK(r["width"] == 128);
  CHECK(r["element"] == "f32");
  CHECK(r["bytes"] == 300 * 512);
  CHECK(r["ids"] == 300);
  const auto profile = nlohmann::json::parse(w.succeed("profile x.npy --json"));
  REQUIRE(r["results"].size() == profile["packings"].size());
  for (std::size_t k = 0; k < r["results"].size(); ++k) {
    const auto& m = r["results"][k];
    const auto& expected = profile["packings"][k];
    CAPTURE(m.dump());
    CHECK(m["codec"] == expected["codec"]);
    CHECK(m["ratio"].get<double>() == Approx(300 * 512 / m["stored_bytes"].get<double>()));
    CHECK(text.find("\n" + m["codec"].get<std::string>()) != std::string::npos);
    for (const char* what : {"pack", "unpack", "copy", "gather", "raw_gather"}) {
      CHECK(m[what]["median_ms"] >= m[what]["min_ms"]);
      CHECK(m[what]["gb_per_s"] > 0);
    }
  }
  for (const char* column : {"stored bytes", "pack GB/s", "copy GB/s", "raw gather GB/s"}) {
    CHECK(text.find(column) != std::string::npos);
  }
}

TEST_CASE("bench pack packs as pack does", "[cli]") {
  const workshop w;
  const std::int64_t raw = 2000 * 64 * 4;
  auto stored = stored_by_bench(w, "synthetic:ones,2000,64");
  CHECK(stored.size() == 4);
  CHECK(stored["raw"] == raw);
  for (const std::string how : {"invariant", "exponent", "sparse"}) {
    CAPTURE(how);
    CHECK(stored[how] < raw);
    if (how == "exponent") continue;  // there are two
    const auto packed = nlohmann::json::parse(
        w.succeed("pack synthetic:ones,2000,64 -o x.qpk --json --codec " + how));
    CHECK(packed["packed_bytes"] == stored[how]);
  }
  // What a codec makes larger is shown so, not kept raw.
  CHECK(stored_by_bench(w, "synthetic:normal,500,64")["sparse"] > 500 * 64 * 4);
  // Bits have no exponents.
  CHECK(stored_by_bench(w, "synthetic:normal,9,3 --as bits").count("exponent") == 0);
}

TEST_CASE("synthetic tables are what they are called", "[cli]") {
  const workshop w;
  const auto draw = [&](const std::string& name, const std::string& options) {
    w.succeed("pack synthetic:" + name + ",1000,50 -o x.qpk " + options);
    w.succeed("unpack x.qpk -o y.npy");
    return content(w / "y.npy");
  };
  const auto numbers = [&](const std::string& name) {
    (void)draw(name, "");
    return w.read<float>("y.npy");
  };
  // Of 50,000 draws; every bound is five standard errors wide.
  const auto ones = numbers("ones");
  REQUIRE(ones.size() == 50'000);
  CHECK(std::ranges::count(ones, 1.0f) + std::ranges::count(ones, 0.0f) == 50'000);
  CHECK(std::abs(std::ranges::count(ones, 1.0f) - 1000) <= 157);
  const auto normal = numbers("normal"), relu = numbers("relu");
  double sum = 0, squares = 0;
  for (std::size_t k = 0; k < normal.size(); ++k) {
    sum += normal[k];
    squares += static_cast<double>(normal[k]) * normal[k];
    CHECK(relu[k] == std::max(normal[k], 0.0f));
  }
  CHECK(std::abs(sum / 50'000) <= 0.02 * 0.0224);
  CHECK(std::abs(squares / 50'000 - 0.0004) <= 0.0004 * 0.0317);
  CHECK(draw("normal", "--seed 1") == draw("normal", "--seed 1"));
  CHECK(draw("normal", "--seed 1") != draw("normal", "--seed 2"));
  (void)draw("normal", "--as f16");
  CHECK(check(quipu::read_npy(w / "y.npy")).kind == npy_kind::f2);
  (void)draw("normal", "--as bf16");
  CHECK(check(quipu::read_npy(w / "y.npy")).kind == npy_kind::u2);
  CHECK(w.succeed("profile synthetic:normal,30,7 --as bf16").find("bf16") != std::string::npos);
}

TEST_CASE("what bench pack cannot measure is refused in one line", "[cli]") {
  const workshop w;
  write_array(w, "x.npy", npy_kind::f4, {100, 6});
  write_array(w, "empty.npy", npy_kind::f4, {0, 6});
  const auto before = w.files();
  refuse(w, "bench pack", "X.npy: is required");
  refuse(w, "bench", "GRAPH: is required");
  refuse(w, "bench pack none.npy --json b.json", "none.npy: cannot open the file");
  refuse(w, "bench pack empty.npy --json b.json", "empty.npy: has no elements to measure");
  refuse(w, "bench pack x.npy --repeat 0", "--repeat: 0 is not a whole number");
  refuse(w, "bench pack x.npy --as f16", "--as: f16 has 2 bytes");
  refuse(w, "bench pack x.npy --device tpu", "--device: does not know tpu");
  refuse(w, "bench pack x.npy --op sum", "--op: not expected");
  refuse(w, "bench pack x.npy --repeat 1 --device host --json no/b.json", "no/b.json: cannot");
  refuse(w, "bench --repeat 1 pack x.npy", "--repeat: not before pack");
  refuse(w, "bench small.txt pack x.npy", "GRAPH: not before pack");
  refuse(w, "bench pack synthetic:zeros,5,5", "synthetic:zeros,5,5: no such table");
  refuse(w, "bench pack synthetic:ones,5", "synthetic:ones,5: is not synthetic:NAME,ROWS,WIDTH");
  refuse(w, "bench pack synthetic:ones", "synthetic:ones: is not synthetic:NAME,ROWS,WIDTH");
  refuse(w, "bench pack synthetic:ones,5,0", "synthetic:ones,5,0: 0 is not a whole number");
  refuse(w, "profile synthetic:ones,x,5", "synthetic:ones,x,5: x is not a whole number");
  refuse(w, "pack synthetic:ones,9999999999,9999999999 -o y.qpk",
         "its rows are more than this machine's memory holds");
  CHECK(w.files() == before);
}

TEST_CASE("gather takes rows in any order", "[cli]") {
  const workshop w;
  write_array(w, "x.npy", npy_kind::f4, {100, 2, 3});
  w.succeed("pack x.npy -o x.qpk");
  const std::vector<std::int64_t> ids{7, 99, 7, 3};
  w.write_ids("r.npy", ids);
  w.succeed("gather x.qpk --rows r.npy -o y.npy");
  const auto y = check(quipu::read_npy(w / "y.npy"));
  CHECK(y.kind == npy_kind::f4);
  CHECK(y.shape == std::vector<std::int64_t>{4, 2, 3});
  const auto all = w.read<float>("x.npy"), some = w.read<float>("y.npy");
  for (std::size_t k = 0; k < ids.size(); ++k) {
    for (std::size_t c = 0; c < 6; ++c) {
      CHECK(some[6 * k + c] == all[6 * static_cast<std::size_t>(ids[k]) + c]);
    }
  }
  const std::vector<std::int32_t> narrow{7, 99, 7, 3};
  check(quipu::write_npy(w / "r4.npy", npy_kind::i4, std::vector<std::int64_t>{4}, narrow.data()));
  w.succeed("gather x.qpk --rows r4.npy -o z.npy");
  check_same(w, "y.npy", "z.npy");
  w.write_ids("none.npy", {});
  w.succeed("gather x.qpk --rows none.npy -o z.npy");
  CHECK(check(quipu::read_npy(w / "z.npy")).shape == std::vector<std::int64_t>{0, 2, 3});
}

TEST_CASE("what cannot be packed is refused in one line", "[cli]") {
  const workshop w;
  write_array(w, "x.npy", npy_kind::f4, {100, 6});
  write_array(w, "u.npy", npy_kind::u2, {100, 6});
  write_array(w, "scalar.npy", npy_kind::f4, {});
  const auto before = w.files();
  refuse(w, "pack none.npy -o y.qpk", "none.npy: cannot open the file");
  refuse(w, "pack scalar.npy -o y.qpk", "scalar.npy: has no axes");
  refuse(w, "pack x.npy", "--output: is required");
  refuse(w, "pack x.npy -o nowhere/y.qpk", "nowhere/y.qpk: cannot create the file");
  refuse(w, "pack x.npy -o y.qpk --as f16", "--as: f16 has 2 bytes, an element of x.npy has 4");
  refuse(w, "pack x.npy -o y.qpk --as f64", "--as: does not know f64");
  refuse(w, "pack u.npy -o y.qpk --codec exponent",
         "--codec: exponent is not for 16 bits, as which u.npy is read");
  refuse(w, "pack x.npy -o y.qpk --codec zip", "--codec: does not know zip");
  refuse(w, "pack x.npy -o y.qpk --goal best", "--goal: does not know best");
  refuse(w, "profile x.npy --threshold 1.5", "--threshold: 1.5 is not from 0 to 1");
  refuse(w, "profile x.npy --clusters 256", "x.npy: clusters: not 1 to 255");
  refuse(w, "profile x.npy --sample -1", "--sample: -1 is not a whole number");
  refuse(w, "profile x.npy --device cuda", "--device: tables are packed and unpacked on the host");
  CHECK(w.files() == before);
}

TEST_CASE("what cannot be unpacked is refused in one line", "[cli]") {
  const workshop w;
  write_array(w, "x.npy", npy_kind::f4, {100, 6});
  w.succeed("pack x.npy -o x.qpk");
  w.write_ids("far.npy", {1, 100});
  w.write_ids("negative.npy", {1, 2, -1});
  write_array(w, "matrix.npy", npy_kind::i8, {2, 2});
  auto damaged = content(w / "x.qpk");
  w.write("short.qpk", damaged.substr(0, damaged.size() - 1));
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  w.write("damaged.qpk", damaged);
  write_packed_array(w, "foreign.qpk", R"({"by":"another program"})");
  write_packed_array(w, "note.qpk", R"({"npy":"f4","shape":[7,2]})");
  write_packed_array(w, "type.qpk", R"({"npy":"f3","shape":[4,2]})");
  const auto before = w.files();
  refuse(w, "unpack x.npy -o y.npy", "x.npy: not a packed file");
  refuse(w, "unpack short.qpk -o y.npy", "short.qpk: the file is truncated");
  refuse(w, "unpack damaged.qpk -o y.npy", "damaged.qpk: a block's checksum does not match");
  refuse(w, "gather x.qpk --rows far.npy -o y.npy", "far.npy: element 1 is row 100 of 100");
  refuse(w, "gather x.qpk --rows negative.npy -o y.npy",
         "negative.npy: element 2 is row -1 of 100");
  refuse(w, "gather x.qpk --rows matrix.npy -o y.npy", "matrix.npy: is not a vector");
  refuse(w, "gather x.qpk --rows x.npy -o y.npy", "x.npy: is not of type i4 or i8");
  refuse(w, "gather x.qpk -o y.npy", "--rows: is required");
  refuse(w, "unpack note.qpk -o y.npy", "note.qpk: its note describes another table");
  refuse(w, "unpack type.qpk -o y.npy", "type.qpk: its note describes no array");
  CHECK(w.files() == before);
  w.succeed("unpack foreign.qpk -o y.npy");
  const auto y = check(quipu::read_npy(w / "y.npy"));
  CHECK(y.kind == npy_kind::u4);
  CHECK(y.shape == std::vector<std::int64_t>{4, 2});
}
