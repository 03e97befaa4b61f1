// SPDX-License-Identifier: Apache-2.0
// A network with more weights than a GPU has room for: they lie in pinned memory of the host, and
// while a layer multiplies the next one comes over the link. Packed weights are fewer bytes to keep
// and to bring. The program runs the same layers from raw and from packed weights, and prints what
// both take beside the products alone.
//   weight_stream [TOKENS [LAYERS]]     8192 and 16
// Exit code 1 if the outputs differ in a bit, 77 where there is no GPU.
#include <cublas_v2.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "quipu/core/buffer.hpp"
#include "quipu/math/random.hpp"
#include "quipu/pack/bulk_stream.hpp"
#include "quipu/pack/pack.hpp"
#include "quipu/pack/profile.hpp"

using namespace quipu;

namespace {

constexpr int rounds = 5, passes = 4;  // passes of a timing, so that its first layer hardly counts
constexpr std::int64_t width = 4096, layer_size = width * width;
constexpr std::int64_t layer_bytes = layer_size * sizeof(bfloat16);
/// Two stages hold a layer: copies go on while a product keeps all multiprocessors.
constexpr std::int64_t stage_bytes = layer_bytes / 2;
constexpr float deviation = 0.02f;

struct sizes {
  int tokens = 8192, layers = 16;
};

void check_cuda(cudaError_t e) { check(from_cuda(e, "CUDA")); }
void check_blas(cublasStatus_t s) {
  if (s == CUBLAS_STATUS_SUCCESS) return;
  throw error(failure(status_code::cuda_error, cublasGetStatusString(s)));
}

/// Mean 0, by Box and Muller's transform.
__global__ void draw_kernel(bfloat16* to, std::int64_t count, float scale, std::uint64_t stream) {
  const auto k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= count) return;
  const auto bits = random_bits(stream, k);
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float v = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
  to[k] = __float2bfloat16_rn(scale * sqrtf(-2 * logf(u)) * cospif(2 * v));
}

void draw(const context& ctx, buffer<bfloat16>& to, float scale, std::uint64_t stream) {
  draw_kernel<<<static_cast<unsigned>((to.size() + 255) / 256), 256, 0, ctx.stream>>>(
      to.data(), to.size(), scale, mix_bits(stream));
  check_cuda(cudaGetLastError());
}

/// A place in a stream.
class event {
 public:
  event() { check_cuda(cudaEventCreate(&event_)); }
  ~event() { (void)cudaEventDestroy(event_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  void record(const context& ctx) { check_cuda(cudaEventRecord(event_, ctx.stream)); }
  /// What is enqueued from now on waits for the place last recorded.
  void hold(const context& ctx) const { check_cuda(cudaStreamWaitEvent(ctx.stream, event_)); }
  double seconds_since(const event& begin) const {  // waits
    float milliseconds = 0;
    check_cuda(cudaEventSynchronize(event_));
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Layers in pinned memory, raw or packed.
class store {
 public:
  explicit store(const context& ctx) : stream_(check(bulk_stream::make(ctx, stage_bytes))) {}

  void add(const context& ctx, const table_view& on_device, const packing& how) {  // waits
    layers_.push_back(check(to_pinned(ctx, check(make_packed(ctx, on_device, how)).view())));
    plans_.push_back(check(make_bulk_plan(ctx, layers_.back().view(), stage_bytes)));
    host_bytes_ += static_cast<double>(layers_.back().view().byte_count);
  }
  double host_bytes() const { return host_bytes_; }

  /// Step by step all layers, then the first one again. Only enqueues.
  void bring(const context& ctx, int step, buffer<bfloat16>& to) {
    const auto k = static_cast<std::size_t>(step) % layers_.size();
    const auto layer = layers_[k].view();
    if (layer.how->how == codec::raw) {
      check_cuda(
          cudaMemcpyAsync(to.data(), layer.bytes, to.bytes(), cudaMemcpyDefault, ctx.stream));
    } else {
      const auto output = make_table_view(to.data(), width, width);
      check(stream_.unpack(ctx, {layer, &plans_[k], output}));
    }
  }

 private:
  bulk_stream stream_;
  std::vector<packed_table> layers_;
  std::vector<bulk_plan> plans_;
  double host_bytes_ = 0;
};

/// Its blocks come before those of a product, which would otherwise all go first.
cudaStream_t make_urgent_stream() {
  int least = 0, most = 0;
  cudaStream_t s = nullptr;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &most));
  check_cuda(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, most));
  return s;
}

/// Two buffers of weights and two of activations, used in turns, on two streams: one multiplies,
/// one brings weights.
class network {
 public:
  network(const context& ctx, const sizes& s)
      : products_(ctx), weights_(ctx.on(make_urgent_stream())), sizes_(s) {
    for (auto& b : layer_) b = check(make_device_buffer<bfloat16>(ctx, layer_size));
    for (auto& b : x_) b = check(make_device_buffer<bfloat16>(ctx, s.tokens * width));
    check_blas(cublasCreate(&blas_));
    check_blas(cublasSetStream(blas_, ctx.stream));
  }
  ~network() {
    (void)cublasDestroy(blas_);
    (void)cudaStreamDestroy(weights_.stream);
  }
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  int steps() const { return passes * sizes_.layers; }

