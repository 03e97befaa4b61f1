// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "attention/host_heads.hpp"
#include "core/host_types.hpp"
#include "engine/host_dot.hpp"
#include "quipu/attention/detail/check_gradients.hpp"
#include "quipu/core/trace.hpp"
#include "quipu/engine/host_engine.hpp"

namespace quipu {

using detail::dot;
using detail::head_of;
using detail::number_at;

namespace {

constexpr std::int64_t grain = 64;  // rows of a piece of work

/// sum += factor * row, but not where it is 0: weight 0 passes no gradient, whatever the row holds.
template <class T, class A>
void add_scaled(std::vector<A>& sum, A factor, const T* row) {
  if (factor == A{0}) return;
  for (std::size_t f = 0; f < sum.size(); ++f) sum[f] += factor * widen(row[f]);
}

template <class T, class A>
void store(T* to, const std::vector<A>& sum, A factor) {
  for (std::size_t f = 0; f < sum.size(); ++f) to[f] = narrow<T>(factor * sum[f]);
}

/// An edge as both halves see it.
struct edge_ends {
  std::int64_t receiver, sender, position;  // position in the forward graph
};
/// The weight of grad_output and the gradient of the logit.
template <class A>
struct edge_gradient {
  A weight, logit;
};

/// What all gradients share: every edge's alpha is made anew, once for either half.
/// `logit(edge, head)`; `values` are the senders' rows that forward added up.
template <class T, class Args, class Logit>
class gradient_walk {
 public:
  using A = accumulator<T>;

  gradient_walk(const host_context& ctx, const Args& a, const heads_view<const T>& values,
                const Logit& logit)
      : ctx_(ctx),
        a_(a),
        values_(values),
        logit_(logit),
        heads_(a.grad_output.extent(1)),
        dim_(a.grad_output.extent(2)),
        dropout_(a.dropout, heads_),
        lowered_by_(static_cast<std::size_t>(a.graph.rows() * heads_)) {}

  /// Calls make() for each piece of rows, for use(row, head, edges) of its rows, where
  /// edges(visit) calls visit(edge, gradient) for every edge of the receiver.
  template <class Make>
  status over_receivers(const Make& make) {
    const auto& csr = a_.graph.forward.csr;
    return over_rows(csr.rows, make, [&](std::int64_t i, std::int64_t h, auto& use) {
      const A lowered_by = lowered_by_[static_cast<std::size_t>(i * heads_ + h)] =
          dot(head_of(a_.grad_output, i, h), head_of(a_.output, i, h), dim_);
      use(i, h, [&](const auto& visit) {
        for (std::int64_t k = csr.offsets[i]; k < csr.offsets[i + 1]; ++k) {
          const edge_ends e{i, csr.indices[k], k};
          const auto g = at(e, h, lowered_by);
          if (a_.stash.data_handle() != nullptr) {
            number_at(a_.stash, k, 2 * h) = g.weight;
            number_at(a_.stash, k, 2 * h + 1) = g.logit;
          }
          visit(e, g);
        }
      });
    });
  }
  /// The same of senders, after over_receivers.
  template <class Make>
  status over_senders(const Make& make) {
    const auto& csr = a_.graph.reverse.csr;
    return over_rows(csr.rows, make, [&](std::int64_t j, std::int64_t h, auto& use) {
      use(j, h, [&](const auto& visit) {
        for (std::int64_t k = csr.offsets[j]; k < csr.offsets[j + 1]; ++k) {
          const auto* map = a_.graph.edge_map;
          const edge_ends e{csr.indices[k], j, map == nullptr ? k : std::int64_t{map[k]}};
          visit(e, a_.stash.data_handle() == nullptr
                       ? at(e, h, lowered_by_[static_cast<std::size_t>(e.receiver * heads_ + h)])
                       : edge_gradient<A>{number_at(a_.stash, e.position, 2 * h),
                                          number_at(a_.stash, e.position, 2 * h + 1)});
        }
      });
    });
  }

 private:
  template <class Make, class Row>
  status over_rows(std::int64_t rows, const Make& make, const Row& row) {
    return detail::parallel_pieces(ctx_, rows, grain, [&](std::int64_t first, std::int64_t last) {
      auto use = make();
      for (auto i = first; i < last; ++i) {
        for (std::int64_t h = 0; h < heads_; ++h) row(i, h, use);
      }
    });
  }

