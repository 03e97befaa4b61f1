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
