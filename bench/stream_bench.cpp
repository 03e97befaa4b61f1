// SPDX-License-Identifier: Apache-2.0
// Cases of quipu_bench_pack about what comes over the link as a whole, and beside computing: `bulk`
// (a table of 1 GB from pinned memory through a bulk stream; `copy` is a plain copy of its rows,
// and the counter decode_share what unpacking alone takes of the time), `gemm` (bf16, 8192 cubed,
// alone and beside a gather from pinned memory by so many blocks, or beside a bulk stream),
// `profile_device` (of 1 GB).
#include <cublas_v2.h>

#include "pack_tables.hpp"
#include "pack_yardstick.hpp"
#include "quipu/pack/bulk_stream.hpp"
#include "timing.hpp"

namespace bench {

namespace {

constexpr std::int64_t gigabyte = 1024 * megabyte;

/// A table of 1 GB in pinned memory, and room for its rows.
struct bulk_stage {
  explicit bulk_stage(const std::string& table_name)
      : name(table_name),
        ctx(check(make_context(own_stream()))),
        table(ctx, table_name, gigabyte),
        output(check(make_device_buffer<std::byte>(ctx, table.bytes()))),
        found(check(make_device_buffer<unsigned long long>(ctx, 1))) {}

  mutable_table_view rows() { return table.rows_at(output.data(), table.rows); }
  void poison() { (void)cudaMemsetAsync(output.data(), 0xa5, output.bytes(), ctx.stream); }
  void verify() {
    yardstick::count_differences(output.data(), table.device.data(), table.bytes(), found.data(),
                                 ctx.stream);
    if (check(to_host(ctx, found)).front() != 0) throw std::runtime_error("other bits");
  }

