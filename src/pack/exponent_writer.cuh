// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/warp_bytes.cuh"
#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/exponent_record.hpp"

namespace quipu::detail {

template <class Word>
class exponent_writer {
  static constexpr int each = elements_of_lane<Word>;
  static constexpr int batch = warp_lanes * each;  // elements that a warp stages
  static constexpr unsigned escapes = 0x80, is_unusual = 0x40;

 public:
  static constexpr bool in_slots = true;
  /// Of every symbol: its code in bits 0 to 2, its next code in bits 3 to 5, whether it escapes,
  /// and whether it has no next code either.
  struct block_shared {
    std::uint8_t code_of[256];
  };
  struct warp_shared {
    std::uint32_t kept[batch];
    std::uint8_t codes[batch];
    std::uint32_t nexts[record_shape::most * 3 / 32];
  };

  exponent_writer(const packing& p, const std::byte* columns)
      : base_(p.exponent.base.empty() ? nullptr : reinterpret_cast<const std::uint8_t*>(columns)),
        slot_bytes_(static_cast<int>(p.slot_bytes)),
        code_bits_(p.exponent.code_bits) {
    const auto field = exponent_field_of(p.format);
    shift_ = field.shift;
    exponents_ = low_bits<std::uint32_t>(field.bits);
    constant_mask_ = p.exponent.constant_mask;
    constant_value_ = p.exponent.constant_value;
    auto kept = low_bits<std::uint32_t>(8 * static_cast<int>(sizeof(Word))) &
                ~(exponents_ << shift_ | constant_mask_);
    kept_bits_ = std::popcount(kept);
    for (int taken = 0; kept != 0; ++runs_) run_[runs_] = take_run(kept, taken);
    for (int k = 0; k < 7; ++k) {
      usual_[k] = p.exponent.usual[static_cast<std::size_t>(k)];
      next_[k] = p.exponent.next[static_cast<std::size_t>(k)];
    }
  }

  /// Of codes with one symbol the lowest counts.
  __device__ void prepare(block_shared& block) const {
    const int escape = (1 << code_bits_) - 1;
    for (int s = static_cast<int>(threadIdx.x); s < 256; s += static_cast<int>(blockDim.x)) {
      unsigned code = static_cast<unsigned>(escape), next = 7;
      for (int k = 6; k >= 0; --k) {
        if (k < escape && usual_[k] == s) code = static_cast<unsigned>(k);
        if (next_[k] == s) next = static_cast<unsigned>(k);
      }
      unsigned all = code | next << 3;
      if (code == static_cast<unsigned>(escape)) all |= escapes | (next == 7 ? is_unusual : 0u);
      block.code_of[s] = static_cast<std::uint8_t>(all);
    }
  }

  __device__ int size(int lane, const std::byte* elements, std::int64_t column, int count,
                      const block_shared& block) const {
    int nexts = 0, bytes = 0;
    bool broken = false;
    for (int from = 0; from < count; from += batch) {
      const auto vector = load(lane, elements, from, count);
#pragma unroll
      for (int k = 0; k < each; ++k) {
        if (k >= vector.here) break;
        const std::uint32_t x = vector.x[k];
        broken = broken || (x & constant_mask_) != constant_value_;
        const unsigned code = block.code_of[symbol(x, column + from + lane * each + k)];
        nexts += code >> 7;
        bytes += code >> 6 & code >> 7;
      }
    }
    if (any_of_group<warp_lanes>(broken)) return -1;
    const exponent_parts parts(count, kept_bits_, code_bits_, 0);
    return static_cast<int>(parts.nexts +
                            bytes_of_bits(std::int64_t{sum_group<warp_lanes>(nexts)} * 3) +
                            sum_group<warp_lanes>(bytes) + 1);
  }

  /// False, and the slot undefined, if the record does not fit it.
  __device__ bool write(int lane, const std::byte* elements, std::int64_t column, int count,
                        std::byte* slot, const block_shared& block, warp_shared& own) const {
    const exponent_parts parts(count, kept_bits_, code_bits_, slot_bytes_);
    if (!parts.fits(0, 0)) return false;
    int nexts = 0, bytes = 0;
    bool broken = false;
    for (int w = lane; w < static_cast<int>(sizeof own.nexts / 4); w += warp_lanes)
      own.nexts[w] = 0;
    __syncwarp();
    for (int from = 0; from < count; from += batch) {
      const auto vector = load(lane, elements, from, count);
      std::uint32_t kept[each];
      unsigned codes[each];
      int escaped = 0, unusual = 0, all;
#pragma unroll
      for (int k = 0; k < each; ++k) {
        const bool there = k < vector.here;
        broken = broken || (there && (vector.x[k] & constant_mask_) != constant_value_);
        kept[k] = there ? extract(vector.x[k]) : 0;
        codes[k] = there ? block.code_of[symbol(vector.x[k], column + from + lane * each + k)] : 0;
        escaped += codes[k] >> 7;
        unusual += codes[k] >> 6 & codes[k] >> 7;
      }
      // Counts of both kinds go through one sum, 16 bits each.
      const int before = sum_before<warp_lanes>(escaped | unusual << 16, lane, all);
      int next_place = nexts + (before & 0xffff), byte_place = bytes + (before >> 16);
      nexts += all & 0xffff;
      bytes += all >> 16;
#pragma unroll
      for (int k = 0; k < each; ++k) {
        own.codes[lane * each + k] = static_cast<std::uint8_t>(codes[k] & ((1u << code_bits_) - 1));
        if ((codes[k] & escapes) == 0) continue;
        put_next(own, next_place++, codes[k] >> 3 & 7);
        if ((codes[k] & is_unusual) != 0) {
          const auto at = parts.exponents_end - 1 - byte_place++;
          if (at >= parts.nexts)
            slot[at] = static_cast<std::byte>(vector.x[k] >> shift_ & exponents_);
        }
      }
      const int here = count - from < batch ? count - from : batch;
      put_kept(lane, slot, from, here, kept, own);
      __syncwarp();
      put_fields(lane, slot + parts.codes + from * code_bits_ / 8, own.codes, here, code_bits_);
      __syncwarp();
    }
    if (any_of_group<warp_lanes>(broken) || !parts.fits(nexts, bytes)) return false;
    finish(lane, slot, parts, nexts, bytes, own);
    return true;
  }

