// SPDX-License-Identifier: Apache-2.0
#include "quipu/sparse/spmm.hpp"

#include <chrono>
#include <string>
#include <thread>

#include "sparse/product_cases.hpp"

using namespace quipu;
using test::device_product;
using test::run_mode;

namespace {

spmm_options by(spmm_backend backend,
                cusparse_algorithm algorithm = cusparse_algorithm::automatic) {
  spmm_options o;
  o.backend = backend;
  o.algorithm = algorithm;
  return o;
}
const spmm_options engine = by(spmm_backend::engine);
const spmm_options cusparse = by(spmm_backend::cusparse);
constexpr cusparse_algorithm all_algorithms[] = {cusparse_algorithm::csr1, cusparse_algorithm::csr2,
                                                 cusparse_algorithm::csr3};

/// A product of its own, ready to run in any context.
struct setup {
  explicit setup(const context& ctx, std::uint64_t seed = 81, std::int64_t w = 64)
      : width(w), truth(test::random_graph(seed, 300, 200, 7, 900, true)) {
    const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
    made = check(to_device(ctx, check(make_graph<std::int32_t, std::int32_t>(
                                    host_context{1}, stored.view(), test::small_slices()))));
    x = check(to_device(
        ctx, test::stored_matrix<float>(test::random_matrix(seed + 1, truth.columns, width)).data));
    y = check(make_device_buffer<float>(ctx, truth.rows * width));
    dx = check(make_device_buffer<float>(ctx, truth.columns * width));
  }
  spmm_args<float, std::int32_t> forward() const {
    spmm_args<float, std::int32_t> a;
    a.graph = made.view();
    a.input = make_matrix_view<const float>(x.data(), truth.columns, width);
    a.output = make_matrix_view(const_cast<float*>(y.data()), truth.rows, width);
    return a;
  }
  spmm_backward_args<float, std::int32_t> backward() const {
    spmm_backward_args<float, std::int32_t> b;
    b.graph = made.view();
    b.grad_output = make_matrix_view<const float>(y.data(), truth.rows, width);
    b.grad_input = make_matrix_view(const_cast<float*>(dx.data()), truth.columns, width);
    return b;
  }

  std::int64_t width;
  oracle::graph truth;
  graph<std::int32_t, std::int32_t> made;
  buffer<float> x, y, dx;
};

void hold(cudaStream_t stream) {
  check(from_cuda(
      cudaLaunchHostFunc(
          stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); },
          nullptr),
      "host function"));
}

void poison(const context& ctx, const buffer<float>& b) {
  (void)cudaMemsetAsync(const_cast<float*>(b.data()), 0x55, b.bytes(), ctx.stream);
}

