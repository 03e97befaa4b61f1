// SPDX-License-Identifier: Apache-2.0
// Sizes beyond 2^31: elements, edges, rows times block size. Each test takes gigabytes of device
// memory.
#include "quipu/reduce/aggregate.hpp"
#include "support/catch.hpp"
#include "support/device.hpp"
#include "support/problem.hpp"

using namespace quipu;

namespace {

/// Device array of `size` elements that repeats `pattern`, filled by doubling.
template <class T>
buffer<T> repeated(const context& ctx, std::int64_t size, const std::vector<T>& pattern) {
  auto b = check(make_device_buffer<T>(ctx, size));
  auto filled = std::min<std::int64_t>(size, static_cast<std::int64_t>(pattern.size()));
  const auto copy = [&](T* to, const T* from, std::int64_t count) {
    check(from_cuda(cudaMemcpyAsync(to, from, sizeof(T) * static_cast<std::size_t>(count),
                                    cudaMemcpyDefault, ctx.stream),
                    "fill"));
  };
  copy(b.data(), pattern.data(), filled);
  while (filled < size) {
    const auto count = std::min(filled, size - filled);
    copy(b.data() + filled, b.data(), count);
    filled += count;
  }
  check(synchronize(ctx));
  return b;
}

template <class O>
buffer<O> counting_offsets(const context& ctx, std::int64_t rows) {
  std::vector<O> offsets(static_cast<std::size_t>(rows + 1));
  for (std::size_t r = 0; r < offsets.size(); ++r) offsets[r] = static_cast<O>(r);
  return check(to_device(ctx, offsets));
}

graph_options forward_only() {
  graph_options o;
  o.reverse = edge_option::keep;
  return o;
}

/// Sum (or another reduction) of x over a graph of one edge a row; gives the asked elements.
template <class T, class I, class O>
void reduce_into(const context& ctx, const graph_view<I, O>& g, const T* x, T* y,
                 std::int64_t width, quipu::reduce op, argument_view argument = {}) {
  aggregate_args<T, I, O> a;
  a.graph = g;
  a.input = make_matrix_view(x, g.columns(), width);
  a.output = make_matrix_view(y, g.rows(), width);
  a.op = op;
  a.argument = argument;
  test::guarded_workspace space(ctx, workspace_bytes(ctx, a));
  check(aggregate(ctx, a, space.get()));
  check(synchronize(ctx));
  REQUIRE(space.intact());
}

template <class T>
std::vector<T> row_of(const context& ctx, const buffer<T>& m, std::int64_t row,
                      std::int64_t width) {
  return check(to_host(ctx, m.data() + row * width, width));
}

}  // namespace

