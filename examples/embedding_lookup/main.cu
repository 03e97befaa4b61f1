// SPDX-License-Identifier: Apache-2.0
// Look-ups in embedding tables that are too large for a GPU: they lie in pinned memory of the host,
// and every batch fetches rows of all of them over the link. Values were trained in half precision
// and are kept in single, as often happens; packed rows are then half the bytes to keep and to
// fetch. The program makes the same look-ups raw and packed, and prints what both take.
//   embedding_lookup [GIB]     of raw tables, 2 by default
// Exit code 1 if a looked-up row differs in a bit, 77 where there is no GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "quipu/core/buffer.hpp"
#include "quipu/math/random.hpp"
#include "quipu/pack/pack.hpp"
#include "quipu/pack/profile.hpp"

using namespace quipu;
using I = std::int32_t;

namespace {

constexpr int table_count = 26, batches = 16, rounds = 5;
constexpr std::int64_t width = 64, batch_size = 8192;
constexpr std::int64_t row_bytes = width * sizeof(float);

/// As in click logs a few tables have most rows: half of all, a quarter, and so on to a few
/// hundred.
std::int64_t rows_of(int table, std::int64_t all_rows) {
  return std::max<std::int64_t>(300, all_rows >> (table + 1));
}

__device__ std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// Mean 0, deviation 0.02, by Box and Muller's transform; rounded to half precision.
__global__ void draw_values_kernel(float* to, std::int64_t count, std::uint64_t stream) {
  const auto k = thread_number();
  if (k >= count) return;
  const auto bits = random_bits(stream, k);
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float v = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
  to[k] = __half2float(__float2half_rn(0.02f * sqrtf(-2 * logf(u)) * cospif(2 * v)));
}

/// Zipf's law: the r-th most frequent row comes up in proportion to 1 / r. A prime above all
/// numbers of rows scatters ranks over the table, no two of them on one row.
__global__ void draw_ids_kernel(I* to, std::int64_t count, std::int64_t rows,
                                std::uint64_t stream) {
  const auto k = thread_number();
  if (k >= count) return;
  const double u = static_cast<double>(random_bits(stream, k) >> 11) * 0x1p-53;
  const auto rank = static_cast<std::int64_t>(pow(static_cast<double>(rows + 1), u)) - 1;
  to[k] = static_cast<I>(rank * 2654435761 % rows);
}

constexpr int threads = 256;
unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

/// Tables whose rows lie in pinned memory.
struct store {
  std::vector<packed_table> tables;
  std::int64_t host_bytes = 0;

  void add(const context& ctx, packed_table on_device) {
    tables.push_back(check(to_pinned(ctx, on_device.view())));
    host_bytes += tables.back().view().byte_count;
  }
};

/// Draws a table on the device, one after the other, and keeps it raw and packed.
void fill(const context& ctx, std::int64_t all_rows, store& raw, store& packed) {
  for (int t = 0; t < table_count; ++t) {
    const auto rows = rows_of(t, all_rows), count = rows * width;
    auto values = check(make_device_buffer<float>(ctx, count));
    draw_values_kernel<<<blocks_for(count), threads, 0, ctx.stream>>>(values.data(), count,
                                                                      mix_bits(t));
    const table_view table = make_table_view(values.data(), rows, width);
    const auto profile = check(make_profile(ctx, table));
    const auto best = choose_packing(profile, packing_goal::link).how;
    raw.add(ctx, check(make_packed(ctx, table, raw_packing(table))));
    packed.add(ctx, check(make_packed(ctx, table, best)));
  }
}

/// The rows of a batch from every table, in the memory of the device.
class lookup {
 public:
  lookup(const context& ctx, std::int64_t all_rows)
      : ctx_(ctx),
        ids_(check(make_device_buffer<I>(ctx, batches * table_count * batch_size))),
        order_(check(make_device_buffer<I>(ctx, batch_size))),
        output_(check(make_device_buffer<float>(ctx, table_count * batch_size * width))) {
    const order_rows_args<I> sort{ids_of(0, 0), make_vector_view(order_.data(), batch_size),
                                  all_rows};
    scratch_ =
        check(make_device_buffer<char>(ctx, static_cast<std::int64_t>(workspace_bytes(ctx, sort))));
    for (int k = 0; k < batches * table_count; ++k) {
      draw_ids_kernel<<<blocks_for(batch_size), threads, 0, ctx.stream>>>(
          ids_.data() + k * batch_size, batch_size, rows_of(k % table_count, all_rows),
          mix_bits(1000 + k));
    }
  }

