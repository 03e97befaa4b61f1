// SPDX-License-Identifier: Apache-2.0
#include "sparse/plan_state.hpp"

namespace quipu {

namespace detail {

status compare(const plan_key& made_for, const plan_key& call) {
  const auto differs = [](const char* what, std::int64_t expected = 0, std::int64_t actual = 0) {
    return failure(status_code::invalid_argument, what, -1, expected, actual);
  };
  if (made_for.device != call.device) {
    return differs("plan: made on another device", made_for.device, call.device);
  }
  if (made_for.element != call.element) return differs("plan: made for another element type");
  if (made_for.index_bits != call.index_bits || made_for.offset_bits != call.offset_bits) {
    return differs("plan: made for other index types");
  }
  if (made_for.features != call.features) {
    return differs("plan: made for another width", made_for.features, call.features);
  }
  if (made_for.graph != call.graph || made_for.offsets != call.offsets ||
      made_for.indices != call.indices || made_for.slices != call.slices ||
      made_for.reverse_offsets != call.reverse_offsets ||
      made_for.reverse_slices != call.reverse_slices || made_for.edge_map != call.edge_map ||
      made_for.rows != call.rows || made_for.columns != call.columns ||
      made_for.edges != call.edges) {
    return differs("plan: made for another graph");
  }
  if (made_for.weights != call.weights) return differs("plan: made for other weights");
  if (made_for.scales.row != call.scales.row || made_for.scales.column != call.scales.column ||
      made_for.scales.identity != call.scales.identity) {
    return differs("plan: made for other scales");
  }
  return success();
}

stream_use::~stream_use() {
  if (last_ == nullptr) return;
  (void)cudaEventSynchronize(last_);
  (void)cudaEventDestroy(last_);
}

std::uint64_t stream_use::id_of(const context& ctx) {
  unsigned long long id = 0;
  (void)cudaStreamGetId(ctx.stream, &id);
  return id;
}

bool stream_use::capturing(const context& ctx) {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  (void)cudaStreamIsCapturing(ctx.stream, &state);
  return state != cudaStreamCaptureStatusNone;
}

status stream_use::prepare() {
  return from_cuda(cudaEventCreateWithFlags(&last_, cudaEventDisableTiming), "plan: event");
}

status stream_use::enter(const context& ctx) {
  if (stream_ == 0 || capturing(ctx) || stream_ == id_of(ctx)) return success();
  const auto e = cudaEventQuery(last_);
  if (e == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return failure(status_code::invalid_argument, "plan: another stream is still at work on it");
  }
  return from_cuda(e, "plan: what ran before on another stream");
}

status stream_use::leave(const context& ctx) {
  if (capturing(ctx)) return success();
  stream_ = id_of(ctx);
  return from_cuda(cudaEventRecord(last_, ctx.stream), "plan: event");
}

}  // namespace detail

spmm_plan::spmm_plan() noexcept = default;
spmm_plan::spmm_plan(std::unique_ptr<detail::spmm_plan_state> state) noexcept
    : state_(std::move(state)) {}
spmm_plan::spmm_plan(spmm_plan&&) noexcept = default;
spmm_plan& spmm_plan::operator=(spmm_plan&& other) noexcept {
  spmm_plan(std::move(other)).state_.swap(state_);
  return *this;
}
spmm_plan::~spmm_plan() {
  if (!state_) return;
  const device_guard guard(state_->key.device);
  state_.reset();
}

namespace {
const spmm_choice nothing_chosen{};
}

const spmm_choice& spmm_plan::forward() const noexcept {
  return state_ ? state_->forward.choice : nothing_chosen;
}
const spmm_choice& spmm_plan::backward() const noexcept {
  return state_ ? state_->backward.choice : nothing_chosen;
}
std::size_t spmm_plan::bytes() const noexcept {
  if (!state_) return 0;
  return state_->forward.bytes() + state_->backward.bytes() + state_->reverse_weights.bytes() +
         state_->scratch.bytes();
}

}  // namespace quipu