TEST_CASE("more than 2^31 input elements", "[slow]") {  // K32
  const auto ctx = test::device_context();
  constexpr std::int64_t columns = 4194307, width = 513, rows = 16;
  auto x = check(make_device_buffer<float16>(ctx, columns * width));
  (void)cudaMemset(x.data(), 0, x.bytes());
  std::vector<float16> first(width), second(width, __float2half(10.0f));
  for (std::int64_t j = 0; j < width; ++j) first[j] = __float2half(static_cast<float>(j % 7 + 1));
  (void)cudaMemcpy(x.data() + 4194306 * width, first.data(), width * 2, cudaMemcpyHostToDevice);
  (void)cudaMemcpy(x.data() + 4186128 * width, second.data(), width * 2, cudaMemcpyHostToDevice);
  oracle::graph g;
  g.rows = rows;
  g.columns = columns;
  g.indices = {4194306, 4186128, 4194306, 4186128};
  g.offsets = {0, 1};
  for (int r = 1; r < 15; ++r) g.offsets.push_back(2);
  g.offsets.push_back(4);
  const test::stored_graph<std::int32_t, std::int32_t> stored(g);
  const auto host = check(make_graph<std::int32_t, std::int32_t>(host_context{1}, stored.view()));
  const auto graph = check(to_device(ctx, host));
  auto y = check(make_device_buffer<float16>(ctx, rows * width));
  reduce_into<float16>(ctx, graph.view(), x.data(), y.data(), width, quipu::reduce::sum);
  for (const std::int64_t row : {0, 1, 2, 15}) {
    const auto got = row_of(ctx, y, row, width);
    for (std::int64_t j = 0; j < width; ++j) {
      const float peak = static_cast<float>(j % 7 + 1);
      const float want = row == 0 ? peak : row == 1 ? 10.0f : row == 15 ? peak + 10.0f : 0.0f;
      REQUIRE(__half2float(got[j]) == want);
    }
  }
  aggregate_backward_args<float16, std::int32_t> b;
  b.graph = graph.view();
  b.grad_output = make_matrix_view<const float16>(y.data(), rows, width);
  b.grad_input = make_matrix_view(x.data(), columns, width);
  test::guarded_workspace space(ctx, workspace_bytes(ctx, b));
  check(aggregate_backward(ctx, b, space.get()));
  check(synchronize(ctx));
  REQUIRE(__half2float(row_of(ctx, x, 4194306, width)[0]) == 1.0f + 11.0f);
  REQUIRE(__half2float(row_of(ctx, x, 4194305, width)[5]) == 0.0f);
}

TEST_CASE("more than 2^31 edges in one row", "[slow]") {  // K34
  const auto ctx = test::device_context();
  constexpr std::int64_t edges = 2147483664, columns = 1024;
  std::vector<std::int32_t> pattern(columns);
  for (std::int32_t k = 0; k < columns; ++k) pattern[k] = k;
  const auto indices = repeated(ctx, edges, pattern);
  const auto offsets = check(to_device(ctx, std::vector<std::int64_t>{0, edges}));
  const csr_view<std::int32_t, std::int64_t> csr{
      1, columns, edges, offsets.data(), indices.data(), nullptr};
  const auto graph = check(make_graph<std::int32_t, std::int64_t>(ctx, csr, forward_only()));
  const auto x = check(to_device(ctx, std::vector<float>(columns, 1.0f)));
  auto y = check(make_device_buffer<float>(ctx, 1));
  // Slices are of 1023 and of 1024 edges: sums beyond 2^24 are rounded, each time by 2^-24 of them
  // at most. One of 32 groups merges 2^16 slices, and then come the groups.
  constexpr double rounding = (65536 + 32) * 0x1p-24;
  reduce_into<float>(ctx, graph.view(), x.data(), y.data(), 1, quipu::reduce::mean);
  REQUIRE(std::fabs(row_of(ctx, y, 0, 1)[0] - 1.0) < rounding);
  reduce_into<float>(ctx, graph.view(), x.data(), y.data(), 1, quipu::reduce::sum);
  REQUIRE(std::fabs(row_of(ctx, y, 0, 1)[0] / 2147483664.0 - 1.0) < rounding);
  auto winner = check(make_device_buffer<unsigned char>(
      ctx, static_cast<std::int64_t>(argument_bytes(graph.view(), 1))));
  const auto argument = make_argument_view(graph.view(), winner.data(), 1);
  reduce_into<float>(ctx, graph.view(), x.data(), y.data(), 1, quipu::reduce::max, argument);
  REQUIRE(row_of(ctx, y, 0, 1)[0] == 1.0f);
  auto edge = check(make_device_buffer<std::int64_t>(ctx, 1));
  check(expand_argument(ctx, graph.view(), argument, make_matrix_view(edge.data(), 1, 1)));
  REQUIRE(check(to_host(ctx, edge)) == std::vector<std::int64_t>{0});
}