  std::string name;
  context ctx;
  drawn_table table;
  buffer<std::byte> output;
  buffer<unsigned long long> found;
};

bulk_stage& in_bulk(const std::string& name) { return on_stage<bulk_stage>(name); }

void set_rate(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * bytes);
}

void time_bulk_copy(benchmark::State& state, const std::string& name) {
  auto& s = in_bulk(name);
  device_timer(s.ctx).measure(state, [&] {
    (void)cudaMemcpyAsync(s.output.data(), s.table.host.data(), s.output.bytes(),
                          cudaMemcpyHostToDevice, s.ctx.stream);
  });
  set_rate(state, s.table.bytes());
}

void time_bulk(benchmark::State& state, const std::string& name, const std::string& label) {
  auto& s = in_bulk(name);
  packed_rows packed(s.ctx, s.table, label, true);
  packed_rows on_device(s.ctx, s.table, label, false);
  const auto from = packed.table.view();
  const auto plan = check(make_bulk_plan(s.ctx, from));
  auto stream = check(bulk_stream::make(s.ctx));
  const auto work = [&] { check(stream.unpack(s.ctx, {from, &plan, s.rows()})); };
  s.poison();
  work();
  s.verify();
  device_timer timer(s.ctx);
  const double alone = timer.median(3, [&] {
    check(unpack(s.ctx, {on_device.table.view(), s.rows(), 0}));
  });
  state.counters["decode_share"] = alone / timer.median(3, work);
  tell_picks(state, s.table.profile, packed.estimate);
  timer.measure(state, work);
  set_rate(state, s.table.bytes());
}

void time_device_profile(benchmark::State& state, const std::string& name) {
  auto& s = in_bulk(name);
  for (int k = 0; k < 2; ++k) (void)check(make_profile(s.ctx, s.table.on_device()));
  for (auto _ : state) {
    state.SetIterationTime(
        seconds_of([&] { (void)check(make_profile(s.ctx, s.table.on_device())); }));
  }
  set_rate(state, s.table.bytes());
}

// --- computing beside a transfer -----------------------------------------------------------------

/// Products of bf16 matrices on a stream of its own.
class products {
 public:
  static constexpr int size = 8192, count = 10;
  explicit products(const context& ctx) : ctx_(ctx) {
    for (auto* m : {&a_, &b_, &c_}) {
      *m = check(make_device_buffer<bfloat16>(ctx, std::int64_t{size} * size));
      yardstick::fill_numbers(yardstick::numbers::normal, m->data(), m->size(), 3, ctx.stream);
    }
    if (cublasCreate(&blas_) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("no cuBLAS");
    cublasSetStream(blas_, ctx.stream);
  }
  ~products() { cublasDestroy(blas_); }
  products(const products&) = delete;
  products& operator=(const products&) = delete;

  void run() {
    const float one = 1, none = 0;
    for (int k = 0; k < count; ++k) {
      cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, a_.data(), CUDA_R_16BF,
                   size, b_.data(), CUDA_R_16BF, size, &none, c_.data(), CUDA_R_16BF, size,
                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    }
  }
  /// Multiprocessors that a product counts on.
  void use(int multiprocessors) { cublasSetSmCountTarget(blas_, multiprocessors); }

 private:
  context ctx_;
  cublasHandle_t blas_ = nullptr;
  buffer<bfloat16> a_, b_, c_;
};

/// Times products while `beside` keeps another stream busy; throws if that ended before them.
void time_products(benchmark::State& state, const context& ctx, int multiprocessors,
                   const std::function<void(const context&)>& beside) {
  cudaStream_t other = nullptr;
  cudaEvent_t begin, end, other_end;
  check(from_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream"));
  for (auto* e : {&begin, &end, &other_end}) check(from_cuda(cudaEventCreate(e), "event"));
  products work(ctx);
  if (multiprocessors > 0) work.use(multiprocessors);
  work.run();  // cuBLAS loads its kernels, which waits for all streams
  check(synchronize(ctx));
  bool lasted = true;
  const auto once = [&] {
    if (beside) beside(ctx.on(other));
    (void)cudaEventRecord(other_end, other);
    yardstick::hold(200, ctx.stream);
    (void)cudaEventRecord(begin, ctx.stream);
    work.run();
    (void)cudaEventRecord(end, ctx.stream);
    (void)cudaEventSynchronize(end);
    lasted = lasted && (!beside || cudaEventQuery(other_end) == cudaErrorNotReady);
    (void)cudaStreamSynchronize(other);
    float ms = 0;
    (void)cudaEventElapsedTime(&ms, begin, end);
    std::this_thread::sleep_for(std::chrono::duration<float, std::milli>(2 * ms));
    return ms;
  };
  (void)once();
  for (auto _ : state) state.SetIterationTime(once() * 1e-3);
  for (auto e : {begin, end, other_end}) (void)cudaEventDestroy(e);
  (void)cudaStreamDestroy(other);
  if (!lasted) throw std::runtime_error("the transfer ended before the products");
}

void time_products_alone(benchmark::State& state, const std::string& name, int multiprocessors) {
  time_products(state, in_bulk(name).ctx, multiprocessors, nullptr);
}

/// Beside a gather of all rows, in no order, by so many blocks, over and over.
void time_products_gather(benchmark::State& state, const std::string& name,
                          const std::string& label, int blocks, int multiprocessors) {
  auto& s = in_bulk(name);
  packed_rows packed(s.ctx, s.table, label, true);
  auto ids = check(make_device_buffer<std::int32_t>(s.ctx, s.table.rows));
  yardstick::fill_ids(ids.data(), ids.size(), s.table.rows, 11, s.ctx.stream);
  gather_rows_args<std::int32_t> a;
  a.packed = packed.table.view();
  a.ids = make_vector_view<const std::int32_t>(ids.data(), ids.size());
  a.output = s.rows();
  a.most_multiprocessors = blocks;
  check(synchronize(s.ctx));
  const double ms = device_timer(s.ctx).median(3, [&] { check(gather_rows(s.ctx, a)); });
  state.counters["gather_rate"] = static_cast<double>(s.table.bytes()) / (ms * 1e-3);
  time_products(state, s.ctx, multiprocessors, [&](const context& c) {
    for (int k = 0; k < 3; ++k) check(gather_rows(c, a));
  });
}

void time_products_bulk(benchmark::State& state, const std::string& name, const std::string& label,
                        int blocks) {
  auto& s = in_bulk(name);
  packed_rows packed(s.ctx, s.table, label, true);
  const auto plan = check(make_bulk_plan(s.ctx, packed.table.view()));
  auto stream = check(bulk_stream::make(s.ctx));
  unpack_bulk_args a{packed.table.view(), &plan, s.rows()};
  a.most_multiprocessors = blocks;
  time_products(state, s.ctx, 0, [&](const context& c) {
    for (int k = 0; k < 3; ++k) check(stream.unpack(c, a));
  });
}

}  // namespace

void add_stream_cases() {
  for (const std::string name : {"f32_normal/128", "f32_normal/512", "bf16_normal/4096"}) {
    add_case("profile_device/" + name + "/sampled", 5, time_device_profile, name);
  }
  for (const std::string name : {"f32_normal/512", "bf16_normal/4096"}) {
    add_case("bulk/" + name + "/copy", 5, time_bulk_copy, name);
    for (const std::string label : {"raw", "exponent3", "exponent2", "invariant"}) {
      add_case("bulk/" + name + "/" + label, 5, time_bulk, name, label);
    }
  }
  const std::string name = "bf16_normal/4096", label = "exponent2";
  const auto head = "gemm/" + name + "/";
  add_case(head + "alone", 5, time_products_alone, name, 0);
  for (const int blocks : {4, 8, 16, 32}) {
    add_case(head + "gather_" + std::to_string(blocks), 3, time_products_gather, name, label,
             blocks, 0);
  }
  for (const int blocks : {8, 16}) {
    add_case(head + "gather_spared_" + std::to_string(blocks), 3, time_products_gather, name, label,
             blocks, 132 - blocks);
  }
  for (const int blocks : {0, 16}) {
    add_case(head + "bulk_" + std::to_string(blocks), 3, time_products_bulk, name, label, blocks);
  }
}

}  // namespace bench
