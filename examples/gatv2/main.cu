// SPDX-License-Identifier: Apache-2.0
// Trains a two-layer GATv2 (Brody, Alon, Yahav, 2022) on a graph of Cora's size: forward, cross
// entropy, backward, a step down the gradient. The same model runs on the host and on a GPU; prints
// the loss of every step. Exit code 1 if it does not fall, or if the two go apart; 0 without a GPU
// too.
#include <cstdio>

#include "gatv2/machine.hpp"
#include "gcn/layers.hpp"
#include "quipu/attention/gatv2.hpp"
#include "quipu/graph/make_graph.hpp"
#include "quipu/io/synthetic.hpp"

using namespace quipu;
using I = std::int32_t;

namespace {

constexpr std::int64_t features = 1433, classes = 7;
constexpr int steps = 16;
constexpr float rate = 4;
constexpr double dropped = 0.1;

gatv2_forward_args<float, I> forward_args(const graph_view<I, I>& g, std::int64_t heads,
                                          std::int64_t dim, const float* target,
                                          const float* source, const float* attention,
                                          float* output, float* logsumexp) {
  // [doc: forward]
  gatv2_forward_args<float, I> a;
  a.graph = g;
  a.target = make_heads_view(target, g.rows(), heads, dim);
  a.source = make_heads_view(source, g.columns(), heads, dim);
  a.attention = make_matrix_view(attention, heads, dim);
  a.output = make_heads_view(output, g.rows(), heads, dim);
  a.logsumexp = make_matrix_view(logsumexp, g.rows(), heads);  // backward needs it
  // [doc end]
  return a;
}

template <class Machine>
void descend(const Machine& m, float* at, const float* gradient, std::int64_t count) {
  m.for_each(count, [=] GATV2_HD(std::int64_t k) { at[k] -= rate * gradient[k]; });
}

/// One layer: both sides' rows are the input times weights, heads side by side.
template <class Machine>
class layer {
 public:
  layer(const Machine& machine, const graph_view<I, I>& g, std::int64_t in, std::int64_t heads,
        std::int64_t dim, std::uint32_t seed, float scale)
      : m_(machine),
        nodes_(g.rows()),
        in_(in),
        width_(heads * dim),
        to_target_(m_.place(gcn::drawn(in, width_, seed, scale).values)),
        to_source_(m_.place(gcn::drawn(in, width_, seed + 1, scale).values)),
        attention_(m_.place(gcn::drawn(heads, dim, seed + 2, 0.5f).values)),
        target_(m_.room(nodes_ * width_)),
        source_(m_.room(nodes_ * width_)),
        output_(m_.room(nodes_ * width_)),
        logsumexp_(m_.room(nodes_ * heads)),
        grad_target_(m_.room(nodes_ * width_)),
        grad_source_(m_.room(nodes_ * width_)),
        grad_attention_(m_.room(width_)),
        grad_weights_(m_.room(in * width_)),
        forward_(forward_args(g, heads, dim, target_.data(), source_.data(), attention_.data(),
                              output_.data(), logsumexp_.data())) {
    backward_.graph = g;
    backward_.target = forward_.target;
    backward_.source = forward_.source;
    backward_.attention = forward_.attention;
    backward_.output = forward_.output;
    backward_.logsumexp = forward_.logsumexp;
    backward_.grad_output = forward_.output;  // replaced by each step
    backward_.grad_target = make_heads_view(grad_target_.data(), nodes_, heads, dim);
    backward_.grad_source = make_heads_view(grad_source_.data(), nodes_, heads, dim);
    backward_.grad_attention = make_matrix_view(grad_attention_.data(), heads, dim);
    for_forward_ = m_.scratch(forward_);
    for_backward_ = m_.scratch(backward_);
  }

  float* forward(const float* input, std::uint64_t step) {
    input_ = input;
    m_.multiply(input, false, to_target_.data(), false, nodes_, in_, width_, 0, target_.data());
    m_.multiply(input, false, to_source_.data(), false, nodes_, in_, width_, 0, source_.data());
    forward_.dropout = backward_.dropout = {dropped, 42, step << 32};
    run([&](auto... w) { return gatv2_forward(m_.ctx(), forward_, w...); }, for_forward_);
    return output_.data();
  }

  /// Takes a step; `grad_input` may be null.
  void backward(float* grad_output, float* grad_input) {
    const auto& o = forward_.output;
    backward_.grad_output =
        make_heads_view<const float>(grad_output, nodes_, o.extent(1), o.extent(2));
    run([&](auto... w) { return gatv2_backward(m_.ctx(), backward_, w...); }, for_backward_);
    if (grad_input != nullptr) {
      m_.multiply(grad_target_.data(), false, to_target_.data(), true, nodes_, width_, in_, 0,
                  grad_input);
      m_.multiply(grad_source_.data(), false, to_source_.data(), true, nodes_, width_, in_, 1,
                  grad_input);
    }
    step(to_target_, grad_target_);
    step(to_source_, grad_source_);
    descend(m_, attention_.data(), grad_attention_.data(), width_);
  }