bool speaks_of(const status& s, const char* word) {
  return !s.ok() && std::string(s.message).find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("device products agree with the oracle", "[spmm]") {
  test::check_products<device_product, float, float16, bfloat16>({run_mode::eager, engine});
  test::check_products<device_product, float>({run_mode::second_stream, engine});
  test::check_products<device_product, float, float16>({run_mode::captured, engine});
}

TEST_CASE("cuSPARSE products agree with the oracle", "[spmm]") {
  constexpr auto kept = test::coefficients_in::element;
  test::check_products<device_product, float, float16, bfloat16>({run_mode::eager, cusparse}, kept);
  test::check_products<device_product, float>({run_mode::second_stream, cusparse}, kept);
  test::check_products<device_product, float>({run_mode::captured, cusparse}, kept);
}

TEST_CASE("every algorithm of cuSPARSE gives the product", "[spmm]") {  // K46
  for (const auto algorithm : all_algorithms) {
    INFO("algorithm " << static_cast<int>(algorithm));
    const device_product run{run_mode::captured, by(spmm_backend::cusparse, algorithm)};
    test::check_product_cases(run);
    constexpr auto kept = test::coefficients_in::element;
    test::check_product_widths<device_product, float, float16>(run, kept);
    test::check_products<device_product, float, bfloat16>(run, kept);
  }
}

TEST_CASE("device products take every width", "[spmm]") {
  test::check_product_widths<device_product, float, float16>({run_mode::eager, engine});
}

TEST_CASE("device products keep to their rows in padded and misaligned views", "[spmm]") {  // K30
  test::check_product_layouts<device_product, float, float16>({run_mode::eager, engine});
  test::check_product_layouts<device_product, float, float16>({run_mode::eager, cusparse},
                                                              test::coefficients_in::element);
}

TEST_CASE("device products pass the public cases", "[spmm]") {
  test::check_product_cases(device_product{run_mode::eager, engine});
  test::check_product_cases(device_product{run_mode::captured, {}});
}

TEST_CASE("products give the same bits every run", "[spmm]") {
  const auto ctx = test::device_context();
  const setup s(ctx);
  for (const auto& options : {engine, cusparse}) {
    auto plan = check(make_spmm_plan(ctx, s.forward(), options));
    std::vector<float> y, dx;
    for (int run = 0; run < 20; ++run) {
      check(spmm(ctx, plan, s.forward()));
      check(spmm_backward(ctx, plan, s.backward()));
      const auto got_y = check(to_host(ctx, s.y)), got_dx = check(to_host(ctx, s.dx));
      if (run == 0) {
        y = got_y;
        dx = got_dx;
      }
      REQUIRE(got_y == y);
      REQUIRE(got_dx == dx);
    }
  }
}

TEST_CASE("a plan refuses what it was not made for", "[spmm]") {
  const auto ctx = test::device_context();
  const setup s(ctx), other(ctx);
  for (const auto& options : {engine, cusparse}) {
    auto plan = check(make_spmm_plan(ctx, s.forward(), options));
    check(spmm(ctx, plan, s.forward()));
    REQUIRE(speaks_of(spmm(ctx, plan, other.forward()), "another graph"));
    auto narrow = s.forward();
    narrow.input = make_matrix_view<const float>(s.x.data(), s.truth.columns, 32);
    narrow.output = make_matrix_view(const_cast<float*>(s.y.data()), s.truth.rows, 32);
    REQUIRE(speaks_of(spmm(ctx, plan, narrow), "another width"));
    spmm_args<float16, std::int32_t> half;
    half.graph = s.made.view();
    half.input =
        make_matrix_view(reinterpret_cast<const float16*>(s.x.data()), s.truth.columns, 64);
    half.output = make_matrix_view(reinterpret_cast<float16*>(const_cast<float*>(s.y.data())),
                                   s.truth.rows, 64);
    REQUIRE(speaks_of(spmm(ctx, plan, half), "element type"));
    auto scaled = s.forward();
    const auto scales = check(make_node_scales(ctx, s.made.view(), normalisation::mean));
    scaled.scales = scales.view();
    REQUIRE(speaks_of(spmm(ctx, plan, scaled), "scales"));
    auto weighted = s.forward();
    const auto weights = check(to_device(ctx, std::vector<float>(s.truth.indices.size(), 2.0f)));
    weighted.weights = make_vector_view(weights.data(), weights.size());
    REQUIRE(speaks_of(spmm(ctx, plan, weighted), "weights"));
    spmm_plan empty;
    REQUIRE(speaks_of(spmm(ctx, empty, s.forward()), "empty"));
    auto moved = std::move(plan);
    check(spmm(ctx, moved, s.forward()));
    REQUIRE(speaks_of(spmm(ctx, plan, s.forward()), "empty"));
    check(synchronize(ctx));
  }
  auto forward_only = engine;
  forward_only.backward = edge_option::keep;
  auto plan = check(make_spmm_plan(ctx, s.forward(), forward_only));
  REQUIRE(speaks_of(spmm_backward(ctx, plan, s.backward()), "without backward"));
}

TEST_CASE("a graph made anew in the same memory is another graph", "[spmm]") {
  const auto ctx = test::device_context();
  setup s(ctx);
  auto plan = check(make_spmm_plan(ctx, s.forward(), engine));
  const test::stored_graph<std::int32_t, std::int32_t> stored(s.truth);
  const auto on_host = check(
      make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view(), test::small_slices()));
  auto hand_made = s.forward();
  hand_made.graph.identity = check(to_device(ctx, on_host)).view().identity;
  REQUIRE(speaks_of(spmm(ctx, plan, hand_made), "another graph"));
}