 private:
  struct loaded {
    std::uint32_t x[each];
    int here;
  };
  __device__ static loaded load(int lane, const std::byte* elements, int from, int count) {
    loaded l;
    const int i = from + lane * each;
    l.here = count - i < 0 ? 0 : count - i < each ? count - i : each;
    const auto* words = reinterpret_cast<const Word*>(elements) + i;
    Word x[each] = {};
    if (l.here == each && reinterpret_cast<std::uintptr_t>(words) % 16 == 0) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(words));
      memcpy(x, &v, sizeof v);
    } else {
#pragma unroll
      for (int k = 0; k < each; ++k) {
        if (k < l.here) x[k] = __ldg(words + k);
      }
    }
#pragma unroll
    for (int k = 0; k < each; ++k) l.x[k] = x[k];
    return l;
  }
  __device__ std::uint32_t symbol(std::uint32_t x, std::int64_t column) const {
    std::uint32_t e = x >> shift_;
    if (base_ != nullptr) e -= base_[column];
    return e & exponents_;
  }
  __device__ std::uint32_t extract(std::uint32_t x) const {
    std::uint32_t dense = 0;
    for (int run = 0; run < runs_; ++run) dense |= (x & run_[run].mask) >> run_[run].gap;
    return dense;
  }
  __device__ static void put_next(warp_shared& own, int index, std::uint32_t code) {
    const int bit = 3 * index;
    atomicOr(&own.nexts[bit / 32], code << (bit % 32));
    if (bit % 32 > 29) atomicOr(&own.nexts[bit / 32 + 1], code >> (32 - bit % 32));
  }

  /// The kept bits of a batch, in whole words: of bf16 and of fp32 a lane has words of its own.
  __device__ void put_kept(int lane, std::byte* slot, int from, int here,
                           const std::uint32_t (&kept)[each], warp_shared& own) const {
    const int left = here - lane * each;
    if (sizeof(Word) == 2 && kept_bits_ == 8) {
      auto* to = reinterpret_cast<std::uint32_t*>(slot + from) + 2 * lane;
      if (left > 0) to[0] = kept[0] | kept[1] << 8 | kept[2] << 16 | kept[3] << 24;
      if (left > 4) {
        to[1] = kept[each - 4] | kept[each - 3] << 8 | kept[each - 2] << 16 | kept[each - 1] << 24;
      }
    } else if (sizeof(Word) == 4 && kept_bits_ == 24) {
      auto* to = reinterpret_cast<std::uint32_t*>(slot + from * 3) + 3 * lane;
      if (left > 0) to[0] = kept[0] | kept[1] << 24;
      if (left > 1) to[1] = kept[1] >> 8 | kept[2] << 16;
      if (left > 2) to[2] = kept[2] >> 16 | kept[3] << 8;
    } else {
#pragma unroll
      for (int k = 0; k < each; ++k) own.kept[lane * each + k] = kept[k];
      __syncwarp();
      put_fields(lane, slot + from * kept_bits_ / 8, own.kept, here, kept_bits_);
    }
  }

  /// Writes fields of so many bits side by side, from a multiple of 4 bytes on; zeros fill the last
  /// word.
  template <class Field>
  __device__ static void put_fields(int lane, std::byte* to, const Field* fields, int count,
                                    int bits) {
    if (bits == 0) return;
    auto* words = reinterpret_cast<std::uint32_t*>(to);
    for (int w = lane; w * 32 < count * bits; w += warp_lanes) {
      int i = w * 32 / bits;
      int at = i * bits - w * 32;  // of field i in the word; the first one may begin before it
      std::uint32_t word = 0;
      for (; at < 32 && i < count; ++i, at += bits) {
        const std::uint32_t field = fields[i];
        word |= at < 0 ? field >> -at : field << at;
      }
      words[w] = word;
    }
  }

  /// Next codes, zeros up to the exponents, and the tag.
  __device__ static void finish(int lane, std::byte* slot, const exponent_parts& parts, int nexts,
                                int bytes, const warp_shared& own) {
    auto* words = reinterpret_cast<std::uint32_t*>(slot + parts.nexts);
    const int next_bytes = (3 * nexts + 7) >> 3;
    for (int w = lane; w < next_bytes >> 2; w += warp_lanes) words[w] = own.nexts[w];
    for (int b = (next_bytes & ~3) + lane; b < next_bytes; b += warp_lanes) {
      slot[parts.nexts + b] = static_cast<std::byte>(own.nexts[b >> 2] >> (8 * (b & 3)));
    }
    clear_bytes(lane, slot, static_cast<int>(parts.nexts) + next_bytes,
                static_cast<int>(parts.exponents_end) - bytes);
    if (lane == 0) slot[parts.exponents_end] = std::byte{0};
    __syncwarp();
  }

  const std::uint8_t* base_;
  int slot_bytes_, code_bits_, shift_ = 0, kept_bits_ = 0, runs_ = 0;
  std::uint32_t exponents_ = 0, constant_mask_ = 0, constant_value_ = 0;
  bit_run<std::uint32_t> run_[most_kept_runs];
  std::uint8_t usual_[7], next_[7];
};

}  // namespace quipu::detail
