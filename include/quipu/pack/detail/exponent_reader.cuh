// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/exponent_record.hpp"

namespace quipu {

/// codec::exponent. `Kept` bits of an element are neither exponent nor constant, in at most two
/// runs: its sign and its mantissa, or the upper bits of that; 8 of two bytes are those of bf16. 0:
/// any number in any runs. `Batch` vectors a lane are read at a time.
template <class Word, int CodeBits, int Kept, int Lanes, int Batch>
class exponent_reader {
  static constexpr int each = elements_of_lane<Word>;
  static_assert(Batch == 1 || Batch == 2);
  static constexpr int step = Batch * Lanes * each;
  static constexpr bool is_long = Lanes == 32;  // records may have several batches
  static constexpr int escape = (1 << CodeBits) - 1;

 public:
  using residence = detail::reader_residence<codec::exponent, each, Lanes>;
  explicit exponent_reader(const packed_view& v, const detail::stage_window& stage = {})
      : rows_(v, stage), base_(nullptr) {
    const auto& p = *v.how;
    const auto field = detail::exponent_field_of(p.format);
    shift_ = field.shift;
    exponents_ = low_bits<std::uint32_t>(field.bits) * 0x01010101u;
    constant_ = p.exponent.constant_value;
    auto kept = detail::kept_mask(p);
    kept_bits_ = std::popcount(kept);
    runs_ = 0;
    for (int taken = 0; kept != 0; ++runs_) run_[runs_] = take_run(kept, taken);
    for (int k = 0; k < escape; ++k) usual_.set(k, p.exponent.usual[static_cast<std::size_t>(k)]);
    for (int k = 0; k < 7; ++k) next_.set(k, p.exponent.next[static_cast<std::size_t>(k)]);
    if (!p.exponent.base.empty()) base_ = reinterpret_cast<const std::uint8_t*>(v.columns);
  }

  template <class Sink>
  __device__ bool read(int lane, std::int64_t row, int part, const Sink& sink) const {
    record r{rows_.slot(row, part), part, rows_.count(part), kept_bits(), rows_.slot_bytes};
    if (!r.fits(0, 0)) r.count = 0;
    const std::uint32_t touched = touch_short(lane, r);
    std::uint32_t window = load_window(lane, r);
    int from = 0;
    const int whole = r.count & ~(step - 1);
    loaded next;
    if (whole > 0) next = load<true>(lane, r, 0);
    // Of short records the tag is waited for together with the rest, or other loads would begin
    // after it came.
    const std::uint32_t tag =
        __ldg(reinterpret_cast<const std::uint8_t*>(r.slot) + r.exponents_end);
    const std::uint32_t rest = rows_.after(is_long ? touched : touched ^ next.codes[0]);
    if ((tag | rest) == static_cast<std::uint32_t>(detail::overflow_tag)) {
      return read_overflow(lane, r.slot, rows_.count(part), sink);
    }
    if (r.count == 0) return false;
    for (; from < whole; from += step) {
      const auto now = next;
      if (is_long && from + step < whole) next = load<true>(lane, r, from + step);
      read_batch<true>(lane, r, from, now, window, sink);
      if (!is_long) return r.sound && r.fits(r.nexts_seen, r.bytes_seen);
    }
    if (from < r.count) read_batch<false>(lane, r, from, load<false>(lane, r, from), window, sink);
    return r.sound && r.fits(r.nexts_seen, r.bytes_seen);
  }

 private:
  /// A record, and what was seen of it.
  struct record : detail::exponent_parts {
    const std::byte* slot;
    int part, count;
    int nexts_seen = 0, bytes_seen = 0;
    bool sound = true;
    __device__ record(const std::byte* s, int p, int c, int kept, int slot_bytes)
        : detail::exponent_parts(c, kept, CodeBits, slot_bytes), slot(s), part(p), count(c) {}
  };

  /// Words that the kept bits of a vector fill, and one more where they begin in the midst of one.
  static constexpr int vector_bits = Kept > 0 ? int{Kept} * each : 96 - 1;  // the latter at most
  static constexpr bool whole_words = vector_bits % 32 == 0;
  static constexpr int dense_words = (vector_bits + 31) / 32;
  static constexpr int kept_words = dense_words + (whole_words ? 0 : 1);
  static constexpr int halves = each > 4 ? 2 : 1;  // words of four exponents, a byte each
  /// What the elements of a lane are made of, `Batch` times `each` of them.
  struct loaded {
    std::uint32_t codes[Batch] = {};
    std::uint32_t kept[Batch][kept_words] = {};
  };
  struct exponent_bytes {
    std::uint32_t of[halves];
  };