  /// Only enqueues.
  void run(store& from, int batch) {
    for (int t = 0; t < table_count; ++t) {
      gather_rows_args<I> a;
      a.packed = from.tables[t].view();
      a.ids = ids_of(batch, t);
      a.output = make_table_view(output_.data() + t * batch_size * width, batch_size, width);
      if (order_pays(a.packed, batch_size)) a.order = order_of(a.ids, a.packed.rows);
      check(gather_rows(ctx_, a));
    }
  }

  std::vector<float> rows() const { return check(to_host(ctx_, output_)); }  // waits

 private:
  vector_view<const I> ids_of(int batch, int table) const {
    return make_vector_view(ids_.data() + (batch * table_count + table) * batch_size, batch_size);
  }
  /// In the memory of the order before it, which the stream has then used.
  vector_view<const I> order_of(vector_view<const I> ids, std::int64_t rows) {
    const order_rows_args<I> sort{ids, make_vector_view(order_.data(), batch_size), rows};
    check(order_rows(ctx_, sort, {scratch_.data(), scratch_.bytes()}));
    return make_vector_view<const I>(order_.data(), batch_size);
  }

  context ctx_;
  buffer<I> ids_, order_;
  buffer<float> output_;
  buffer<char> scratch_;
};

/// Looks every batch up in both; what is compared are bits.
bool agree(lookup& look, store& raw, store& packed) {
  for (int b = 0; b < batches; ++b) {
    look.run(raw, b);
    const auto wanted = look.rows();
    look.run(packed, b);
    const auto found = look.rows();
    if (std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

/// Seconds that all batches take on the device.
double time(const context& ctx, lookup& look, store& from) {
  cudaEvent_t begin = nullptr, end = nullptr;
  float milliseconds = 0;
  check(from_cuda(cudaEventCreate(&begin), "event"));
  check(from_cuda(cudaEventCreate(&end), "event"));
  check(from_cuda(cudaEventRecord(begin, ctx.stream), "timing"));
  for (int b = 0; b < batches; ++b) look.run(from, b);
  check(from_cuda(cudaEventRecord(end, ctx.stream), "timing"));
  check(from_cuda(cudaEventSynchronize(end), "timing"));
  check(from_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "timing"));
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return milliseconds * 1e-3;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const char* name, const store& s, double seconds) {
  const double rows = static_cast<double>(batches) * table_count * batch_size;
  std::printf("%-8s %14.3f %12.1f %12.0f\n", name, static_cast<double>(s.host_bytes) * 1e-9,
              rows * row_bytes / seconds * 1e-9, batches / seconds);
}

int run(const context& ctx, double gib) {
  const auto all_rows = static_cast<std::int64_t>(gib * 0x1p30 / row_bytes);
  store raw, packed;
  fill(ctx, all_rows, raw, packed);
  std::printf("%d tables of %lld to %lld rows of %lld floats; batches of %lld ids a table\n",
              table_count, static_cast<long long>(rows_of(table_count - 1, all_rows)),
              static_cast<long long>(rows_of(0, all_rows)), static_cast<long long>(width),
              static_cast<long long>(batch_size));
  lookup look(ctx, all_rows);
  if (!agree(look, raw, packed)) {
    std::printf("the packed rows differ\n");
    return 1;
  }
  std::vector<double> raw_seconds, packed_seconds;
  for (int k = 0; k < rounds; ++k) {  // in turns, so that both see the same clocks
    raw_seconds.push_back(time(ctx, look, raw));
    packed_seconds.push_back(time(ctx, look, packed));
  }
  const double before = median(raw_seconds), after = median(packed_seconds);
  std::printf("%-8s %14s %12s %12s\n", "", "host memory GB", "rows GB/s", "batches/s");
  print("raw", raw, before);
  print("packed", packed, after);
  std::printf("the same bits in 1/%.2f of the memory, at %.2f times the rate\n",
              static_cast<double>(raw.host_bytes) / static_cast<double>(packed.host_bytes),
              before / after);
  return 0;
}

/// 0 for what is no size.
double parse_gib(const char* text) {
  char* end = nullptr;
  const double gib = std::strtod(text, &end);
  return *end == '\0' && gib > 0 && gib <= 512 ? gib : 0;  // ids have 31 bits
}

}  // namespace

int main(int argc, char** argv) {
  const double gib = argc < 2 ? 2 : parse_gib(argv[1]);
  if (gib == 0 || argc > 2) {
    std::fprintf(stderr, "usage: embedding_lookup [GIB], up to 512\n");
    return 2;
  }
  try {
    const auto ctx = make_context(cudaStreamPerThread);
    if (!ctx.ok() && ctx.error().code == status_code::no_device) {
      std::printf("embedding_lookup: skipped, %s\n", ctx.error().message);
      return 77;
    }
    check(ctx.error());
    return run(*ctx, gib);
  } catch (const error& e) {
    std::fprintf(stderr, "embedding_lookup: %s\n", e.what());
    return 2;
  }
}
