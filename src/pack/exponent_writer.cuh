// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pack/warp_bytes.cuh"
#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/exponent_record.hpp"

namespace quipu::detail {

/// `Kept` bits of an element are neither exponent nor constant: 8 of bf16, 24 of fp32; 0: any
/// number of any. A group of fewer than 32 lanes takes records of at most a vector a lane.
template <class Word, int Kept, int Lanes = warp_lanes>
class exponent_writer {
  static constexpr int each = elements_of_lane<Word>;
  static_assert(Kept == 0 || Kept == (sizeof(Word) == 2 ? 8 : 24));
  static constexpr int batch = Lanes * each;  // elements that a group stages
  static constexpr int most = Lanes < warp_lanes ? batch : record_shape::most;
  static constexpr unsigned escapes = 0x80, is_unusual = 0x40;

 public:
  static constexpr bool in_slots = true;
  static constexpr int lanes = Lanes;
  /// Of every symbol: its code in bits 0 to 2, its next code in bits 3 to 5, whether it escapes,
  /// and whether it has no next code either.
  struct block_shared {
    std::uint8_t code_of[256];
  };
  struct warp_shared {
    std::uint32_t kept[batch];
    std::uint32_t nexts[(most * 3 + 31) / 32];
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
    auto kept = kept_mask(p);
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
    std::uint32_t differing = 0;
    for (int from = 0; from < count; from += batch) {
      const auto v = load(lane, elements, from, count);
      unsigned codes[each];
      look_up(v, column + from + lane * each, block, codes);
      differing |= differing_bits(v);
#pragma unroll
      for (int k = 0; k < each; ++k) {
        nexts += static_cast<int>(codes[k] >> 7);
        bytes += static_cast<int>(codes[k] >> 6 & codes[k] >> 7);
      }
    }
    if (any_of_group<Lanes>(differing != 0)) return -1;
    const exponent_parts parts(count, kept_bits_, code_bits_, 0);
    return parts.nexts + ((3 * sum_group<Lanes>(nexts) + 7) >> 3) + sum_group<Lanes>(bytes) + 1;
  }

  /// False, and the slot undefined, if the record does not fit it.
  __device__ bool write(int lane, const std::byte* elements, std::int64_t column, int count,
                        std::byte* slot, const block_shared& block, warp_shared& own) const {
    const exponent_parts parts(count, kept_bits_, code_bits_, slot_bytes_);
    if (!parts.fits(0, 0)) return false;
    int nexts = 0, bytes = 0;
    std::uint32_t differing = 0;
    for (int w = lane; w * 32 < 3 * count; w += Lanes) own.nexts[w] = 0;
    sync();
    for (int from = 0; from < count; from += batch) {
      const auto v = load(lane, elements, from, count);
      unsigned codes[each];
      look_up(v, column + from + lane * each, block, codes);
      differing |= differing_bits(v);
      // Codes, and next codes, side by side.
      std::uint32_t dense = 0, dense_nexts = 0;
      int escaped = 0, unusual = 0, all;
#pragma unroll
      for (int k = 0; k < each; ++k) {
        const unsigned escape = codes[k] >> 7;
        dense |= (codes[k] & ((1u << code_bits_) - 1)) << (k * code_bits_);
        dense_nexts |= (escape * (codes[k] >> 3 & 7)) << (3 * escaped);
        escaped += static_cast<int>(escape);
        unusual += static_cast<int>(codes[k] >> 6 & escape);
      }
      // Counts of both kinds go through one sum, 16 bits each.
      const int before = sum_before<Lanes>(escaped | unusual << 16, lane, all);
      if (escaped > 0) put_nexts(own, 3 * (nexts + (before & 0xffff)), 3 * escaped, dense_nexts);
      if (unusual > 0) put_exponents(slot, parts, bytes + (before >> 16), v, codes);
      nexts += all & 0xffff;
      bytes += all >> 16;
      const int here = count - from < batch ? count - from : batch;
      put_kept(lane, slot, from, here, v, own);
      put_codes(lane, slot + parts.codes + from * code_bits_ / 8, dense, here);
      sync();
    }
    if (any_of_group<Lanes>(differing != 0) || !parts.fits(nexts, bytes)) return false;
    finish(lane, slot, parts, nexts, bytes, own);
    return true;
  }