  edge_gradient<A> at(const edge_ends& e, std::int64_t head, A lowered_by) const {
    const A all = number_at(a_.logsumexp, e.receiver, head);
    const A alpha =
        all == -std::numeric_limits<A>::infinity() ? A{0} : std::exp(logit_(e, head) - all);
    if (alpha == A{0}) return {0, 0};
    const A product =
        dot(head_of(a_.grad_output, e.receiver, head), head_of(values_, e.sender, head), dim_);
    const A kept = dropout_(e.position, head);
    return {alpha * kept, alpha * (kept * product - lowered_by)};
  }

  const host_context& ctx_;
  const Args& a_;
  heads_view<const T> values_;
  const Logit& logit_;
  std::int64_t heads_, dim_;
  detail::dropout_mask<A> dropout_;
  std::vector<A> lowered_by_;  // <grad_output, output>, [rows, heads]
};

/// Runs `body(walk)`; a lack of memory is a status.
template <class T, class Args, class Logit, class Body>
status walk_edges(const host_context& ctx, const Args& a, const heads_view<const T>& values,
                  const Logit& logit, const Body& body) {
  try {
    gradient_walk<T, Args, Logit> walk(ctx, a, values, logit);
    return body(walk);
  } catch (const std::exception&) {
    return failure(status_code::out_of_memory, "host scratch");
  }
}

}  // namespace

template <class T, class I, class O>
status transformer_backward(const host_context& ctx, const transformer_backward_args<T, I, O>& a) {
  const detail::trace_range range("transformer_backward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  using A = accumulator<T>;
  const auto dim = a.grad_output.extent(2);
  const auto width = static_cast<std::size_t>(dim);
  const auto logit = [&](const edge_ends& e, std::int64_t h) {
    const A s = a.scale * dot(head_of(a.query, e.receiver, h), head_of(a.key, e.sender, h), dim);
    return a.bias.data_handle() == nullptr ? s : s + number_at(a.bias, e.position, h);
  };
  return walk_edges<T>(ctx, a, a.value, logit, [&](auto& walk) {
    auto s = walk.over_receivers([&] {
      return [&a, sum = std::vector<A>(width)](std::int64_t i, std::int64_t h,
                                               const auto& edges) mutable {
        std::fill(sum.begin(), sum.end(), A{0});
        edges([&](const edge_ends& e, const edge_gradient<A>& g) {
          add_scaled(sum, g.logit, head_of(a.key, e.sender, h));
          if (a.grad_bias.data_handle() != nullptr) {
            number_at(a.grad_bias, e.position, h) = g.logit;
          }
        });
        store(head_of(a.grad_query, i, h), sum, a.scale);
      };
    });
    if (!s.ok()) return s;
    return walk.over_senders([&] {
      return [&a, of_key = std::vector<A>(width), of_value = std::vector<A>(width)](
                 std::int64_t j, std::int64_t h, const auto& edges) mutable {
        std::fill(of_key.begin(), of_key.end(), A{0});
        std::fill(of_value.begin(), of_value.end(), A{0});
        edges([&](const edge_ends& e, const edge_gradient<A>& g) {
          add_scaled(of_key, g.logit, head_of(a.query, e.receiver, h));
          add_scaled(of_value, g.weight, head_of(a.grad_output, e.receiver, h));
        });
        store(head_of(a.grad_key, j, h), of_key, a.scale);
        store(head_of(a.grad_value, j, h), of_value, A{1});
      };
    });
  });
}

template <class T, class I, class O>
status gatv2_backward(const host_context& ctx, const gatv2_backward_args<T, I, O>& a) {
  const detail::trace_range range("gatv2_backward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  using A = accumulator<T>;
  const auto heads = a.grad_output.extent(1), dim = a.grad_output.extent(2);
  const auto width = static_cast<std::size_t>(dim);
  const auto attention = [&](std::int64_t h) {
    return a.attention.data_handle() + h * a.attention.stride(0);
  };
  const auto logit = [&](const edge_ends& e, std::int64_t h) {
    return detail::leaky_dot(attention(h), head_of(a.target, e.receiver, h),
                             head_of(a.source, e.sender, h), dim, a.slope);
  };
  // sum += ds * attention * leaky'(x), and use(f, ds * leaky'(x), x).
  const auto through = [&](std::vector<A>& sum, const edge_ends& e, std::int64_t h, A ds,
                           const auto& use) {
    if (ds == A{0}) return;
    const T *target = head_of(a.target, e.receiver, h), *source = head_of(a.source, e.sender, h);
    for (std::size_t f = 0; f < width; ++f) {
      const A x = widen(target[f]) + widen(source[f]);
      const A g = ds * leaky_relu_derivative(x, a.slope);
      sum[f] += widen(attention(h)[f]) * g;
      use(f, g, x);
    }
  };
  return walk_edges<T>(ctx, a, a.source, logit, [&](auto& walk) {
    // Parts of grad_attention by pieces of rows, so that no number of threads changes its bits.
    const auto all = static_cast<std::size_t>(heads) * width;
    std::vector<A> parts(static_cast<std::size_t>((a.graph.rows() + grain - 1) / grain) * all);
    auto s = walk.over_receivers([&] {
      return [&, sum = std::vector<A>(width)](std::int64_t i, std::int64_t h,
                                              const auto& edges) mutable {
        std::fill(sum.begin(), sum.end(), A{0});
        A* part = parts.data() + static_cast<std::size_t>(i / grain) * all +
                  static_cast<std::size_t>(h) * width;
        edges([&](const edge_ends& e, const edge_gradient<A>& g) {
          through(sum, e, h, g.logit, [&](std::size_t f, A dx, A x) { part[f] += dx * x; });
        });
        store(head_of(a.grad_target, i, h), sum, A{1});
      };
    });
    if (!s.ok()) return s;
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<A> sum(width);
      for (std::size_t p = static_cast<std::size_t>(h) * width; p < parts.size(); p += all) {
        for (std::size_t f = 0; f < width; ++f) sum[f] += parts[p + f];
      }
      store(a.grad_attention.data_handle() + h * a.grad_attention.stride(0), sum, A{1});
    }
    return walk.over_senders([&] {
      return [&, sum = std::vector<A>(width)](std::int64_t j, std::int64_t h,
                                              const auto& edges) mutable {
        std::fill(sum.begin(), sum.end(), A{0});
        edges([&](const edge_ends& e, const edge_gradient<A>& g) {
          add_scaled(sum, g.weight, head_of(a.grad_output, e.receiver, h));
          through(sum, e, h, g.logit, [](std::size_t, A, A) {});
        });
        store(head_of(a.grad_source, j, h), sum, A{1});
      };
    });
  });
}

template <class T, class I, class O>
status gat_backward(const host_context& ctx, const gat_backward_args<T, I, O>& a) {
  const detail::trace_range range("gat_backward");
  if (auto s = detail::check_arguments(ctx, a); !s.ok()) return s;
  using A = accumulator<T>;
  const auto width = static_cast<std::size_t>(a.grad_output.extent(2));
  const auto sum_of_scores = [&](const edge_ends& e, std::int64_t h) {
    return widen(number_at(a.target_score, e.receiver, h)) +
           widen(number_at(a.source_score, e.sender, h));
  };
  const auto logit = [&](const edge_ends& e, std::int64_t h) {
    return leaky_relu(sum_of_scores(e, h), a.slope);
  };
  return walk_edges<T>(ctx, a, a.source, logit, [&](auto& walk) {
    auto s = walk.over_receivers([&] {
      return [&](std::int64_t i, std::int64_t h, const auto& edges) {
        A score{0};
        edges([&](const edge_ends& e, const edge_gradient<A>& g) {
          score += g.logit * leaky_relu_derivative(sum_of_scores(e, h), a.slope);
        });
        number_at(a.grad_target_score, i, h) = narrow<T>(score);
      };
    });
    if (!s.ok()) return s;
    return walk.over_senders([&] {
      return [&, sum = std::vector<A>(width)](std::int64_t j, std::int64_t h,
                                              const auto& edges) mutable {
        A score{0};
        std::fill(sum.begin(), sum.end(), A{0});
        edges([&](const edge_ends& e, const edge_gradient<A>& g) {
          score += g.logit * leaky_relu_derivative(sum_of_scores(e, h), a.slope);
          add_scaled(sum, g.weight, head_of(a.grad_output, e.receiver, h));
        });
        store(head_of(a.grad_source, j, h), sum, A{1});
        number_at(a.grad_source_score, j, h) = narrow<T>(score);
      };
    });
  });
}

#define QUIPU_INSTANTIATE(T, I, O)                                                          \
  template status gat_backward(const host_context&, const gat_backward_args<T, I, O>&);     \
  template status gatv2_backward(const host_context&, const gatv2_backward_args<T, I, O>&); \
  template status transformer_backward(const host_context&,                                 \
                                       const transformer_backward_args<T, I, O>&);
QUIPU_FOR_HOST_TYPES(QUIPU_INSTANTIATE)

}  // namespace quipu