  std::int64_t width() const { return width_; }

 private:
  template <class Call>
  void run(const Call& call, buffer<char>& scratch) const {
    if constexpr (std::is_same_v<typename Machine::executor, context>) {
      check(call(workspace{scratch.data(), scratch.bytes()}));
    } else {
      check(call());
    }
  }
  void step(buffer<float>& weights, const buffer<float>& gradient) {
    m_.multiply(input_, true, gradient.data(), false, in_, nodes_, width_, 0, grad_weights_.data());
    descend(m_, weights.data(), grad_weights_.data(), in_ * width_);
  }

  const Machine& m_;
  std::int64_t nodes_, in_, width_;
  buffer<float> to_target_, to_source_, attention_, target_, source_, output_, logsumexp_;
  buffer<float> grad_target_, grad_source_, grad_attention_, grad_weights_;
  gatv2_forward_args<float, I> forward_;
  gatv2_backward_args<float, I> backward_;
  buffer<char> for_forward_, for_backward_;
  const float* input_ = nullptr;
};

/// The loss before every step.
template <class Machine>
std::vector<double> train(const Machine& m, const graph_view<I, I>& g, const gcn::dense& x,
                          const std::vector<std::int32_t>& labels) {
  const auto nodes = g.rows();
  layer<Machine> first(m, g, features, 8, 8, 1, 0.2f);
  layer<Machine> second(m, g, first.width(), 1, classes, 11, 0.5f);
  const auto words = m.place(x.values);
  const auto there = m.place(labels);
  auto hidden = m.room(nodes * first.width()), grad_hidden = m.room(nodes * first.width());
  auto grad_logits = m.room(nodes * classes), losses = m.room(nodes);
  std::vector<double> history;
  for (std::uint64_t s = 0; s < steps; ++s) {
    const float* sums = first.forward(words.data(), 2 * s);
    float *h = hidden.data(), *dh = grad_hidden.data(), *dl = grad_logits.data();
    m.for_each(hidden.size(), [=] GATV2_HD(std::int64_t k) { h[k] = gatv2::elu(sums[k]); });
    const float* logits = second.forward(h, 2 * s + 1);
    const std::int32_t* label = there.data();
    float* loss = losses.data();
    m.for_each(nodes, [=] GATV2_HD(std::int64_t i) {
      loss[i] =
          gatv2::cross_entropy(logits + i * classes, label[i], classes, nodes, dl + i * classes);
    });
    history.push_back(m.sum(losses) / static_cast<double>(nodes));
    second.backward(dl, dh);
    m.for_each(hidden.size(), [=] GATV2_HD(std::int64_t k) { dh[k] *= gatv2::elu_slope(h[k]); });
    first.backward(dh, nullptr);
  }
  return history;
}

bool report(const char* where, const std::vector<double>& losses) {
  std::printf("%s: loss", where);
  for (const double loss : losses) std::printf(" %.4f", loss);
  const bool falls = losses.back() < 0.8 * losses.front();
  std::printf(falls ? "\n" : ", which does not fall\n");
  return falls;
}

/// Neighbours are mostly of one topic, as their ids lie together, and have more of its words.
std::int32_t topic_of(std::int64_t node, std::int64_t nodes) {
  return static_cast<std::int32_t>(node * classes / nodes);
}
gcn::dense topical_words(std::int64_t nodes) {
  auto x = gcn::words(nodes, features, 3);
  const auto own = gcn::drawn(nodes, features, 5, 1);
  for (std::int64_t i = 0; i < nodes; ++i) {
    for (std::int64_t f = 0; f < features; ++f) {
      const bool topical = f % classes == topic_of(i, nodes) && own.at(i, f) > 0.95f;
      x.at(i, f) = topical || x.at(i, f) > 0 ? 1.0f : 0.0f;
    }
  }
  return x;
}

}  // namespace

int main() {
  const auto shape = check(parse_synthetic("cora"));
  const gatv2::host_machine host(host_context{});
  const auto g = check(make_synthetic(host.ctx(), shape));
  const auto nodes = g.view().rows();
  const auto x = topical_words(nodes);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < nodes; ++i) labels.push_back(topic_of(i, nodes));
  const auto on_host = train(host, g.view(), x, labels);
  bool well = report("host", on_host);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("device: none, skipped\n");
    return well ? 0 : 1;
  }
  cudaStream_t stream = nullptr;
  check(from_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"));
  {
    const gatv2::device_machine device(check(make_context(stream)));
    const auto there = check(make_synthetic(device.ctx(), shape));
    const auto on_device = train(device, there.view(), x, labels);
    well = report("device", on_device) && well;
    for (int s = 0; s < steps; ++s) {
      // fp32 on both sides, sums in different orders, and what a step makes of that.
      const bool close = std::fabs(on_device[s] - on_host[s]) < 1e-3 * on_host[0];
      if (!close) std::printf("step %d: the two are apart\n", s);
      well = well && close;
    }
  }
  (void)cudaStreamDestroy(stream);
  return well ? 0 : 1;
}