 private:
  __device__ static void sync() { __syncwarp(group_mask<Lanes>()); }
  struct loaded {
    std::uint32_t x[each];
    int here;
  };
  /// What is not there has the bits that all have, and no others.
  __device__ loaded load(int lane, const std::byte* elements, int from, int count) const {
    loaded l;
    const int i = from + lane * each;
    l.here = count - i < 0 ? 0 : count - i < each ? count - i : each;
    const auto* words = reinterpret_cast<const Word*>(elements) + i;
    Word x[each];
    if (l.here == each && reinterpret_cast<std::uintptr_t>(words) % 16 == 0) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(words));
      memcpy(x, &v, sizeof v);
    } else {
#pragma unroll
      for (int k = 0; k < each; ++k) {
        x[k] = k < l.here ? __ldg(words + k) : static_cast<Word>(constant_value_);
      }
    }
#pragma unroll
    for (int k = 0; k < each; ++k) l.x[k] = x[k];
    return l;
  }
  /// Entries of `code_of`; 0 for what is not there.
  __device__ void look_up(const loaded& v, std::int64_t column, const block_shared& block,
                          unsigned (&codes)[each]) const {
    std::uint32_t base[each] = {};
    if (base_ != nullptr) {
#pragma unroll
      for (int k = 0; k < each; ++k) base[k] = k < v.here ? base_[column + k] : 0;
    }
#pragma unroll
    for (int k = 0; k < each; ++k) {
      const unsigned code = block.code_of[((v.x[k] >> shift_) - base[k]) & exponents_];
      codes[k] = k < v.here ? code : 0;
    }
  }
  /// Bits that should be the same in all elements, and are not.
  __device__ std::uint32_t differing_bits(const loaded& v) const {
    std::uint32_t differing = 0;
#pragma unroll
    for (int k = 0; k < each; ++k) differing |= (v.x[k] & constant_mask_) ^ constant_value_;
    return differing;
  }
  /// Kept bits of each element, side by side; none of what is not there.
  __device__ void extract(const loaded& vector, std::uint32_t (&kept)[each]) const {
    // Mostly a sign and digits.
#pragma unroll
    for (int k = 0; k < each; ++k) {
      kept[k] =
          (vector.x[k] & run_[0].mask) >> run_[0].gap | (vector.x[k] & run_[1].mask) >> run_[1].gap;
    }
    for (int run = 2; run < runs_; ++run) {
      const auto r = run_[run];
#pragma unroll
      for (int k = 0; k < each; ++k) kept[k] |= (vector.x[k] & r.mask) >> r.gap;
    }
  }
  /// So many bits, up to 24, from bit `at` of the next codes on.
  __device__ static void put_nexts(warp_shared& own, int at, int bits, std::uint32_t dense) {
    const int word = at / 32, shift = at % 32;
    atomicOr(&own.nexts[word], dense << shift);
    if (shift + bits > 32) atomicOr(&own.nexts[word + 1], dense >> (32 - shift));
  }
  /// Exponents of a lane that are in none of the codes, from the end of the slot down.
  __device__ void put_exponents(std::byte* slot, const exponent_parts& at, int before,
                                const loaded& v, const unsigned (&codes)[each]) const {
#pragma unroll
    for (int k = 0; k < each; ++k) {
      if ((codes[k] & is_unusual) == 0 || (codes[k] & escapes) == 0) continue;
      const int to = at.exponents_end - 1 - before++;
      if (to >= at.nexts) slot[to] = static_cast<std::byte>(v.x[k] >> shift_ & exponents_);
    }
  }

  /// The kept bits of a batch, in whole words: of bf16 and of fp32 a lane has words of its own.
  __device__ void put_kept(int lane, std::byte* slot, int from, int here, const loaded& v,
                           warp_shared& own) const {
    const int left = here - lane * each;
    if constexpr (Kept == 8) {
      auto* to = reinterpret_cast<std::uint32_t*>(slot + from) + 2 * lane;
      if (left > 0) to[0] = signs_and_digits(v, 0);
      if (left > 4) to[1] = signs_and_digits(v, 4);
    } else if constexpr (Kept == 24) {
      std::uint32_t kept[each];
#pragma unroll
      for (int k = 0; k < each; ++k) kept[k] = (v.x[k] & 0x7fffffu) | (v.x[k] >> 8 & 0x800000u);
      auto* to = reinterpret_cast<std::uint32_t*>(slot + from * 3) + 3 * lane;
      if (left > 0) to[0] = kept[0] | kept[1] << 24;
      if (left > 1) to[1] = kept[1] >> 8 | kept[2] << 16;
      if (left > 2) to[2] = kept[2] >> 16 | kept[3] << 8;
    } else {
      std::uint32_t kept[each];
      extract(v, kept);
#pragma unroll
      for (int k = 0; k < each; ++k) own.kept[lane * each + k] = kept[k];
      sync();
      put_fields(lane, slot + from * kept_bits_ / 8, own.kept, here, kept_bits_);
    }
  }
  /// Of four numbers of bf16 all but the exponents, a byte each; nothing of what is not there.
  __device__ static std::uint32_t signs_and_digits(const loaded& v, int first) {
    const auto pair = [&](int k) {
      const std::uint32_t two = v.x[k] | v.x[k + 1] << 16;
      return (two & 0x007f007fu) | (two >> 8 & 0x00800080u);
    };
    return __byte_perm(pair(first), pair(first + 2), 0x6420);
  }

  /// The codes of a batch, in whole words: a lane writes one, of what it and lanes behind it have.
  __device__ void put_codes(int lane, std::byte* to, std::uint32_t dense, int here) const {
    const int of_lane = each * code_bits_;  // bits
    const int bit = 32 * lane, first = bit / of_lane;
    std::uint32_t word = 0;
    for (int k = 0; k * of_lane < 32 + of_lane; ++k) {
      const std::uint32_t codes = tell_group<Lanes>(dense, (first + k) % Lanes);
      const int at = (first + k) * of_lane - bit;
      if (first + k < Lanes && at < 32) word |= at < 0 ? codes >> -at : codes << at;
    }
    if (bit < here * code_bits_) reinterpret_cast<std::uint32_t*>(to)[lane] = word;
  }

  /// Writes fields of so many bits side by side, from a multiple of 4 bytes on; zeros fill the last
  /// word.
  __device__ static void put_fields(int lane, std::byte* to, const std::uint32_t* fields, int count,
                                    int bits) {
    if (bits == 0) return;
    auto* words = reinterpret_cast<std::uint32_t*>(to);
    for (int w = lane; w * 32 < count * bits; w += Lanes) {
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
  __device__ static void finish(int lane, std::byte* slot, const exponent_parts& at, int nexts,
                                int bytes, const warp_shared& own) {
    auto* words = reinterpret_cast<std::uint32_t*>(slot + at.nexts);
    const int next_bytes = (3 * nexts + 7) >> 3;
    for (int w = lane; w < next_bytes >> 2; w += Lanes) words[w] = own.nexts[w];
    for (int b = (next_bytes & ~3) + lane; b < next_bytes; b += Lanes) {
      slot[at.nexts + b] = static_cast<std::byte>(own.nexts[b >> 2] >> (8 * (b & 3)));
    }
    clear_bytes<Lanes>(lane, slot, at.nexts + next_bytes, at.exponents_end - bytes);
    if (lane == 0) slot[at.exponents_end] = std::byte{0};
    sync();
  }

  const std::uint8_t* base_;
  int slot_bytes_, code_bits_, shift_ = 0, kept_bits_ = 0, runs_ = 0;
  std::uint32_t exponents_ = 0, constant_mask_ = 0, constant_value_ = 0;
  bit_run<std::uint32_t> run_[most_kept_runs];
  std::uint8_t usual_[7], next_[7];
};

}  // namespace quipu::detail
