// SPDX-License-Identifier: Apache-2.0
#include "graph/launch.cuh"
#include "pack/table_sample.hpp"
#include "pack/with_word.hpp"
#include "quipu/core/buffer.hpp"
#include "quipu/core/trace.hpp"

namespace quipu {

namespace {

using namespace detail;

/// Chosen rows of a table side by side, a block a row; words as long as every row's place allows.
template <class Word>
__global__ void copy_rows(const std::byte* table, std::int64_t stride, std::int64_t words,
                          spread_rows chosen, Word* sample) {
  for (std::int64_t k = blockIdx.x; k < chosen.rows; k += gridDim.x) {
    const auto* from = reinterpret_cast<const Word*>(table + chosen[k] * stride);
    for (std::int64_t w = threadIdx.x; w < words; w += block_threads) {
      sample[k * words + w] = from[w];
    }
  }
}

/// The largest word that divides them all.
std::int32_t common_word(std::initializer_list<std::uintptr_t> places) {
  std::uintptr_t all = 8;
  for (const auto p : places) all |= p;
  return static_cast<std::int32_t>(all & (~all + 1));
}

void take_sample(const context& ctx, const table_view& t, const spread_rows& chosen,
                 sampled_table& sample) {
  const auto bytes = static_cast<std::int64_t>(sample.bytes.size());
  if (bytes == 0) return;
  auto there = require(scratch<std::byte>::make(ctx, bytes));
  const auto word = common_word({reinterpret_cast<std::uintptr_t>(t.data),
                                 static_cast<std::uintptr_t>(t.row_stride),
                                 static_cast<std::uintptr_t>(t.row_bytes())});
  with_word(word, [&]<class Word>() {
    const auto words = t.row_bytes() / static_cast<std::int64_t>(sizeof(Word));
    enqueue_blocks(ctx, copy_rows<Word>, std::min<std::int64_t>(chosen.rows, 1 << 16), t.data,
                   t.row_stride, words, chosen, reinterpret_cast<Word*>(there.data()));
  });
  require(copy_bytes(ctx, sample.bytes.data(), there.data(), sample.bytes.size()));
}

}  // namespace

result<table_profile> make_profile(const context& ctx, const table_view& t,
                                   const profile_options& o) {
  const trace_range range("make_profile");
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_profile(t, o); !s.ok()) return s;
  if (auto s = check_device_pointer(t.data, t.rows * t.width, "input: not memory of the device",
                                    ctx.device);
      !s.ok()) {
    return s;
  }
  return as_result<result<table_profile>>([&]() -> result<table_profile> {
    const auto chosen = choose_rows(t, o);
    sampled_table sample(t, chosen.rows);
    take_sample(ctx, t, chosen, sample);
    return profile_sample(host_context{}, sample, t.rows, o);
  });
}

}  // namespace quipu