TEST_CASE("changed weights are seen after update_weights, both ways", "[spmm]") {  // C05
  const auto ctx = test::device_context();
  const setup s(ctx);
  for (const auto& options : {engine, cusparse}) {
    std::vector<float> w(s.truth.indices.size(), 1.0f);
    auto weights = check(to_device(ctx, w));
    auto a = s.forward();
    auto b = s.backward();
    a.weights = b.weights = make_vector_view<const float>(weights.data(), weights.size());
    auto plan = check(make_spmm_plan(ctx, a, options));
    check(spmm(ctx, plan, a));
    check(synchronize(ctx));
    auto changed = s.truth;
    for (std::size_t k = 0; k < w.size(); ++k) {
      w[k] = static_cast<float>(k % 5) - 2.0f;
      changed.weights[k] = w[k];
    }
    check(from_cuda(cudaMemcpy(weights.data(), w.data(), weights.bytes(), cudaMemcpyHostToDevice),
                    "copy"));
    check(update_weights(ctx, plan, a));
    check(spmm(ctx, plan, a));
    check(spmm_backward(ctx, plan, b));
    const auto x = test::random_matrix(82, s.truth.columns, s.width);
    const auto c = oracle::coefficients(changed, oracle::normalisation::none);
    const auto none = oracle::matrix();
    test::stored_matrix<float> y(s.truth.rows, s.width, 0.0), dx(s.truth.columns, s.width, 0.0);
    y.data = check(to_host(ctx, s.y));
    dx.data = check(to_host(ctx, s.dx));
    const auto xr = test::stored_matrix<float>(x).rounded();
    const auto ca = test::absolute(c);
    const double terms = test::longest_sum(changed);
    test::require_sum(y, oracle::product(changed, c, xr, 1, 0, none),
                      oracle::product(changed, ca, test::absolute(xr), 1, 0, none), terms, "spmm");
    test::require_sum(
        dx, oracle::product_backward(changed, c, y.rounded(), 1, 0, none),
        oracle::product_backward(changed, ca, test::absolute(y.rounded()), 1, 0, none), terms,
        "spmm_backward");
  }
}

TEST_CASE("two plans work on two streams; one plan does not", "[spmm]") {
  const auto ctx = test::device_context();
  const setup a(ctx, 83), b(ctx, 84);
  for (const auto& options : {engine, cusparse}) {
    auto plan_a = check(make_spmm_plan(ctx, a.forward(), options));
    auto plan_b = check(make_spmm_plan(ctx, b.forward(), options));
    check(spmm(ctx, plan_a, a.forward()));
    check(spmm(ctx, plan_b, b.forward()));
    const auto want_a = check(to_host(ctx, a.y)), want_b = check(to_host(ctx, b.y));
    poison(ctx, a.y);
    poison(ctx, b.y);
    check(synchronize(ctx));
    const test::own_stream first, second;
    for (int round = 0; round < 50; ++round) {
      check(spmm(ctx.on(first.get()), plan_a, a.forward()));
      check(spmm(ctx.on(second.get()), plan_b, b.forward()));
    }
    check(synchronize(ctx.on(first.get())));
    check(synchronize(ctx.on(second.get())));
    REQUIRE(check(to_host(ctx, a.y)) == want_a);
    REQUIRE(check(to_host(ctx, b.y)) == want_b);

    hold(first.get());
    poison(ctx.on(first.get()), a.y);
    check(spmm(ctx.on(first.get()), plan_a, a.forward()));
    REQUIRE(speaks_of(spmm(ctx.on(second.get()), plan_a, a.forward()), "another stream"));
    check(synchronize(ctx.on(first.get())));
    check(spmm(ctx.on(second.get()), plan_a, a.forward()));
    check(synchronize(ctx.on(second.get())));
    REQUIRE(check(to_host(ctx, a.y)) == want_a);
  }
}

TEST_CASE("a plan may go while its last call runs", "[spmm]") {  // X13
  const auto ctx = test::device_context();
  const setup s(ctx);
  for (const auto& options : {engine, cusparse}) {
    std::vector<float> want;
    {
      auto plan = check(make_spmm_plan(ctx, s.forward(), options));
      check(spmm(ctx, plan, s.forward()));
      want = check(to_host(ctx, s.y));
      hold(ctx.stream);
      poison(ctx, s.y);
      check(spmm(ctx, plan, s.forward()));
    }
    REQUIRE(check(to_host(ctx, s.y)) == want);
  }
}

