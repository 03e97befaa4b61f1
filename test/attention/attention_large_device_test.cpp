// SPDX-License-Identifier: Apache-2.0
// Operands of more than 2^31 elements. Takes tens of gigabytes of device memory.
#include "attention/gradient_checks.hpp"

using namespace quipu;

namespace {

using T = float16;
constexpr std::int64_t nodes = 17'000'003, heads = 2, dim = 64;
// Where the two receivers and the two senders of a small graph lie in a large one.
constexpr std::int64_t receivers_at[2] = {3, nodes - 1}, senders_at[2] = {5, nodes - 1};

/// [nodes, width]. An operand is zeros but for two rows; a result is spoiled, to be written.
class spread_matrix {
 public:
  spread_matrix(const context& ctx, std::int64_t width, const std::int64_t (&at)[2])
      : ctx_(ctx),
        width_(width),
        at_{at[0], at[1]},
        memory_(check(make_device_buffer<T>(ctx, nodes * width))) {
    fill(0x5a);
  }
  spread_matrix(const context& ctx, const test::stored_matrix<T>& m, const std::int64_t (&at)[2])
      : spread_matrix(ctx, m.width, at) {
    fill(0);
    for (int k = 0; k < 2; ++k) {
      check(from_cuda(
          cudaMemcpyAsync(memory_.data() + at_[k] * width_, m.data.data() + m.shift + k * m.stride,
                          sizeof(T) * static_cast<std::size_t>(width_), cudaMemcpyHostToDevice,
                          ctx.stream),
          "row"));
    }
    check(synchronize(ctx));
  }
  T* data() { return memory_.data(); }
  heads_view<const T> read() const {
    return make_heads_view<const T>(memory_.data(), nodes, heads, dim);
  }
  heads_view<T> write() { return make_heads_view(memory_.data(), nodes, heads, dim); }

  /// The two rows are those of `m`, and a few others are zeros.
  void require_rows(const test::stored_matrix<T>& m) const {
    for (int k = 0; k < 2; ++k) {
      const auto row = check(to_host(ctx_, memory_.data() + at_[k] * width_, width_));
      for (std::int64_t f = 0; f < width_; ++f) {
        REQUIRE(widen(row[static_cast<std::size_t>(f)]) == widen(m.at(k, f)));
      }
    }
    for (const std::int64_t i : {std::int64_t{0}, std::int64_t{16'777'216}, nodes - 2}) {
      for (const T v : check(to_host(ctx_, memory_.data() + i * width_, width_))) {
        REQUIRE(widen(v) == 0.0f);
      }
    }
  }

 private:
  void fill(int byte) {
    check(from_cuda(cudaMemsetAsync(memory_.data(), byte, memory_.bytes(), ctx_.stream), "fill"));
  }

  const context& ctx_;
  std::int64_t width_, at_[2];
  buffer<T> memory_;
};

graph<std::int32_t> make_spread_graph(const context& ctx) {
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(nodes + 1), 1);
  for (std::int64_t i = 0; i <= receivers_at[0]; ++i) offsets[static_cast<std::size_t>(i)] = 0;
  offsets.back() = 3;
  const auto id = [](std::int64_t node) { return static_cast<std::int32_t>(node); };
  const std::vector indices{id(senders_at[1]), id(senders_at[0]), id(senders_at[1])};
  const auto there = check(to_device(ctx, offsets));
  const auto ids = check(to_device(ctx, indices));
  const csr_view<std::int32_t, std::int32_t> csr{nodes,        nodes,      3,
                                                 there.data(), ids.data(), nullptr};
  return check(make_graph<std::int32_t, std::int32_t>(ctx, csr));
}

template <class Args>
void run_verb(const context& ctx, const Args& a) {
  test::guarded_workspace space(ctx, workspace_bytes(ctx, a));
  if constexpr (requires { a.grad_output; }) {
    check(test::backward(ctx, a, space.get()));
  } else {
    check(test::forward(ctx, a, space.get()));
  }
  check(synchronize(ctx));
  REQUIRE(space.intact());
}

}  // namespace