  __device__ std::uint32_t touch_short(int lane, const record& r) const {
    if (!rows_.over_link) return 0;
    const int bytes = min(rows_.slot_bytes, int{detail::link_tuning::asked_of_slot});
    return detail::touch<Lanes>(lane, r.slot, bytes, rows_.bytes + rows_.byte_count);
  }

  __device__ int kept_bits() const { return Kept > 0 ? Kept : kept_bits_; }
  __device__ static std::uint32_t low_bits_of(int count) {
    return count >= 32 ? ~0u : (1u << count) - 1;
  }

  /// `Whole`: all lanes have all elements.
  template <bool Whole>
  __device__ loaded load(int lane, const record& r, int from) const {
    loaded l;
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      const int i = from + (b * Lanes + lane) * each;
      if (!Whole && i >= r.count) break;
      l.codes[b] = detail::bits_at(r.slot + r.codes, static_cast<std::uint32_t>(i * CodeBits),
                                   each * CodeBits);
      if constexpr (Kept == 8 && each == 8) {
        const auto pair = __ldg(reinterpret_cast<const uint2*>(r.slot + i));
        l.kept[b][0] = pair.x;
        l.kept[b][1] = pair.y;
      } else {
        load_kept(r.slot, i, Whole || r.count - i > each ? each : r.count - i, l.kept[b]);
      }
    }
    return l;
  }

  /// The words that have kept bits of `here` elements.
  __device__ void load_kept(const std::byte* slot, int i, int here,
                            std::uint32_t (&kept)[kept_words]) const {
    const auto bit = static_cast<unsigned>(i * kept_bits());
    const auto bits = shift_of(bit) + static_cast<unsigned>(here * kept_bits());
#pragma unroll
    for (unsigned w = 0; w < kept_words; ++w) {
      if (32 * w < bits) kept[w] = detail::word_at(slot, bit / 32 + w);
    }
  }
  __device__ static unsigned shift_of(unsigned bit) { return whole_words ? 0 : bit % 32; }