TEST_CASE("a plan tells what was chosen, and may be told", "[spmm]") {
  std::vector<std::string> lines;
  auto ctx = test::device_context().with(
      log_sink{[](void* to, const char* line) {
                 static_cast<std::vector<std::string>*>(to)->emplace_back(line);
               },
               &lines});
  const setup s(ctx);
  const auto plan = check(make_spmm_plan(ctx, s.forward()));
  REQUIRE(lines.size() == 2);
  REQUIRE(lines[0].rfind("spmm: ", 0) == 0);
  REQUIRE(lines[1].rfind("spmm_backward: ", 0) == 0);
  REQUIRE(plan.forward().engine_ms > 0);
  const auto told = check(make_spmm_plan(ctx, s.forward(), cusparse));
  REQUIRE(told.forward().backend == spmm_backend::cusparse);
  REQUIRE(told.forward().algorithm == cusparse_algorithm::csr3);
  REQUIRE(told.bytes() > 0);
  const auto csr2 = by(spmm_backend::cusparse, cusparse_algorithm::csr2);
  REQUIRE(speaks_of(make_spmm_plan(ctx, s.forward(), csr2).error(), "determinism"));
  auto free_plan = check(make_spmm_plan(ctx.with(determinism::any), s.forward(), csr2));
  check(spmm(ctx.with(determinism::any), free_plan, s.forward()));
  REQUIRE(speaks_of(spmm(ctx, free_plan, s.forward()), "determinism"));
  check(synchronize(ctx));
}

TEST_CASE("factors that have no code are looked up", "[spmm]") {
  // 20 bits of id leave 12 for codes; factors of 600,000 kinds do not fit those.
  const auto ctx = test::device_context();
  constexpr std::int64_t columns = 600000, width = 64;
  auto truth = test::random_graph(87, 500, columns, 40, 3000);
  const test::stored_graph<std::int32_t, std::int32_t> stored(truth);
  const auto made = check(to_device(
      ctx, check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view()))));
  std::vector<float> factors(columns);
  for (std::int64_t c = 0; c < columns; ++c) factors[c] = 1.0f + static_cast<float>(c) * 1e-6f;
  const test::stored_matrix<float> x(test::random_matrix(88, columns, width));
  const auto on_device = check(to_device(ctx, factors));
  const auto in = check(to_device(ctx, x.data));
  test::stored_matrix<float> y(truth.rows, width, 0.0);
  auto out = check(to_device(ctx, y.data));
  spmm_args<float, std::int32_t> a;
  a.graph = made.view();
  a.scales.column = on_device.data();
  a.input = make_matrix_view<const float>(in.data(), columns, width);
  a.output = make_matrix_view(out.data(), truth.rows, width);
  auto plan = check(make_spmm_plan(ctx, a, engine));
  check(spmm(ctx, plan, a));
  y.data = check(to_host(ctx, out));
  for (const auto j : truth.indices) truth.weights.push_back(factors[static_cast<std::size_t>(j)]);
  const auto xr = x.rounded();
  auto magnitude = oracle::sum_of_magnitudes(truth, xr);
  const double terms = test::longest_sum(truth);
  test::allow_for_coefficients<float>(magnitude, test::coefficients_in::fp32, terms);
  test::require_sum(y, oracle::sum(truth, xr), magnitude, terms, "coded columns");
}

TEST_CASE("a plan takes views of any border and stride", "[spmm]") {
  const auto ctx = test::device_context();
  const setup s(ctx);
  auto wide = check(make_device_buffer<float>(ctx, s.truth.rows * (s.width + 4) + 4));
  for (const auto& options : {engine, cusparse}) {
    auto plan = check(make_spmm_plan(ctx, s.forward(), options));
    auto engine_plan = check(make_spmm_plan(ctx, s.forward(), engine));
    check(spmm(ctx, engine_plan, s.forward()));
    const auto want = check(to_host(ctx, s.y));
    for (const auto& [shift, padding] : {std::pair{0, 4}, {1, 0}, {1, 3}, {0, 0}}) {
      poison(ctx, wide);
      auto a = s.forward();
      a.output = make_matrix_view(wide.data() + shift, s.truth.rows, s.width, s.width + padding);
      check(spmm(ctx, plan, a));
      const auto got = check(to_host(ctx, wide));
      double worst = 0;
      for (std::int64_t i = 0; i < s.truth.rows; ++i)
        for (std::int64_t f = 0; f < s.width; ++f) {
          const double w = want[static_cast<std::size_t>(i * s.width + f)];
          const double g = got[static_cast<std::size_t>(shift + i * (s.width + padding) + f)];
          worst = std::max(worst, std::isnan(g) ? 1e300 : std::fabs(g - w) / (1 + std::fabs(w)));
        }
      INFO("shift " << shift << " padding " << padding);
      REQUIRE(worst < 1e-4);  // two orders of one sum of up to 900 terms
    }
  }
}