TEST_CASE("2^31 edges need 64-bit offsets, said before anything is read") {  // K35
  const auto ctx = test::device_context();
  const coo_view<std::int32_t> edges{10, 10, std::int64_t{1} << 31, nullptr, nullptr, nullptr};
  const coo_view<std::int32_t> nodes{std::int64_t{1} << 31, 10, 5, nullptr, nullptr, nullptr};
  for (const auto& coo : {edges, nodes}) {
    REQUIRE(make_graph<std::int32_t, std::int32_t>(ctx, coo).error().code ==
            status_code::invalid_argument);
    REQUIRE(make_graph<std::int32_t, std::int32_t>(host_context{1}, coo).error().code ==
            status_code::invalid_argument);
  }
}

TEST_CASE("more than 2^31 output elements, and more than 2^32 threads' worth of rows", "[slow]") {
  const auto ctx = test::device_context();
  {  // K36
    constexpr std::int64_t rows = 8400001, width = 256;
    const auto offsets = counting_offsets<std::int32_t>(ctx, rows);
    const auto indices = repeated<std::int32_t>(ctx, rows, {0, 1, 2, 3, 4, 5, 6});
    const csr_view<std::int32_t> csr{rows, 7, rows, offsets.data(), indices.data(), nullptr};
    const auto graph = check(make_graph<std::int32_t, std::int32_t>(ctx, csr, forward_only()));
    std::vector<float> values(7 * width);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k / width);
    const auto x = check(to_device(ctx, values));
    auto y = check(make_device_buffer<float>(ctx, rows * width));
    reduce_into<float>(ctx, graph.view(), x.data(), y.data(), width, quipu::reduce::sum);
    for (const std::int64_t row :
         {std::int64_t{0}, std::int64_t{8388607}, std::int64_t{8388608}, rows - 1}) {
      REQUIRE(row_of(ctx, y, row, width) == std::vector<float>(width, static_cast<float>(row % 7)));
    }
  }
  {  // K37
    constexpr std::int64_t rows = 16777217;
    const auto offsets = counting_offsets<std::int32_t>(ctx, rows);
    const auto indices = repeated<std::int32_t>(ctx, rows, {0, 1, 2, 3, 4});
    const csr_view<std::int32_t> csr{rows, 5, rows, offsets.data(), indices.data(), nullptr};
    const auto graph = check(make_graph<std::int32_t, std::int32_t>(ctx, csr, forward_only()));
    const auto x = check(to_device(ctx, std::vector<float>{1, 2, 3, 4, 5}));
    auto y = check(make_device_buffer<float>(ctx, rows));
    reduce_into<float>(ctx, graph.view(), x.data(), y.data(), 1, quipu::reduce::sum);
    double sum = 0;
    const auto got = check(to_host(ctx, y));
    for (const float v : got) sum += v;
    REQUIRE(got.back() == 2.0f);
    REQUIRE(sum == 50331648.0);
  }
}

TEST_CASE("grids beyond 65535 blocks a dimension") {  // K38
  const auto ctx = test::device_context();
  const auto identity = [&](std::int64_t rows, std::int64_t width) {
    const auto offsets = counting_offsets<std::int32_t>(ctx, rows);
    std::vector<std::int32_t> columns(static_cast<std::size_t>(rows));
    for (std::size_t k = 0; k < columns.size(); ++k) columns[k] = static_cast<std::int32_t>(k);
    const auto indices = check(to_device(ctx, columns));
    const csr_view<std::int32_t> csr{rows, rows, rows, offsets.data(), indices.data(), nullptr};
    const auto graph = check(make_graph<std::int32_t, std::int32_t>(ctx, csr));
    std::vector<float> values(static_cast<std::size_t>(rows * width));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 8191);
    const auto x = check(to_device(ctx, values));
    auto y = check(make_device_buffer<float>(ctx, rows * width));
    for (const auto op : {quipu::reduce::sum, quipu::reduce::max}) {
      reduce_into<float>(ctx, graph.view(), x.data(), y.data(), width, op);
      REQUIRE(check(to_host(ctx, y)) == values);
    }
  };
  identity(524289, 8);
  identity(2, 524296);
}
