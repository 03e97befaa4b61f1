// SPDX-License-Identifier: Apache-2.0
// The forward pass of a two-layer graph convolution (Kipf and Welling, 2017) on a graph of Cora's
// size: logits = N relu(N X W1) W2, with N = D^-1/2 (A + I) D^-1/2. Dense layers come from cuBLAS
// on a GPU and from plain loops on the host; the graph's part is the same verb on both. Prints the
// time of both and how far their results lie apart; exit code 1 if too far, 0 without a GPU too.
#include <cublas_v2.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "layers.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"
#include "quipu/sparse/spmm.hpp"

using namespace quipu;
using I = std::int32_t;

namespace {

constexpr std::int64_t features = 1433, hidden = 16, classes = 7;

struct model {
  gcn::dense first = gcn::drawn(features, hidden, 1, 0.06f);
  gcn::dense second = gcn::drawn(hidden, classes, 2, 0.5f);
};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  return spent.count();
}

/// Self loops are the graph's business: the layer's normalisation counts them.
graph_options with_self_loops() {
  graph_options o;
  o.add_self_loops = edge_option::apply;
  return o;
}

coo_view<I> edges_of(const graph<I, I>& g, std::vector<I>& rows) {
  const auto& csr = g.view().forward.csr;
  for (I r = 0; r < csr.rows; ++r) rows.insert(rows.end(), csr.offsets[r + 1] - csr.offsets[r], r);
  return {csr.rows, csr.columns, csr.edges, rows.data(), csr.indices, nullptr};
}

gcn::dense aggregate_on_host(const graph_view<I, I>& g, const scales_view& scales,
                             const gcn::dense& x) {
  gcn::dense y(g.rows(), x.columns);
  spmm_args<float, I> a;
  a.graph = g;
  a.scales = scales;
  a.input = make_matrix_view(x.values.data(), x.rows, x.columns);
  a.output = make_matrix_view(y.values.data(), y.rows, y.columns);
  check(spmm(host_context{}, a));
  return y;
}

gcn::dense forward_on_host(const graph_view<I, I>& g, const gcn::dense& x, const model& m) {
  const auto scales = check(make_node_scales(host_context{}, g, normalisation::symmetric));
  auto h = aggregate_on_host(g, scales.view(), gcn::multiply(x, m.first));
  gcn::relu(h);
  return aggregate_on_host(g, scales.view(), gcn::multiply(h, m.second));
}

__global__ void relu_kernel(float* values, std::int64_t count) {
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k < count) values[k] = values[k] < 0 ? 0 : values[k];
}

/// Everything that the pass needs lies on the device; `run` only enqueues, so it can be captured.
class device_forward {
 public:
  device_forward(const context& ctx, const graph_view<I, I>& g, const gcn::dense& x, const model& m)
      : ctx_(ctx),
        nodes_(g.rows()),
        scales_(check(make_node_scales(ctx, g, normalisation::symmetric))),
        x_(check(to_device(ctx, x.values))),
        first_(check(to_device(ctx, m.first.values))),
        second_(check(to_device(ctx, m.second.values))),
        a_(check(make_device_buffer<float>(ctx, nodes_ * hidden))),
        b_(check(make_device_buffer<float>(ctx, nodes_ * hidden))),
        layers_{layer(g, hidden, a_, b_), layer(g, classes, a_, b_)},
        plans_{check(make_spmm_plan(ctx, layers_[0], forward_only())),
               check(make_spmm_plan(ctx, layers_[1], forward_only()))},
        blas_space_(check(make_device_buffer<char>(ctx, 32 << 20))) {
    cublasCreate(&blas_);
    cublasSetStream(blas_, ctx.stream);
    // Memory of its own would be asked for during capture.
    cublasSetWorkspace(blas_, blas_space_.data(), blas_space_.bytes());
  }
  ~device_forward() { cublasDestroy(blas_); }
  device_forward(const device_forward&) = delete;
  device_forward& operator=(const device_forward&) = delete;

  void run() {
    multiply(x_, features, first_, hidden, a_);
    check(spmm(ctx_, plans_[0], layers_[0]));
    const auto count = nodes_ * hidden;
    relu_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, ctx_.stream>>>(b_.data(),
                                                                                     count);
    multiply(b_, hidden, second_, classes, a_);
    check(spmm(ctx_, plans_[1], layers_[1]));
  }

  gcn::dense logits() const {
    gcn::dense out(nodes_, classes);
    out.values = check(to_host(ctx_, b_.data(), nodes_ * classes));
    return out;
  }

 private:
  static spmm_options forward_only() {
    spmm_options o;
    o.backward = edge_option::keep;
    return o;
  }

