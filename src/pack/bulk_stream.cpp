// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/bulk_stream.hpp"

#include <utility>

#include "graph/scratch.hpp"
#include "pack/check_pack.hpp"
#include "pack/read_rows.hpp"
#include "quipu/core/trace.hpp"

namespace quipu {

namespace {

using namespace detail;

constexpr std::int64_t vector_bytes = 16;

/// What a row takes at most.
std::int64_t longest_row(const packing& p) {
  const record_shape shape(p.width);
  if (p.has_slots()) return slot_bytes_of_row(p);
  return shape.records * round_up(shape.elements * p.element_bytes, p.granule);
}

/// Slots lie row by row.
std::vector<bulk_piece> cut_slots(const packed_view& v, std::int64_t stage_bytes) {
  std::vector<bulk_piece> pieces;
  const auto row_bytes = slot_bytes_of_row(*v.how);
  const auto most = stage_bytes / row_bytes;
  for (std::int64_t row = 0; row < v.rows; row += most) {
    const auto rows = std::min(most, v.rows - row);
    pieces.push_back({row, rows, row * row_bytes, rows * row_bytes});
  }
  return pieces;
}

/// Where rows with addresses begin, and behind the last one where `used` ends.
class row_places {
 public:
  row_places(const context& ctx, const packed_view& v)
      : records_(record_shape(v.how->width).records),
        granule_(v.how->granule),
        longest_(longest_row(*v.how)) {
    addresses_ = require(to_host(ctx, v.addresses, v.records()));
    used_ = require(to_host(ctx, v.used, 1)).front();
  }
  std::int64_t operator[](std::int64_t row) const { return record(row * records_); }
  /// Whether a row's records lie one behind the other, and the next row right behind them.
  bool in_order(std::int64_t row) const {
    if ((*this)[row + 1] - (*this)[row] > longest_) return false;
    for (auto r = row * records_; r < (row + 1) * records_; ++r) {
      if (record(r + 1) < record(r)) return false;
    }
    return true;
  }

 private:
  std::int64_t record(std::int64_t r) const {
    const auto k = static_cast<std::size_t>(r);
    return k < addresses_.size() ? (addresses_[k] & ~whole_flag) * granule_ : used_;
  }
  std::int64_t records_, granule_, longest_, used_ = 0;
  std::vector<std::uint32_t> addresses_;
};

/// Rows that follow each other in memory share a piece; those that do not are left where they lie.
std::vector<bulk_piece> cut_addressed(const context& ctx, const packed_view& v,
                                      std::int64_t stage_bytes) {
  std::vector<bulk_piece> pieces;
  const row_places begin(ctx, v);
  for (std::int64_t row = 0; row < v.rows;) {
    auto end = row;
    while (end < v.rows && begin.in_order(end) && begin[end + 1] - begin[row] <= stage_bytes) {
      ++end;
    }
    if (end > row) {
      pieces.push_back({row, end - row, begin[row], begin[end] - begin[row]});
      row = end;
    } else if (!pieces.empty() && pieces.back().bytes == 0) {
      ++pieces.back().rows;
      ++row;
    } else {
      pieces.push_back({row++, 1, 0, 0});
    }
  }
  return pieces;
}

status check_stage(std::int64_t stage_bytes) {
  return stage_bytes > 0 ? success() : wrong_argument("stage_bytes: not positive", 1, stage_bytes);
}

status check_pinned(const packed_view& v) {
  cudaPointerAttributes a{};
  const auto found = v.byte_count > 0 ? cudaPointerGetAttributes(&a, v.bytes) : cudaSuccess;
  if (v.byte_count > 0 && (found != cudaSuccess || a.type != cudaMemoryTypeHost)) {
    return wrong_argument("packed: bytes are not in pinned memory");
  }
  return success();
}

/// The bytes of a piece, in whole vectors: what a stage holds of it.
stage_window window_of(const packed_view& v, const bulk_piece& piece, const std::byte* stage) {
  const auto first = piece.first_byte / vector_bytes * vector_bytes;
  const auto end = std::min(v.byte_count, round_up(piece.first_byte + piece.bytes, vector_bytes));
  return {stage, first, end - first};
}

/// Whether a piece lies inside the packed bytes and, of slots, is those of its rows.
bool fits(const packed_view& v, const bulk_plan& plan, const bulk_piece& piece) {
  if (piece.rows <= 0 || piece.rows > v.rows - piece.first_row) return false;
  if (piece.bytes < 0 || piece.bytes > plan.stage_bytes) return false;
  if (piece.first_byte < 0 || piece.first_byte > v.byte_count - piece.bytes) return false;
  if (!v.how->has_slots() || piece.bytes == 0) return true;
  const auto row_bytes = slot_bytes_of_row(*v.how);
  return piece.first_byte == piece.first_row * row_bytes && piece.bytes == piece.rows * row_bytes;
}

status check_plan(const packed_view& v, const bulk_plan& plan) {
  std::int64_t row = 0;
  for (const auto& piece : plan.pieces) {
    if (piece.first_row != row || !fits(v, plan, piece)) {
      return wrong_argument("plan: not of these rows");
    }
    row += piece.rows;
  }
  return row == v.rows ? success() : wrong_argument("plan: not of these rows", v.rows, row);
}

}  // namespace

result<bulk_plan> make_bulk_plan(const context& ctx, const packed_view& v,
                                 std::int64_t stage_bytes) {
  const trace_range range("make_bulk_plan");
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_packed(v); !s.ok()) return s;
  if (auto s = check_stage(stage_bytes); !s.ok()) return s;
  const auto longest = longest_row(*v.how);
  if (stage_bytes < longest) {
    return wrong_argument("stage_bytes: less than a row takes", longest, stage_bytes);
  }
  if (!v.how->has_slots() && v.used == nullptr) return wrong_argument("packed: used is null");
  return as_result<result<bulk_plan>>([&]() -> result<bulk_plan> {
    if (v.rows == 0) return bulk_plan{stage_bytes, {}};
    if (v.records() == 0) return bulk_plan{stage_bytes, {{0, v.rows, 0, 0}}};
    return bulk_plan{stage_bytes, v.how->has_slots() ? cut_slots(v, stage_bytes)
                                                     : cut_addressed(ctx, v, stage_bytes)};
  });
}

