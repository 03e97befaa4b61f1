// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "cli/workshop.hpp"

using namespace test;

TEST_CASE("attention weighs senders", "[cli]") {
  const workshop w;
  w.write("triangle.mtx", karate());
  w.write_floats("zeros.npy", {3, 1, 1}, {0, 0, 0});
  w.write_floats("one.npy", {1, 1}, {1});
  w.write_floats("r.npy", {3, 1, 1}, {1000, 999, 0});
  w.succeed(
      "gatv2 triangle.mtx --target zeros.npy --source r.npy --attention one.npy -o y.npy "
      "--alpha a.npy --logsumexp s.npy");
  CHECK(check(quipu::read_npy(w / "y.npy")).shape == std::vector<std::int64_t>{3, 1, 1});
  CHECK(check(quipu::read_npy(w / "a.npy")).shape == std::vector<std::int64_t>{6, 1});
  CHECK(w.read<float>("y.npy")[2] == Approx(999.731058579));
  CHECK(w.read<float>("a.npy")[4] == Approx(0.731058579).epsilon(1e-5));
  CHECK(w.read<float>("s.npy")[2] == Approx(1000.313261688));

  w.write_floats("p.npy", {3, 1}, {0, 0, 0});
  w.write_floats("q.npy", {3, 1}, {0, std::log(3.0f), 0});
  w.write_floats("v.npy", {3, 1, 2}, {1, 2, 3, 4, 5, 6});
  w.succeed("gat triangle.mtx --target-score p.npy --source-score q.npy --source v.npy -o y.npy");
  const auto y = w.read<float>("y.npy");
  REQUIRE(y.size() == 6);
  CHECK(y[0] == Approx(3.5));  // 3/4 of node 1 and 1/4 of node 2
  CHECK(y[1] == Approx(4.5));

  w.succeed("transformer triangle.mtx --value v.npy --scale 0 -o y.npy");  // queries are drawn
  CHECK(w.read<float>("y.npy")[0] == Approx(4));
  w.succeed("transformer triangle.mtx --heads 4 --dim 3 --dtype f16 -o y.npy");
  CHECK(check(quipu::read_npy(w / "y.npy")).shape == std::vector<std::int64_t>{3, 4, 3});
}

TEST_CASE("attention sends gradients back", "[cli]") {
  const workshop w;
  w.write("triangle.mtx", karate());
  w.write_floats("v.npy", {3, 1, 2}, {1, 2, 3, 4, 5, 6});
  w.write_floats("g.npy", {3, 1, 2}, {1, 0, 1, 0, 1, 0});
  w.succeed(
      "transformer triangle.mtx --value v.npy --scale 0 --grad-output g.npy --grad-value gv.npy "
      "--grad-query gq.npy");
  const auto of_value = w.read<float>("gv.npy"), of_query = w.read<float>("gq.npy");
  for (int j = 0; j < 3; ++j) {  // half of what either neighbour is given
    CHECK(of_value[2 * j] == Approx(1));
    CHECK(of_value[2 * j + 1] == 0);
    CHECK(of_query[2 * j] == 0);
  }
  w.succeed("gatv2 triangle.mtx --heads 2 --dim 4 --dropout 0.5 --grad-attention ga.npy -o y.npy");
  CHECK(check(quipu::read_npy(w / "ga.npy")).shape == std::vector<std::int64_t>{2, 4});
  w.succeed("gat triangle.mtx --heads 2 --grad-target-score gt.npy --grad-source gs.npy");
  CHECK(check(quipu::read_npy(w / "gt.npy")).shape == std::vector<std::int64_t>{3, 2});
  CHECK(check(quipu::read_npy(w / "gs.npy")).shape == std::vector<std::int64_t>{3, 2, 64});
  const auto before = w.files();
  const auto refused = [&](const std::string& arguments, const char* what) {
    const auto o = w.run(arguments + " --device host");
    CAPTURE(o.err);
    CHECK(o.code != 0);
    CHECK(o.err.find(what) != std::string::npos);
  };
  refused("gat triangle.mtx --dropout 1 -o z.npy", "dropout: probability is outside [0, 1)");
  refused("gat triangle.mtx --grad-output g.npy", "--grad-output: no gradient is asked for");
  CHECK(w.files() == before);
}