TEST_CASE("attention and its gradients take more than 2^31 elements", "[slow]") {
  const auto ctx = test::device_context();
  oracle::graph small;
  small.rows = small.columns = 2;
  small.offsets = {0, 1, 3};
  small.indices = {1, 0, 1};
  const auto large = make_spread_graph(ctx);
  const auto numbers = [](auto* data, std::int64_t rows, std::int64_t width) {
    return make_matrix_view(data, rows, width);
  };
  for (const auto kind : test::all_kinds) {
    INFO("kind " << static_cast<int>(kind));
    // Dropout too, whose mask goes by edges, which are the same.
    const auto p =
        test::make_gradient_problem<T>(small, {kind, heads, dim, 1, false, 0.2, {}, {0.3, 5, 0}});
    const auto& f = p.forward;
    const auto left = test::device_attention{}(f);
    const auto want = test::device_gradients{}(p);
    spread_matrix receivers(ctx, f.receivers.m, receivers_at),
        grad(ctx, p.grad_output.m, receivers_at);
    spread_matrix senders(ctx, f.senders.m, senders_at), values(ctx, f.values.m, senders_at);
    spread_matrix output(ctx, heads * dim, receivers_at);
    auto logsumexp = check(make_device_buffer<float>(ctx, nodes * heads));
    const auto vector = check(to_device(ctx, f.vector.data));
    const auto forward = [&](auto a) {
      a.output = output.write();
      a.logsumexp = numbers(logsumexp.data(), nodes, heads);
      run_verb(ctx, a);
      output.require_rows(left.output.m);
    };
    const auto give = [&](auto& a) {
      a.graph = large.view();
      a.dropout = f.dropout;
    };
    const auto give_backward = [&](auto& b) {
      give(b);
      b.output = output.read();
      b.logsumexp = numbers(static_cast<const float*>(logsumexp.data()), nodes, heads);
      b.grad_output = grad.read();
    };
    if (kind == oracle::attention::transformer) {
      const auto operands = [&](auto& a) {
        a.query = receivers.read();
        a.key = senders.read();
        a.value = values.read();
        a.scale = static_cast<float>(f.scale);
      };
      transformer_forward_args<T, std::int32_t> a;
      give(a);
      operands(a);
      forward(a);
      spread_matrix dq(ctx, heads * dim, receivers_at), dk(ctx, heads * dim, senders_at);
      spread_matrix dv(ctx, heads * dim, senders_at);
      transformer_backward_args<T, std::int32_t> b;
      give_backward(b);
      operands(b);
      b.grad_query = dq.write();
      b.grad_key = dk.write();
      b.grad_value = dv.write();
      run_verb(ctx, b);
      dq.require_rows(want.receivers.m);
      dk.require_rows(want.senders.m);
      dv.require_rows(want.values.m);
    } else if (kind == oracle::attention::gatv2) {
      const auto operands = [&](auto& a) {
        a.target = receivers.read();
        a.source = senders.read();
        a.attention = numbers(vector.data(), heads, dim);
      };
      gatv2_forward_args<T, std::int32_t> a;
      give(a);
      operands(a);
      forward(a);
      spread_matrix of_target(ctx, heads * dim, receivers_at),
          of_source(ctx, heads * dim, senders_at);
      auto of_vector = check(make_device_buffer<T>(ctx, heads * dim));
      gatv2_backward_args<T, std::int32_t> b;
      give_backward(b);
      operands(b);
      b.grad_target = of_target.write();
      b.grad_source = of_source.write();
      b.grad_attention = numbers(of_vector.data(), heads, dim);
      run_verb(ctx, b);
      of_target.require_rows(want.receivers.m);
      of_source.require_rows(want.senders.m);
      const auto got = check(to_host(ctx, of_vector));
      for (std::size_t k = 0; k < got.size(); ++k) {  // summed in another order
        const float wanted = widen(want.vector.data[k]);
        REQUIRE(std::fabs(widen(got[k]) - wanted) <= 1e-3f * (1 + std::fabs(wanted)));
      }
    } else {
      spread_matrix target_score(ctx, f.receiver_scores, receivers_at);
      spread_matrix source_score(ctx, f.sender_scores, senders_at);
      const auto operands = [&](auto& a) {
        a.target_score = numbers(static_cast<const T*>(target_score.data()), nodes, heads);
        a.source_score = numbers(static_cast<const T*>(source_score.data()), nodes, heads);
        a.source = senders.read();
      };
      gat_forward_args<T, std::int32_t> a;
      give(a);
      operands(a);
      forward(a);
      spread_matrix of_target(ctx, heads, receivers_at), of_senders(ctx, heads, senders_at);
      spread_matrix of_source(ctx, heads * dim, senders_at);
      gat_backward_args<T, std::int32_t> b;
      give_backward(b);
      operands(b);
      b.grad_target_score = numbers(of_target.data(), nodes, heads);
      b.grad_source_score = numbers(of_senders.data(), nodes, heads);
      b.grad_source = of_source.write();
      run_verb(ctx, b);
      of_target.require_rows(want.receiver_scores);
      of_senders.require_rows(want.sender_scores);
      of_source.require_rows(want.senders.m);
    }
  }
}