struct bulk_stream::state {
  struct stage {
    buffer<std::byte> bytes;
    cudaEvent_t is_full = nullptr, is_free = nullptr;
  };
  std::int32_t device = 0;
  std::int64_t stage_bytes = 0;
  cudaStream_t copies = nullptr;
  cudaEvent_t begin = nullptr;
  stage stages[2];

  ~state() {
    const device_guard guard(device);
    for (auto& s : stages) {
      for (auto* e : {s.is_full, s.is_free}) {
        if (e != nullptr) (void)cudaEventDestroy(e);
      }
    }
    if (begin != nullptr) (void)cudaEventDestroy(begin);
    if (copies != nullptr) (void)cudaStreamDestroy(copies);
  }

  void make(const context& ctx, std::int64_t bytes) {
    device = ctx.device;
    stage_bytes = bytes;
    const auto event = [](cudaEvent_t& e) {
      require(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "bulk_stream: event");
    };
    require(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "bulk_stream: stream");
    event(begin);
    for (auto& s : stages) {
      s.bytes = require(make_device_buffer<std::byte>(ctx, bytes + 2 * vector_bytes));
      event(s.is_full);
      event(s.is_free);
    }
  }

  /// Copies wait for what is enqueued so far.
  void follow(const context& ctx) {
    require(cudaEventRecord(begin, ctx.stream), "bulk_stream: record");
    require(cudaStreamWaitEvent(copies, begin), "bulk_stream: wait");
  }

  /// Fetches a piece into a stage; `is_free` was recorded if the stage was used before in this
  /// call.
  stage_window fetch(const packed_view& v, const bulk_piece& piece, stage& s, bool was_used) {
    const auto window = window_of(v, piece, s.bytes.data());
    if (was_used) require(cudaStreamWaitEvent(copies, s.is_free), "bulk_stream: wait");
    require(cudaMemcpyAsync(s.bytes.data(), v.bytes + window.first,
                            static_cast<std::size_t>(window.size), cudaMemcpyHostToDevice, copies),
            "bulk_stream: copy");
    require(cudaEventRecord(s.is_full, copies), "bulk_stream: record");
    return window;
  }

  void run(const context& ctx, const unpack_bulk_args& a) {
    require(clear(ctx, a.faults));
    std::size_t fetched = 0;
    for (const auto& piece : a.plan->pieces) {
      auto output = a.output;
      output.data += piece.first_row * output.row_stride;
      output.rows = piece.rows;
      auto& s = stages[fetched % 2];
      stage_window window;
      if (piece.bytes > 0) {
        if (fetched == 0) follow(ctx);
        window = fetch(a.packed, piece, s, fetched++ >= 2);
        require(cudaStreamWaitEvent(ctx.stream, s.is_full), "bulk_stream: wait");
      }
      require(read_rows(ctx, a.packed, window, piece.first_row, output, a.faults,
                        a.most_multiprocessors));
      if (piece.bytes > 0) require(cudaEventRecord(s.is_free, ctx.stream), "bulk_stream: record");
    }
  }
};

bulk_stream::bulk_stream(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
bulk_stream::bulk_stream(bulk_stream&&) noexcept = default;
bulk_stream& bulk_stream::operator=(bulk_stream&&) noexcept = default;
bulk_stream::~bulk_stream() = default;

result<bulk_stream> bulk_stream::make(const context& ctx, std::int64_t stage_bytes) {
  const device_guard guard(ctx.device);
  if (auto s = check_stream(ctx); !s.ok()) return s;
  if (auto s = check_stage(stage_bytes); !s.ok()) return s;
  return as_result<result<bulk_stream>>([&]() -> result<bulk_stream> {
    auto s = std::make_unique<state>();
    s->make(ctx, stage_bytes);
    return bulk_stream(std::move(s));
  });
}

status bulk_stream::unpack(const context& ctx, const unpack_bulk_args& a) {
  const trace_range range("bulk_stream::unpack");
  const device_guard guard(ctx.device);
  if (state_ == nullptr) return wrong_argument("bulk_stream: moved from");
  if (auto s = check_read(ctx, a.packed, a.output, a.faults, a.most_multiprocessors); !s.ok())
    return s;
  if (ctx.device != state_->device) {
    return wrong_argument("context: not the stages' device", state_->device, ctx.device);
  }
  if (a.output.rows != a.packed.rows) {
    return wrong_argument("output: rows are not the packed table's", a.packed.rows, a.output.rows);
  }
  if (auto s = check_pinned(a.packed); !s.ok()) return s;
  if (a.plan == nullptr) return wrong_argument("plan: null");
  if (a.plan->stage_bytes > state_->stage_bytes) {
    return wrong_argument("plan: longer stages than there are", state_->stage_bytes,
                          a.plan->stage_bytes);
  }
  if (auto s = check_plan(a.packed, *a.plan); !s.ok()) return s;
  if (a.plan->pieces.empty() || a.output.width == 0) return clear(ctx, a.faults);
  return as_result<status>([&] {
    state_->run(ctx, a);
    return success();
  });
}

}  // namespace quipu