  template <bool Whole, class Sink>
  __device__ void read_batch(int lane, record& r, int from, const loaded& l, std::uint32_t& window,
                             const Sink& sink) const {
    exponent_bytes exponents[Batch];
    find_exponents<Whole>(lane, r, from, l, window, exponents);
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      const int i = from + (b * Lanes + lane) * each;
      const int here = Whole || r.count - i > each ? each : r.count - i;
      if (here <= 0) break;
      Word elements[each];
      compose(i, exponents[b], l.kept[b], elements);
      sink.put(i, here, elements);
    }
  }

  template <class Sink>
  __device__ bool read_overflow(int lane, const std::byte* slot, int count,
                                const Sink& sink) const {
    const auto from = rows_.overflow + std::int64_t{detail::word_at(slot, 0)} * rows_.record_bytes;
    if (from + count * static_cast<std::int64_t>(sizeof(Word)) > rows_.byte_count) return false;
    detail::read_whole<Word, Lanes>(lane, rows_.bytes + from, count, sink);
    return true;
  }

  /// The words with the next codes that come, one a lane: as many as most batches want.
  __device__ std::uint32_t load_window(int lane, const record& r) const {
    const int from = r.nexts + ((r.nexts_seen * 3 >> 5) + lane) * 4;
    return r.count > 0 && from <= r.exponents_end
               ? detail::word_at(r.slot, static_cast<std::uint32_t>(from / 4))
               : 0;
  }

  /// Codes, four bits apart.
  __device__ static std::uint32_t spread(std::uint32_t codes) {
    if constexpr (CodeBits == 3) {
      std::uint32_t x = codes & 0xfffu;
      if constexpr (each > 4) x |= (codes & 0xfff000u) << 4;
      x = (x & 0x003f003fu) | (x & 0x0fc00fc0u) << 2;
      return (x & 0x07070707u) | (x & 0x38383838u) << 1;
    } else {
      std::uint32_t x = codes & 0xffu;
      if constexpr (each > 4) x |= (codes & 0xff00u) << 8;
      x = (x & 0x000f000fu) | (x & 0x00f000f0u) << 4;
      return (x & 0x03030303u) | (x & 0x0c0c0c0cu) << 2;
    }
  }

  template <bool Whole>
  __device__ void find_exponents(int lane, record& r, int from, const loaded& l,
                                 std::uint32_t& window, exponent_bytes (&symbols)[Batch]) const {
    std::uint32_t escaped[Batch];
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      std::uint32_t codes = spread(l.codes[b]);
      if constexpr (!Whole) {
        const int left = r.count - from - (b * Lanes + lane) * each;
        codes &= low_bits_of(left < 0 ? 0 : 4 * left);
      }
#pragma unroll
      for (int h = 0; h < halves; ++h) {
        symbols[b].of[h] = __byte_perm(usual_.low, usual_.high, codes >> (16 * h));
      }
      escaped[b] = codes & codes >> 1 & 0x11111111u;
      if constexpr (CodeBits == 3) escaped[b] &= codes >> 2;
    }
    if (find_escaped(lane, r, from, escaped, window, symbols) && is_long && from + step < r.count) {
      window = load_window(lane, r);
    }
    if (base_ == nullptr) return;
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      const int i = from + (b * Lanes + lane) * each;
      if (Whole || i < r.count) add_base(r.part, i, symbols[b]);
    }
  }

  /// Adds the symbols of escaped elements; tells whether there are any.
  __device__ bool find_escaped(int lane, record& r, int from, const std::uint32_t (&escaped)[Batch],
                               std::uint32_t window, exponent_bytes (&symbols)[Batch]) const {
    int counts[Batch];
#pragma unroll
    for (int b = 0; b < Batch; ++b) counts[b] = __popc(escaped[b]);
    const detail::batch_counts<Lanes, Batch> nexts(lane, counts);
    if (nexts.none()) return false;
    const int seen = r.nexts_seen;
    r.nexts_seen += nexts.all();
    if (!r.fits(r.nexts_seen, 0)) {
      r.sound = false;
      return true;
    }
    const std::uint32_t window_bit = 3u * static_cast<unsigned>(seen) / 32 * 32;
    const bool in_window = 3u * static_cast<unsigned>(r.nexts_seen) - window_bit <= 32u * Lanes;
    std::uint32_t codes[Batch], unusual[Batch], any = 0;
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      const std::uint32_t bit = 3u * static_cast<unsigned>(seen + nexts.before(b));
      if (in_window) {
        const int word = static_cast<int>((bit - window_bit) / 32);
        const std::uint32_t low = tell_group<Lanes>(window, word);
        const std::uint32_t high = tell_group<Lanes>(window, word + 1);
        codes[b] = __funnelshift_r(low, high, bit);
      } else {
        codes[b] =
            escaped[b] == 0 ? 0 : detail::bits_at(r.slot + r.nexts, bit, 3 * __popc(escaped[b]));
      }
    }
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      unusual[b] = add_nexts(escaped[b], codes[b], symbols[b]);
      any |= unusual[b];
    }
    if (!any_of_group<Lanes>(any != 0)) return true;
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      add_exponents(lane, r, from + (b * Lanes + lane) * each, unusual[b], symbols[b]);
    }
    return true;
  }

  /// Byte `place / 4` becomes `symbol`; it was 0.
  __device__ static void set_byte(exponent_bytes& symbols, int place, std::uint32_t symbol) {
    if constexpr (halves == 1) {
      symbols.of[0] |= symbol << (2 * place);
    } else {
      // Shifts by 32 and more leave nothing.
      const auto shift = static_cast<std::uint32_t>(2 * place);
      symbols.of[0] |= __funnelshift_lc(0u, symbol, shift);
      symbols.of[1] |= shift < 32 ? 0u : symbol << (shift - 32);
    }
  }

  /// Adds the symbols that next codes stand for; returns which elements have another exponent.
  __device__ std::uint32_t add_nexts(std::uint32_t escaped, std::uint32_t codes,
                                     exponent_bytes& symbols) const {
    std::uint32_t unusual = 0;
    for (; escaped != 0; escaped &= escaped - 1, codes >>= 3) {
      const int place = __ffs(static_cast<int>(escaped)) - 1;
      if ((codes & 7) == 7) unusual |= 1u << place;
      set_byte(symbols, place, __byte_perm(next_.low, next_.high, codes & 7) & 0xff);
    }
    return unusual;
  }

  /// Adds the exponents that stand at the end of the slot, less the bases that are added later.
  __device__ void add_exponents(int lane, record& r, int i, std::uint32_t unusual,
                                exponent_bytes& symbols) const {
    int all;
    int taken = r.bytes_seen + detail::sum_before<Lanes>(__popc(unusual), lane, all);
    r.bytes_seen += all;
    for (; unusual != 0; unusual &= unusual - 1) {
      const int place = __ffs(static_cast<int>(unusual)) - 1;
      const int from = r.exponents_end - 1 - taken++;
      if (from < r.nexts) {
        r.sound = false;
        break;
      }
      std::uint32_t symbol = static_cast<std::uint32_t>(r.slot[from]);
      if (base_ != nullptr) symbol -= base_[std::int64_t{r.part} * rows_.elements + i + place / 4];
      set_byte(symbols, place, symbol & exponents_ & 0xff);
    }
  }

  /// Byte by byte, modulo the number of exponents; the array of bases is padded to whole vectors.
  __device__ void add_base(int part, int i, exponent_bytes& symbols) const {
    const auto* base =
        reinterpret_cast<const std::uint32_t*>(base_ + std::int64_t{part} * rows_.elements + i);
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      symbols.of[h] = __vadd4(symbols.of[h], __ldg(base + h)) & exponents_;
    }
  }

  __device__ void compose(int i, const exponent_bytes& exponents,
                          const std::uint32_t (&kept)[kept_words], Word (&elements)[each]) const {
    if constexpr (Kept == 8 && each == 8) {
      // Bytes of sign and mantissa, four at a time: the high bytes of bf16, then the low ones.
      std::uint32_t pairs[4];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const std::uint32_t e = exponents.of[h];
        const std::uint32_t upper = (kept[h] & 0x80808080u) | (e >> 1 & 0x7f7f7f7fu);
        const std::uint32_t lower = (kept[h] & 0x7f7f7f7fu) | (e << 7 & 0x80808080u);
        pairs[2 * h] = __byte_perm(lower, upper, 0x5140);
        pairs[2 * h + 1] = __byte_perm(lower, upper, 0x7362);
      }
      memcpy(elements, pairs, sizeof pairs);
      return;
    }
    std::uint32_t dense[dense_words + 1] = {};
