// SPDX-License-Identifier: Apache-2.0
#include "quipu/pack/packing.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/checksum.hpp"
#include "quipu/pack/detail/exponent_record.hpp"

namespace quipu {

namespace {

constexpr std::uint32_t magic = 0x6b617071;  // "qpak"
constexpr std::uint32_t version = 1;
constexpr std::int64_t widest = std::int64_t{1} << 40;

status wrong(const char* message) { return failure(status_code::invalid_argument, message); }

bool is_element(std::int32_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

std::int32_t bytes_of(number_format f, std::int32_t otherwise) {
  return f == number_format::bits ? otherwise : f == number_format::float32 ? 4 : 2;
}

status check_exponent(const packing& p) {
  const auto& e = p.exponent;
  if (p.format == number_format::bits) return wrong("packing: only floats have exponents");
  if (e.code_bits != 2 && e.code_bits != 3) return wrong("packing: code_bits is neither 2 nor 3");
  if (!e.base.empty() && static_cast<std::int64_t>(e.base.size()) != p.width) {
    return wrong("packing: base is not as long as a row");
  }
  const auto field = detail::exponent_field_of(p.format);
  const auto exponents = low_bits<std::uint32_t>(field.bits);
  const auto element = low_bits<std::uint32_t>(8 * p.element_bytes);
  if ((e.constant_mask & ~element) != 0 || (e.constant_mask & exponents << field.shift) != 0 ||
      (e.constant_value & ~e.constant_mask) != 0) {
    return wrong("packing: constant bits lie outside what the exponent leaves");
  }
  for (const auto& codes : {e.usual, e.next}) {
    for (const auto symbol : codes) {
      if (symbol > exponents) return wrong("packing: a code stands for no exponent");
    }
  }
  return success();
}

status check_invariant(const packing& p) {
  const auto& v = p.invariant;
  if (!is_element(v.unit_bytes)) return wrong("packing: unit_bytes is not 1, 2, 4 or 8");
  if (v.clusters < 1 || v.clusters > 255) return wrong("packing: clusters are not 1 to 255");
  const auto bytes = static_cast<std::size_t>(v.clusters * p.width * p.element_bytes);
  if (v.mask.size() != bytes || v.value.size() != bytes) {
    return wrong("packing: mask or value is not [clusters, row bytes]");
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    if ((v.value[i] & ~v.mask[i]) != std::byte{0}) return wrong("packing: value outside its mask");
  }
  return success();
}

/// Little-endian numbers one behind the other.
class byte_writer {
 public:
  template <class Number>
  void put(Number n) {
    const auto raw = std::bit_cast<std::array<std::byte, sizeof n>>(n);
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
  template <class Range>
  void put_all(const Range& range) {
    put(static_cast<std::uint64_t>(range.size()));
    for (const auto b : range) bytes.push_back(static_cast<std::byte>(b));
  }
  std::vector<std::byte> bytes;
};

class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> bytes) : left_(bytes) {}
  template <class Number>
  void get(Number& n) {
    if (left_.size() < sizeof n) {
      sound_ = false;
      return;
    }
    std::memcpy(&n, left_.data(), sizeof n);
    left_ = left_.subspan(sizeof n);
  }
  template <class Vector>
  void get_all(Vector& v) {
    std::uint64_t size = 0;
    get(size);
    if (size > left_.size()) sound_ = false;
    if (!sound_) return;
    for (const auto b : left_.first(size)) {
      v.push_back(static_cast<typename Vector::value_type>(b));
    }
    left_ = left_.subspan(size);
  }
  bool is_done() const { return sound_ && left_.empty(); }

 private:
  std::span<const std::byte> left_;
  bool sound_ = true;
};

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

/// Every field in order, for writing and for reading alike.
template <class Packing, class One, class All>
void for_each_field(Packing& p, const One& one, const All& all) {
  one(p.how);
  one(p.format);
  one(p.element_bytes);
  one(p.width);
  one(p.slot_bytes);
  one(p.granule);
  one(p.invariant.unit_bytes);
  one(p.invariant.clusters);
  one(p.exponent.code_bits);
  one(p.exponent.constant_mask);
  one(p.exponent.constant_value);
  one(p.exponent.usual);
  one(p.exponent.next);
  one(p.sparse.fill);
  one(p.sparse.unit);
  all(p.invariant.mask);
  all(p.invariant.value);
  all(p.exponent.base);
}

}  // namespace

const char* name_of(codec how) noexcept {
  constexpr const char* names[] = {"raw", "invariant", "exponent", "sparse"};
  return names[static_cast<std::size_t>(how)];
}

std::int32_t least_granule(const packing& p) noexcept {
  return p.how == codec::sparse ? std::min(4, p.element_bytes) : 1;
}

packing raw_packing(const table_view& like) {
  packing p;
  p.format = like.format;
  p.element_bytes = like.element_bytes;
  p.width = like.width;
  p.slot_bytes = record_shape(like.width).elements * like.element_bytes;
  return p;
}

status validate(const packing& p) {
  if (p.how > codec::sparse) return wrong("packing: no such codec");
  if (p.format > number_format::float32) return wrong("packing: no such number format");
  if (!is_element(p.element_bytes)) return wrong("packing: element_bytes is not 1, 2, 4 or 8");
  if (bytes_of(p.format, p.element_bytes) != p.element_bytes) {
    return wrong("packing: element_bytes does not fit the number format");
  }
  if (p.width < 0 || p.width > widest) return wrong("packing: width is negative or beyond 2^40");
  const auto record = record_shape(p.width).elements * p.element_bytes;
  if (p.how == codec::raw && p.slot_bytes != record) {
    return wrong("packing: slot_bytes is not a record's size");
  }
  if (p.how == codec::exponent &&
      (p.slot_bytes < 8 || p.slot_bytes % 8 != 0 || p.slot_bytes > detail::round_up(record, 32))) {
    return wrong("packing: slot_bytes is no multiple of 8 that suits a record");
  }
  if (!p.has_slots() &&
      (p.granule < least_granule(p) || !std::has_single_bit(static_cast<unsigned>(p.granule)))) {
    return wrong("packing: granule is no power of two that suits the codec");
  }
  if (p.how == codec::exponent) return check_exponent(p);
  if (p.how == codec::invariant) return check_invariant(p);
  return success();
}

std::vector<std::byte> serialise(const packing& p) {
  byte_writer out;
  out.put(magic);
  out.put(version);
  for_each_field(
      p, [&](const auto& field) { out.put(field); },
      [&](const auto& bytes) { out.put_all(bytes); });
  out.put(checksum(out.bytes));
  return std::move(out.bytes);
}

result<packing> parse_packing(std::span<const std::byte> bytes) {
  const auto malformed = [](const char* message) {
    return failure(status_code::parse_error, message, 0);
  };
  std::uint32_t head[2] = {}, sum = 0;
  if (bytes.size() < sizeof head + sizeof sum) return malformed("packing: too short");
  std::memcpy(head, bytes.data(), sizeof head);
  if (head[0] != magic) return malformed("packing: not one");
  if (head[1] != version) {
    return failure(status_code::unsupported, "packing: of another version", -1, version, head[1]);
  }
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
  const auto body = bytes.first(bytes.size() - sizeof sum);
  if (sum != checksum(body)) return malformed("packing: checksum does not match");
  packing p;
  byte_reader in(body.subspan(sizeof head));
  for_each_field(
      p, [&](auto& field) { in.get(field); }, [&](auto& all) { in.get_all(all); });
  if (!in.is_done()) return malformed("packing: its parts do not add up");
  if (auto s = validate(p); !s.ok()) return malformed(s.message);
  return p;
}

}  // namespace quipu