  spmm_args<float, I> layer(const graph_view<I, I>& g, std::int64_t width, buffer<float>& from,
                            buffer<float>& to) const {
    // [doc: layer]
    spmm_args<float, I> a;
    a.graph = g;
    a.scales = scales_.view();  // of normalisation::symmetric
    a.input = make_matrix_view<const float>(from.data(), g.columns(), width);
    a.output = make_matrix_view(to.data(), g.rows(), width);
    // once: plan = check(make_spmm_plan(ctx, a)); then: check(spmm(ctx, plan, a));
    // [doc end]
    return a;
  }

  /// Row-major [nodes, inner] times [inner, width]: cuBLAS sees everything transposed.
  void multiply(const buffer<float>& rows, std::int64_t inner, const buffer<float>& weights,
                std::int64_t width, buffer<float>& out) {
    const float one = 1, zero = 0;
    const auto w = static_cast<int>(width), n = static_cast<int>(nodes_),
               k = static_cast<int>(inner);
    cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, w, n, k, &one, weights.data(), w, rows.data(), k,
                &zero, out.data(), w);
  }

  context ctx_;
  std::int64_t nodes_;
  node_scales scales_;
  buffer<float> x_, first_, second_, a_, b_;
  spmm_args<float, I> layers_[2];
  spmm_plan plans_[2];
  buffer<char> blas_space_;
  cublasHandle_t blas_ = nullptr;
};

/// Microseconds of one replay of the captured pass.
double time_replay(const context& ctx, device_forward& pass) {
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(from_cuda(cudaStreamBeginCapture(ctx.stream, cudaStreamCaptureModeGlobal), "capture"));
  pass.run();
  check(from_cuda(cudaStreamEndCapture(ctx.stream, &captured), "capture"));
  check(from_cuda(cudaGraphInstantiate(&executable, captured, 0), "capture"));
  constexpr int replays = 100;
  (void)cudaGraphLaunch(executable, ctx.stream);
  check(synchronize(ctx));
  const auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < replays; ++k) (void)cudaGraphLaunch(executable, ctx.stream);
  check(synchronize(ctx));
  const double us = 1000 * milliseconds_since(begin) / replays;
  (void)cudaGraphExecDestroy(executable);
  (void)cudaGraphDestroy(captured);
  return us;
}

double largest_difference(const gcn::dense& a, const gcn::dense& b) {
  double most = 0;
  for (std::size_t k = 0; k < a.values.size(); ++k) {
    const double apart = std::fabs(static_cast<double>(a.values[k]) - b.values[k]);
    if (!(apart <= most)) most = apart;  // a NaN stays
    if (std::isnan(most)) break;
  }
  return most;
}

int compare_with_device(const context& ctx, const coo_view<I>& edges, const gcn::dense& x,
                        const model& m, const gcn::dense& want) {
  const auto row = check(to_device(ctx, edges.row, edges.edges));
  const auto column = check(to_device(ctx, edges.column, edges.edges));
  auto there = edges;
  there.row = row.data();
  there.column = column.data();
  const auto g = check(make_graph<I, I>(ctx, there, with_self_loops()));
  device_forward pass(ctx, g.view(), x, m);
  pass.run();
  const double eager = largest_difference(pass.logits(), want);
  const double us = time_replay(ctx, pass);
  const double replayed = largest_difference(pass.logits(), want);
  std::printf("device: %.1f us a replay; logits at most %.1e from the host's, replayed %.1e\n", us,
              eager, replayed);
  // Both round fp32 sums of up to 1433 terms, each in its own order; logits are of size 0.01.
  return eager < 1e-5 && replayed < 1e-5 ? 0 : 1;
}

}  // namespace

int main() {
  const host_context host{};
  const auto plain = check(make_synthetic(host, check(parse_synthetic("cora"))));
  std::vector<I> rows;
  const auto edges = edges_of(plain, rows);
  const auto g = check(make_graph<I, I>(host, edges, with_self_loops()));
  const auto x = gcn::words(g.view().rows(), features, 3);
  const model m;
  const auto begin = std::chrono::steady_clock::now();
  const auto logits = forward_on_host(g.view(), x, m);
  std::printf("%lld nodes, %lld edges with self loops, %lld features\nhost: %.2f ms\n",
              static_cast<long long>(g.view().rows()), static_cast<long long>(g.view().edges()),
              static_cast<long long>(features), milliseconds_since(begin));
  cudaStream_t stream = nullptr;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("device: none, skipped\n");
    return 0;
  }
  check(from_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"));
  const int outcome = compare_with_device(check(make_context(stream)), edges, x, m, logits);
  (void)cudaStreamDestroy(stream);
  return outcome;
}