#pragma unroll
    for (int w = 0; w < dense_words; ++w) {
      dense[w] = whole_words ? kept[w]
                             : __funnelshift_r(kept[w], kept[w + 1],
                                               shift_of(static_cast<unsigned>(i * kept_bits())));
    }
#pragma unroll
    for (int k = 0; k < each; ++k) {
      const std::uint32_t e = exponents.of[k / 4] >> (8 * (k % 4)) & 0xffu;
      elements[k] = static_cast<Word>(constant_ | e << shift_ | deposit(dense, k));
    }
  }

  /// The kept bits of a lane's element k, where they belong; any others are in no run.
  __device__ std::uint32_t deposit(std::uint32_t (&dense)[dense_words + 1], int k) const {
    if constexpr (Kept > 0) {
      const int bit = k * Kept;
      const auto x = __funnelshift_r(dense[bit / 32], dense[bit / 32 + 1], bit % 32);
      return (x << run_[0].gap & run_[0].mask) | (x << run_[1].gap & run_[1].mask);
    } else {
      std::uint32_t x = 0;
      for (int run = 0; run < runs_; ++run) x |= dense[0] << run_[run].gap & run_[run].mask;
#pragma unroll
      for (int w = 0; w < dense_words; ++w) {
        dense[w] = __funnelshift_r(dense[w], dense[w + 1], static_cast<unsigned>(kept_bits_));
      }
      return x;
    }
  }

  /// Symbols of codes 0 to 7, a byte each.
  struct code_book {
    std::uint32_t low = 0, high = 0;
    void set(int code, std::uint8_t symbol) {
      (code < 4 ? low : high) |= std::uint32_t{symbol} << (8 * (code % 4));
    }
  };

  detail::device_records rows_;
  const std::uint8_t* base_;
  code_book usual_, next_;
  std::uint32_t exponents_, constant_;
  int shift_, kept_bits_, runs_;
  bit_run<std::uint32_t> run_[detail::most_kept_runs];
};

}  // namespace quipu