  /// What comes out of the last layer. No weights of a run before are left.
  std::vector<bfloat16> output(store& from) {
    for (auto& b : layer_) check_cuda(cudaMemsetAsync(b.data(), 0xff, b.bytes(), weights_.stream));
    start();
    run(from, sizes_.layers);
    return check(to_host(products_, x_[sizes_.layers % 2]));
  }
  /// Of the weights that are there.
  double time_products() {
    return time(products_, [&] { multiply_all(); });
  }
  double time_stream(store& from) {
    return time(weights_, [&] {
      for (int k = 0; k < steps(); ++k) from.bring(weights_, k, layer_[k % 2]);
    });
  }
  double time_both(store& from) {
    return time(products_, [&] { run(from, steps()); });
  }

 private:
  /// The same activations for all, and nothing left to do on either stream.
  void start() {
    draw(products_, x_[0], 1, 0);
    check(synchronize(products_));
    check(synchronize(weights_));
  }
  template <class Enqueue>
  double time(const context& on, const Enqueue& enqueue) {
    event begin, end;
    start();
    begin.record(on);
    enqueue();
    end.record(on);
    return end.seconds_since(begin);
  }
  /// Layer k + 1 comes while layer k multiplies, once layer k - 1 has left its buffer.
  void run(store& from, int count) {
    for (int k = 0; k < count; ++k) {
      done_[k % 2].hold(weights_);
      from.bring(weights_, k, layer_[k % 2]);
      there_[k % 2].record(weights_);
      there_[k % 2].hold(products_);
      multiply(k);
    }
  }
  void multiply_all() {
    for (int k = 0; k < steps(); ++k) multiply(k);
  }
  /// [tokens, width] times [width, width]; cuBLAS sees everything transposed. The factor leaves
  /// activations as large as they were.
  void multiply(int k) {
    const float factor = 1 / (deviation * std::sqrt(static_cast<float>(width))), zero = 0;
    constexpr int w = width;
    check_blas(cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, w, sizes_.tokens, w, &factor,
                            layer_[k % 2].data(), CUDA_R_16BF, w, x_[k % 2].data(), CUDA_R_16BF, w,
                            &zero, x_[(k + 1) % 2].data(), CUDA_R_16BF, w, CUBLAS_COMPUTE_32F,
                            CUBLAS_GEMM_DEFAULT));
    done_[k % 2].record(products_);
  }

  context products_, weights_;
  sizes sizes_;
  buffer<bfloat16> layer_[2], x_[2];
  event there_[2], done_[2];
  cublasHandle_t blas_ = nullptr;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of all rounds.
struct timings {
  std::vector<double> stream, both;

  void add(network& net, store& from) {
    stream.push_back(net.time_stream(from));
    both.push_back(net.time_both(from));
  }
  void print(const char* name, const store& s, int steps) const {
    std::printf("%-8s %14.3f %13.1f %10.2f\n", name, s.host_bytes() * 1e-9,
                static_cast<double>(steps * layer_bytes) * 1e-9 / median(stream),
                median(both) / passes * 1e3);
  }
};

/// Draws a layer on the device, one after the other, and keeps it raw and packed.
void fill(const context& ctx, int layers, store& raw, store& packed) {
  auto layer = check(make_device_buffer<bfloat16>(ctx, layer_size));
  for (int k = 0; k < layers; ++k) {
    draw(ctx, layer, deviation, k + 1);
    const table_view table = make_table_view(layer.data(), width, width);
    const auto profile = check(make_profile(ctx, table));
    raw.add(ctx, table, raw_packing(table));
    packed.add(ctx, table, choose_packing(profile, packing_goal::smallest).how);
  }
}

int run(const context& ctx, const sizes& s) {
  store raw(ctx), packed(ctx);
  fill(ctx, s.layers, raw, packed);
  network net(ctx, s);
  const auto wanted = net.output(raw), found = net.output(packed);
  if (std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(bfloat16)) != 0) {
    std::printf("the outputs of packed weights differ\n");
    return 1;
  }
  std::vector<double> seconds;
  timings before, after;
  for (int k = 0; k < rounds; ++k) {  // in turns, so that all see the same clocks
    seconds.push_back(net.time_products());
    before.add(net, raw);
    after.add(net, packed);
  }
  std::printf("%d layers of [%d, %d] in bf16, %d tokens: products alone take %.2f ms a pass\n",
              s.layers, static_cast<int>(width), static_cast<int>(width), s.tokens,
              median(seconds) / passes * 1e3);
  std::printf("%-8s %14s %13s %10s\n", "", "host memory GB", "weights GB/s", "ms a pass");
  before.print("raw", raw, net.steps());
  after.print("packed", packed, net.steps());
  std::printf("the same bits from 1/%.2f of the memory, in 1/%.2f of the time\n",
              raw.host_bytes() / packed.host_bytes(), median(before.both) / median(after.both));
  return 0;
}

/// Nothing for what are no sizes.
std::optional<sizes> parse(int argc, char** argv) {
  sizes s;
  int* const numbers[] = {&s.tokens, &s.layers};
  if (argc > 3) return {};
  for (int k = 1; k < argc; ++k) {
    char* end = nullptr;
    const long n = std::strtol(argv[k], &end, 10);
    if (end == argv[k] || *end != '\0' || n < 1 || n > 1 << 20) return {};
    *numbers[k - 1] = static_cast<int>(n);
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const auto s = parse(argc, argv);
  if (!s) {
    std::fprintf(stderr, "usage: weight_stream [TOKENS [LAYERS]]\n");
    return 2;
  }
  try {
    const auto ctx = make_context(cudaStreamPerThread);
    if (!ctx.ok() && ctx.error().code == status_code::no_device) {
      std::printf("weight_stream: skipped, %s\n", ctx.error().message);
      return 77;
    }
    check(ctx.error());
    return run(*ctx, *s);
  } catch (const error& e) {
    std::fprintf(stderr, "weight_stream: %s\n", e.what());
    return 2;
  }
}