TEST_CASE("weights are not updated while the stream is captured", "[spmm]") {
  const auto ctx = test::device_context();
  const setup s(ctx);
  auto plan = check(make_spmm_plan(ctx, s.forward(), engine));
  const test::own_stream other;
  cudaGraph_t captured = nullptr;
  check(from_cuda(cudaStreamBeginCapture(other.get(), cudaStreamCaptureModeGlobal), "capture"));
  const auto outcome = update_weights(ctx.on(other.get()), plan, s.forward());
  check(from_cuda(cudaStreamEndCapture(other.get(), &captured), "capture"));
  (void)cudaGraphDestroy(captured);
  REQUIRE(speaks_of(outcome, "captured"));
  check(spmm(ctx, plan, s.forward()));
  check(synchronize(ctx));
}

TEST_CASE("products of more than 2^31 elements", "[spmm][slow]") {  // K32
  const auto ctx = test::device_context();
  constexpr std::int64_t columns = 4194307, width = 513;
  oracle::graph g;
  g.rows = 16;
  g.columns = columns;
  g.indices = {columns - 1, 4186128, columns - 1, 4186128};
  g.offsets.assign(17, 2);
  g.offsets[0] = 0;
  g.offsets[1] = 1;
  g.offsets[16] = 4;
  const test::stored_graph<std::int32_t, std::int32_t> stored(g);
  const auto made = check(to_device(
      ctx, check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view()))));
  auto x = check(make_device_buffer<float16>(ctx, columns * width));
  auto y = check(make_device_buffer<float16>(ctx, 16 * width));
  check(from_cuda(cudaMemset(x.data(), 0, x.bytes()), "clear"));
  std::vector<float16> last(width), tens(width, __float2half(10.0f));
  for (std::int64_t j = 0; j < width; ++j) last[j] = __float2half(static_cast<float>(j % 7 + 1));
  const auto put = [&](std::int64_t row, const std::vector<float16>& values) {
    check(from_cuda(
        cudaMemcpy(x.data() + row * width, values.data(), width * 2, cudaMemcpyHostToDevice),
        "copy"));
  };
  put(columns - 1, last);
  put(4186128, tens);
  for (const auto& options : {engine, cusparse}) {
    spmm_args<float16, std::int32_t> a;
    a.graph = made.view();
    a.input = make_matrix_view<const float16>(x.data(), columns, width);
    a.output = make_matrix_view(y.data(), 16, width);
    auto plan = check(make_spmm_plan(ctx, a, options));
    check(spmm(ctx, plan, a));
    const auto got = check(to_host(ctx, y));
    for (std::int64_t j = 0; j < width; ++j) {
      const float v = static_cast<float>(j % 7 + 1);
      REQUIRE(widen(got[j]) == v);
      REQUIRE(widen(got[width + j]) == 10.0f);
      REQUIRE(widen(got[15 * width + j]) == v + 10.0f);
      REQUIRE(widen(got[7 * width + j]) == 0.0f);
    }
    // Backward writes all of dX: only the two rows that sent something may be touched.
    spmm_backward_args<float16, std::int32_t> b;
    b.graph = a.graph;
    b.grad_output = make_matrix_view<const float16>(y.data(), 16, width);
    auto dx = check(make_device_buffer<float16>(ctx, columns * width));
    b.grad_input = make_matrix_view(dx.data(), columns, width);
    check(spmm_backward(ctx, plan, b));
    const auto tail = check(to_host(ctx, dx.data() + (columns - 1) * width, width));
    const auto before = check(to_host(ctx, dx.data() + (columns - 2) * width, width));
    for (std::int64_t j = 0; j < width; ++j) {
      REQUIRE(widen(tail[j]) == 2.0f * static_cast<float>(j % 7 + 1) + 10.0f);
      REQUIRE(widen(before[j]) == 0.0f);
    }
  }
}
