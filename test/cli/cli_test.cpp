// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/workshop.hpp"
#include "quipu/io/matrix_market.hpp"

using namespace test;

TEST_CASE("aggregate sums by weight", "[cli]") {
  const workshop w;
  write_small(w);
  w.succeed("aggregate small.txt --op sum --input x.npy -o y.npy");
  CHECK(w.read<float>("y.npy") == std::vector<float>{1, 70, 0.5, 5, 0, 0, 11, 110});
  w.succeed("aggregate small.txt --op sum --input x.npy -o y.npy --unweighted");
  CHECK(w.read<float>("y.npy") == std::vector<float>{5, -10, 1, 10, 0, 0, 7, 70});
  w.succeed("aggregate small.txt --op mean --input x.npy -o y.npy --unweighted --dtype bf16");
  const auto mean = w.read<float>("y.npy");
  CHECK(mean[0] == 2.5f);
  CHECK(mean[6] == Approx(7.0 / 3).epsilon(1.0 / 256));
}

TEST_CASE("aggregate names winners and sends gradients back to them", "[cli]") {
  const workshop w;
  write_small(w);
  w.write_floats("g.npy", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  w.succeed(
      "aggregate small.txt --op max --input x.npy -o y.npy --argument a.npy "
      "--grad-output g.npy --grad-input d.npy");
  CHECK(w.read<float>("y.npy") == std::vector<float>{3, 20, 1, 10, 0, 0, 4, 40});
  CHECK(w.read<std::int64_t>("a.npy") == std::vector<std::int64_t>{1, 0, 2, 2, -1, -1, 5, 5});
  CHECK(w.read<float>("d.npy") == std::vector<float>{3, 4, 0, 2, 1, 0, 7, 8});
}

TEST_CASE("a matrix without features gives winners without features", "[cli]") {
  const workshop w;
  write_small(w);
  w.write_floats("none.npy", {4, 0}, {});
  w.succeed("aggregate small.txt --op max --input none.npy --argument a.npy --grad-input d.npy");
  CHECK(check(quipu::read_npy(w / "a.npy")).shape == std::vector<std::int64_t>{4, 0});
  CHECK(check(quipu::read_npy(w / "d.npy")).shape == std::vector<std::int64_t>{4, 0});
}

TEST_CASE("spmm multiplies by the normalised graph", "[cli]") {
  const workshop w;
  write_small(w);
  w.write("triangle.mtx", karate());
  w.write_floats("t.npy", {3, 1}, {2, 4, 6});
  w.succeed("spmm triangle.mtx --norm symmetric --input t.npy -o y.npy");
  const auto y = w.read<float>("y.npy");
  REQUIRE(y.size() == 3);
  CHECK(y[0] == Approx(5));  // two factors of 1 / sqrt(2), each rounded
  CHECK(y[1] == Approx(4));
  CHECK(y[2] == Approx(3));
  w.succeed("spmm triangle.mtx --input t.npy --alpha 2 --beta 0.5 --initial t.npy -o y.npy");
  CHECK(w.read<float>("y.npy") == std::vector<float>{21, 18, 15});
  w.succeed("spmm small.txt --input x.npy -o y.npy");
  CHECK(w.read<float>("y.npy") == std::vector<float>{1, 70, 0.5, 5, 0, 0, 11, 110});
  // Transposed: what backward of the same product gives, weights and factors included.
  w.write_floats("g.npy", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  w.succeed("aggregate small.txt --op mean --input x.npy --grad-output g.npy --grad-input d.npy");
  w.succeed("spmm small.txt --norm mean --transpose --input g.npy -o y.npy");
  const auto want = w.read<float>("d.npy"), got = w.read<float>("y.npy");
  REQUIRE(got.size() == want.size());
  for (std::size_t k = 0; k < want.size(); ++k) CHECK(got[k] == Approx(want[k]).epsilon(1e-6));
}

TEST_CASE("sddmm gives one number an edge", "[cli]") {
  const workshop w;
  w.write("triangle.mtx", karate());
  w.write_floats("l.npy", {3, 2}, {1, 0, 0, 1, 1, 1});
  w.write_floats("r.npy", {3, 2}, {2, 3, 5, 7, 11, 13});
  w.succeed("sddmm triangle.mtx --left l.npy --right r.npy -o d.npy");
  CHECK(check(quipu::read_npy(w / "d.npy")).shape == std::vector<std::int64_t>{6});
  CHECK(w.read<float>("d.npy") == std::vector<float>{5, 11, 3, 13, 5, 12});
  w.succeed("sddmm triangle.mtx --left l.npy --right r.npy --norm mean --alpha 4 -o d.npy");
  CHECK(w.read<float>("d.npy") == std::vector<float>{10, 22, 6, 26, 10, 24});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  w.write_floats("n.npy", {3, 2}, std::vector<float>(6, nan));
  w.succeed("sddmm triangle.mtx --left n.npy --right r.npy --alpha 0 -o d.npy");
  CHECK(w.read<float>("d.npy") == std::vector<float>(6, 0.0f));
  w.succeed("sddmm triangle.mtx --right r.npy -o d.npy");  // the file settles the drawn one's width
}

TEST_CASE("output that cannot be written is a failure", "[cli]") {
  const workshop w;
  write_small(w);
  for (const char* call :
       {"info small.txt", "spmm small.txt --json", "bench small.txt --repeat 1"}) {
    CHECK(w.run(std::string(call) + " >/dev/full").code == 1);
  }
  CHECK(w.run("info small.txt --features 010").code == 2);
}

TEST_CASE("outputs have the type that holds them", "[cli]") {
  const workshop w;
  write_small(w);
  w.succeed("aggregate small.txt --op min --input x.npy -o half.npy --dtype f16");
  CHECK(check(quipu::read_npy(w / "half.npy")).kind == quipu::npy_kind::f2);
  w.succeed("aggregate small.txt --op min --input x.npy -o brain.npy --dtype bf16");
  const auto brain = check(quipu::read_npy(w / "brain.npy"));
  CHECK(brain.kind == quipu::npy_kind::f4);
  CHECK(brain.shape == std::vector<std::int64_t>{4, 2});
}

TEST_CASE("what is left out is drawn from the seed", "[cli]") {
  const workshop w;
  write_small(w);
  w.succeed("aggregate small.txt --op sum --features 5 --seed 1 -o a.npy");
  w.succeed("aggregate small.txt --op sum --features 5 --seed 1 -o b.npy");
  w.succeed("aggregate small.txt --op sum --features 5 --seed 2 -o c.npy");
  CHECK(content(w / "a.npy") == content(w / "b.npy"));
  CHECK(content(w / "a.npy") != content(w / "c.npy"));
  const auto report = nlohmann::json::parse(
      w.succeed("aggregate synthetic:cora,seed=3 --op mean --features 4 --json"));
  CHECK(report["features"] == 4);
  CHECK(report["rows"] == 2708);
  CHECK(report["milliseconds"] >= 0);
}

TEST_CASE("info counts", "[cli]") {
  const workshop w;
  write_small(w);
  const auto r = nlohmann::json::parse(w.succeed("info small.txt --json --explain"));
  CHECK(r["rows"] == 4);
  CHECK(r["columns"] == 4);
  CHECK(r["edges"] == 6);
  CHECK(r["weighted"] == true);
  CHECK(r["forward"]["max_degree"] == 3);
  CHECK(r["forward"]["empty_rows"] == 1);
  CHECK(r["forward"]["mean_degree"] == 1.5);
  CHECK(r["forward"]["histogram"][2]["rows"] == 2);
  CHECK(r["reverse"]["empty_rows"] == 0);
  CHECK(r["explain"].size() >= 3);
  w.write("one.csv", "1,2\n2,3\n");
  const auto one = nlohmann::json::parse(w.succeed("info one.csv --one-based --nodes 9 --json"));
  CHECK(one["rows"] == 9);
  CHECK(one["forward"]["empty_rows"] == 7);
  CHECK(w.succeed("info small.txt").find("Receivers") != std::string::npos);
}

TEST_CASE("convert keeps the graph through every format", "[cli]") {
  const workshop w;
  write_small(w);
  w.succeed("convert small.txt -o a.npz");
  w.succeed("convert a.npz -o folder");
  w.succeed("convert folder -o b.mtx");
  CHECK(w.read<std::int64_t>("folder/indptr.npy") == std::vector<std::int64_t>{0, 2, 3, 3, 6});
  CHECK(w.read<std::int64_t>("folder/indices.npy") == std::vector<std::int64_t>{1, 2, 0, 0, 1, 3});
  CHECK(w.read<float>("folder/data.npy") == std::vector<float>{2, -1, 0.5, 1, 3, 1});
  const auto back = check(quipu::read_matrix_market(w / "b.mtx"));
  CHECK(back.row == std::vector<std::int64_t>{0, 0, 1, 3, 3, 3});
  CHECK(back.value == std::vector<double>{2, -1, 0.5, 1, 3, 1});
  w.succeed("convert b.mtx -o folder --unweighted --transpose");
  CHECK(w.files().count("folder/data.npy") == 0);
  CHECK(w.read<std::int64_t>("folder/indptr.npy") == std::vector<std::int64_t>{0, 2, 4, 5, 6});
}

TEST_CASE("convert changes edges when asked", "[cli]") {
  const workshop w;
  w.write("t.mtx", karate());
  w.write("e.txt", "0 1\n0 1\n2 2\n");
  const auto edges = [&](const std::string& arguments) {
    return nlohmann::json::parse(w.succeed("convert " + arguments + " -o out --json"))["edges"];
  };
  CHECK(edges("t.mtx") == 6);
  CHECK(edges("t.mtx --self-loops") == 9);
  CHECK(edges("e.txt") == 3);
  CHECK(edges("e.txt --coalesce") == 2);
  CHECK(edges("e.txt --remove-self-loops") == 2);
  CHECK(edges("e.txt --remove-self-loops --coalesce --symmetrise") == 2);
}

TEST_CASE("rows and columns may differ", "[cli]") {
  const workshop w;
  w.write("wide.mtx", "%%MatrixMarket matrix coordinate real general\n2 5 2\n1 5 2\n2 1 3\n");
  w.succeed("convert wide.mtx -o folder");
  CHECK(w.read<std::int64_t>("folder/shape.npy") == std::vector<std::int64_t>{2, 5});
  w.write_floats("x.npy", {5, 1}, {1, 2, 3, 4, 5});
  w.succeed("aggregate folder --op sum --input x.npy -o y.npy");
  CHECK(w.read<float>("y.npy") == std::vector<float>{10, 3});
}

TEST_CASE("bench measures every combination", "[cli]") {
  const workshop w;
  w.succeed(
      "bench synthetic:cora --op sum,max,spmm,sddmm --norm symmetric --features 4,8,16 "
      "--dtype f32,bf16 --repeat 2 --json b.json");
  const auto r = nlohmann::json::parse(content(w / "b.json"));
  REQUIRE(r["results"].size() == 24);
  CHECK(r["edges"] == 10556);
  for (const auto& m : r["results"]) {
    CHECK(m["median_ms"] >= m["min_ms"]);
    CHECK(m["edges_per_s"] > 0);
  }
}

TEST_CASE("bench measures attention by heads", "[cli]") {
  const workshop w;
  w.succeed(
      "bench synthetic:cora --op sum,gat,gatv2,transformer,gat_backward,gatv2_backward,"
      "transformer_backward --features 8 --heads 1,4 --repeat 2 --json b.json");
  const auto r = nlohmann::json::parse(content(w / "b.json"));
  REQUIRE(r["results"].size() == 13);  // a sum has no heads
  CHECK(r["results"][0]["heads"] == 1);
  const auto& last = r["results"][12];
  CHECK(last["op"] == "transformer_backward");
  CHECK(last["heads"] == 4);
  CHECK(last["features"] == 8);
  for (const auto& m : r["results"]) CHECK(m["edges_per_s"] > 0);
}

TEST_CASE("bad input ends with 2, one line, and nothing written", "[cli]") {
  const workshop w;
  write_small(w);
  w.write("bad.txt", "0 1\n1 x\n");
  w.write("bad.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n");
  w.write("bad.npz", "PK no");
  w.write("huge.txt", "0 99999999999\n");
  w.write("what.xyz", "");
  w.write("large.txt", "# c\n0 1 2\n\n1 0 1e300\n");
  w.write("large.mtx",
          "%%MatrixMarket matrix coordinate real general\n% c\n2 2 2\n1 1 1\n2 1 1e300\n");
  w.write("large_mirrored.mtx",
          "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 1e300\n");
  fs::create_directory(w / "large");
  w.write_ids("large/indptr.npy", {0, 1, 2});
  w.write_ids("large/indices.npy", {0, 1});
  const std::array<std::int64_t, 1> two{2};
  const std::array<double, 2> large_weights{1, 1e300};
  check(quipu::write_npy(w / "large/data.npy", quipu::npy_kind::f8, two, large_weights.data()));
  fs::create_directory(w / "empty");
  fs::create_directory(w / "broken");
  w.write_ids("broken/indptr.npy", {0, 2, 1});
  w.write_ids("broken/indices.npy", {0});
  fs::create_directory(w / "outside");
  w.write_ids("outside/indptr.npy", {0, 1, 2});
  w.write_ids("outside/indices.npy", {0, 4'294'967'297});
  w.write_floats("short.npy", {3, 2}, {1, 2, 3, 4, 5, 6});
  w.write_floats("vector.npy", {4}, {1, 2, 3, 4});
  w.write_ids("integers.npy", {1, 2, 3, 4});
  const auto before = w.files();
  const std::vector<std::pair<std::string, std::string>> cases{
      {"info bad.txt", "bad.txt:2: "},
      {"spmm small.txt --norm column", "--norm: "},
      {"spmm small.txt --backend block", "--backend: "},
      {"spmm small.txt --input short.npy -o y.npy", "short.npy: "},
      {"spmm small.txt --initial x.npy -o y.npy", "--initial: "},
      {"spmm small.txt --device host --backend cusparse", "--backend: "},
      {"sddmm small.txt --left x.npy --right short.npy -o d.npy", "short.npy: "},
      {"bench small.txt --op spam", "--op: "},
      {"spmm small.txt --input x.npy --alpha '' -o y.npy", "--alpha: "},
      {"spmm small.txt --input= -o y.npy", "--input: "},
      {"spmm small.txt --alpha 1e400 -o y.npy", "--alpha: "},
      {"spmm small.txt --beta 1e-60 -o y.npy", "--beta: "},
      {"spmm small.txt --alpha 2x -o y.npy", "--alpha: "},
      {"spmm small.txt --features 0x10 -o y.npy", "--features: "},
      {"spmm small.txt --seed -1 -o y.npy", "--seed: "},
      {"info bad.mtx", "bad.mtx:3: "},
      {"info bad.npz", "bad.npz: "},
      {"info huge.txt", "huge.txt: "},
      {"info what.xyz", "what.xyz: "},
      {"info missing.mtx", "missing.mtx: "},
      {"info broken", "broken: "},
      {"info bad.txt", "bad.txt:2: not an index\n"},
      {"info large.txt", "large.txt:4: the weight is finite"},
      {"info large.mtx", "large.mtx:5: the weight is finite"},
      {"info large_mirrored.mtx", "large_mirrored.mtx: the weight of edge 0 is finite"},
      {"info large", "large: the weight of edge 1 is finite"},
      {"info empty", "empty/indptr.npy: cannot open the file: No such file or directory\n"},
      {"bench synthetic:nobody --json b.json", "synthetic:nobody: "},
      {"bench missing.mtx --json b.json", "missing.mtx: "},
      {"bench small.txt --features 0 --json b.json", "--features: "},
      {"bench small.txt --op gat --heads 3 --features 8 --json b.json", "--heads: 3 "},
      {"bench small.txt --op gat --heads 0 --json b.json", "--heads: "},
      {"bench small.txt --features -4 --json b.json", "--features: "},
      {"bench small.txt --features 1000000000000 --json b.json", "--features: 1000000000000 "},
      {"bench small.txt --features 2147483646 --json b.json", "--features: 2147483646 "},
      {"aggregate synthetic:nobody --op sum -o out.npy", "synthetic:nobody: "},
      {"aggregate empty --op sum -o out.npy", "empty/indptr.npy: "},
      {"aggregate small.txt --op sum --features 0 -o out.npy", "--features: "},
      {"aggregate small.txt --op sum --features -1 -o out.npy", "--features: "},
      {"aggregate small.txt --op sum --features 1000000000000 -o out.npy", "--features: "},
      {"aggregate small.txt --op sum --input missing.npy -o out.npy", "missing.npy: "},
      {"aggregate small.txt --op sum --input small.txt -o out.npy", "small.txt: "},
      {"aggregate small.txt --op sum -o /dev/full", "/dev/full: No space left on device\n"},
      {"convert small.txt -o /dev/null", "--output: "},
      {"info outside", "outside: "},
      {"info synthetic:nobody", "synthetic:nobody: "},
      {"info synthetic:cora,seed=x", "synthetic:cora,seed=x: "},
      {"convert bad.txt -o out.mtx", "bad.txt:2: "},
      {"convert broken -o out.npz --transpose", "broken: "},
      {"convert small.txt -o out.csv", "--output: "},
      {"convert small.txt", "--output: "},
      {"convert small.txt -o no/such/out.mtx", "no/such/out.mtx: "},
      {"convert small.txt -o no/such/out", "no/such/out: "},
      {"aggregate small.txt --op sum --input short.npy -o out.npy", "short.npy: "},
      {"aggregate small.txt --op sum --input vector.npy -o out.npy", "vector.npy: "},
      {"aggregate small.txt --op sum --input integers.npy -o out.npy", "integers.npy: "},
      {"aggregate small.txt --op sum --input x.npy --features 3 -o out.npy", "--features: "},
      {"aggregate small.txt --op sum --argument a.npy -o out.npy", "--argument: "},
      {"aggregate small.txt --op sum --grad-output x.npy -o out.npy", "--grad-output: "},
      {"aggregate small.txt --op median -o out.npy", "--op: "},
      {"aggregate small.txt -o out.npy", "--op: "},
      {"aggregate small.txt --op max --argument no/a.npy -o out.npy", "no/a.npy: "},
      {"aggregate small.txt --op max --argument out.npy -o out.npy", "out.npy: "},
      {"aggregate small.txt --op sum --dtype f8 -o out.npy", "--dtype: "},
      {"info small.txt --device tpu", "--device: "},
      {"info small.txt --nodes 2", "small.txt:"},
      {"info small.txt --nodes -2", "--nodes: "},
      {"info small.txt --separator ab", "--separator: "},
      {"info small.txt --bogus", "--bogus: "},
      {"info", "GRAPH: "},
      {"knot small.txt", "knot: "},
      {"bench small.txt --features 8,x", "--features: "},
      {"bench small.txt --repeat 0", "--repeat: "},
      {"bench small.txt --features 8 --repeat 1 --json no/b.json", "no/b.json: "}};
  for (const auto& [arguments, start] : cases) {
    const auto o = w.run(arguments);
    CAPTURE(arguments, o.err, o.out);
    CHECK(o.code == 2);
    CHECK(o.err.starts_with("quipu: " + start));
    CHECK(std::ranges::count(o.err, '\n') == 1);
    CHECK(o.out.empty());
    CHECK(w.files() == before);
  }
}

TEST_CASE("a weight for fp64 alone is no obstacle when weights are forgotten", "[cli]") {
  const workshop w;
  w.write("large.txt", "0 1 1e300\n");
  w.succeed("info large.txt --unweighted");
}

TEST_CASE("outputs keep links and go into what is no file", "[cli]") {
  const workshop w;
  write_small(w);
  w.write("old.npy", "former");
  fs::create_symlink("old.npy", w / "link.npy");
  fs::create_symlink("made.npy", w / "dangling.npy");
  const std::string sum = "aggregate small.txt --op sum --input x.npy -o ";
  w.succeed(sum + "plain.npy");
  w.succeed(sum + "link.npy");
  w.succeed(sum + "dangling.npy");
  CHECK(fs::is_symlink(w / "link.npy"));
  CHECK(fs::is_symlink(w / "dangling.npy"));
  CHECK(content(w / "old.npy") == content(w / "plain.npy"));
  CHECK(content(w / "made.npy") == content(w / "plain.npy"));
  CHECK(w.run(sum + "old.npy --argument link.npy").code == 2);
  w.succeed(sum + "/dev/null");
  CHECK(fs::is_character_file("/dev/null"));
  REQUIRE(::mkfifo((w / "pipe.npz").c_str(), 0600) == 0);
  w.run("info small.txt --device host >/dev/null; timeout 60 cat pipe.npz >copy.npz & '" +
        std::string(std::getenv("QUIPU_COMMAND")) +
        "' convert small.txt -o pipe.npz --device host; wait");
  CHECK(fs::is_fifo(w / "pipe.npz"));
  w.succeed("convert small.txt -o plain.npz");
  CHECK(content(w / "copy.npz") == content(w / "plain.npz"));
}

TEST_CASE("extensions are read in any case", "[cli]") {
  const workshop w;
  write_small(w);
  w.succeed("convert small.txt -o A.MTX");
  w.succeed("convert A.MTX -o B.Npz");
  CHECK(w.succeed("info B.Npz").find("edges") != std::string::npos);
}

TEST_CASE("help and version are no errors", "[cli]") {
  const workshop w;
  CHECK(w.run("--help").code == 0);
  CHECK(w.run("aggregate --help").code == 0);
  const auto version = w.run("--version");
  CHECK(version.code == 0);
  CHECK(version.out.starts_with("quipu "));
}

TEST_CASE("an output that fails leaves the former one", "[cli]") {
  const workshop w;
  write_small(w);
  w.write("y.npy", "former");
  CHECK(w.run("aggregate small.txt --op max --input x.npy -o y.npy --argument no/a.npy").code == 2);
  CHECK(content(w / "y.npy") == "former");
}
