// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "file.hpp"

namespace quipu {

static_assert(std::endian::native == std::endian::little, "arrays are kept little-endian");

namespace {

using namespace io_detail;

constexpr std::size_t most_axes = 64;
constexpr std::string_view magic = "\x93NUMPY";

struct kind_name {
  const char* name;
  npy_kind kind;
};
constexpr kind_name kind_names[] = {
    {"f2", npy_kind::f2}, {"f4", npy_kind::f4}, {"f8", npy_kind::f8}, {"i1", npy_kind::i1},
    {"i2", npy_kind::i2}, {"i4", npy_kind::i4}, {"i8", npy_kind::i8}, {"u1", npy_kind::u1},
    {"u2", npy_kind::u2}, {"u4", npy_kind::u4}, {"u8", npy_kind::u8}, {"b1", npy_kind::b1}};

/// What a header says.
struct header {
  npy_kind kind = npy_kind::f4;
  bool big_endian = false;
  bool fortran = false;
  std::vector<std::int64_t> shape;
  std::size_t data_bytes = 0;
};

status malformed(const char* message) { return failure(status_code::parse_error, message, 0); }

status refuse_dtype(char letter) {
  const char* message = "the dtype is not a number type";
  switch (letter) {
    case 'c':
      message = "complex dtypes ('c') are not supported";
      break;
    case 'O':
      message = "the object dtype ('O', pickled Python objects) is not supported";
      break;
    case 'S':
    case 'a':
      message = "the byte string dtype ('S') is not supported";
      break;
    case 'U':
      message = "the string dtype ('U') is not supported";
      break;
    case 'V':
      message = "the raw dtype ('V') is not supported";
      break;
    case 'M':
    case 'm':
      message = "time dtypes ('M', 'm') are not supported";
      break;
    case 'f':
      message = "float dtypes ('f') have 2, 4 or 8 bytes here";
      break;
    case 'i':
    case 'u':
      message = "integer dtypes ('i', 'u') have 1, 2, 4 or 8 bytes";
      break;
    default:
      break;
  }
  return failure(status_code::unsupported, message);
}

status read_dtype(std::string_view text, header& h) {
  const char order = text.empty() ? '\0' : text[0];
  const bool has_order = std::string_view("<>|=").find(order) != std::string_view::npos;
  if (has_order) text.remove_prefix(1);
  for (const auto& known : kind_names) {
    if (text != known.name) continue;
    if (order == '|' && npy_item_bytes(known.kind) > 1) {
      return malformed("the dtype has no byte order ('|') but more than one byte");
    }
    h.kind = known.kind;
    h.big_endian = order == '>';
    return success();
  }
  return refuse_dtype(text.empty() ? '\0' : text[0]);
}

/// Reads the few Python literals that headers consist of.
class literal_reader {
 public:
  explicit literal_reader(std::string_view text) : text_(text) {}

  /// Next character that is not white space, 0 at the end; stays in place.
  char peek() {
    while (!text_.empty() && std::string_view(" \t\n\r").find(text_[0]) != std::string_view::npos) {
      text_.remove_prefix(1);
    }
    return text_.empty() ? '\0' : text_[0];
  }
  bool take(char c) {
    if (peek() != c || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    peek();
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool done() { return peek() == '\0' && text_.empty(); }

  /// 'text' or "text" without escapes.
  bool read_string(std::string_view& out) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const std::size_t length = text_.find(quote, 1);
    if (length == std::string_view::npos) return false;
    out = text_.substr(1, length - 1);
    text_.remove_prefix(length + 1);
    return out.find('\\') == std::string_view::npos;
  }

  /// A whole number as Python 3 or 2 ("3L") writes it.
  status read_axis(std::int64_t& out) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    if (peek() == '-') return malformed("the shape has a negative axis");
    std::size_t digits = 0;
    out = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
      const int digit = text_[digits] - '0';
      if (out > (most - digit) / 10) return malformed("an axis of the shape does not fit 64 bits");
      out = out * 10 + digit;
    }
    if (digits == 0) return malformed("the shape is not a tuple of whole numbers");
    text_.remove_prefix(digits);
    if (!text_.empty() && text_[0] == 'L') text_.remove_prefix(1);
    return success();
  }

 private:
  std::string_view text_;
};

status read_shape(literal_reader& in, std::vector<std::int64_t>& shape) {
  constexpr const char* not_a_tuple = "the shape is not a tuple of whole numbers";
  if (!in.take('(')) return malformed(not_a_tuple);
  bool comma = true;
  while (!in.take(')')) {
    if (!comma) return malformed(not_a_tuple);
    if (shape.size() == most_axes) return malformed("the shape has more than 64 axes");
    std::int64_t axis = 0;
    if (status s = in.read_axis(axis); !s.ok()) return s;
    shape.push_back(axis);
    comma = in.take(',');
  }
  // "(3)" is a number in Python, not a tuple.
  if (shape.size() == 1 && !comma) return malformed(not_a_tuple);
  return success();
}

status read_value(std::string_view key, literal_reader& in, header& h) {
  if (key == "shape") return read_shape(in, h.shape);
  if (key == "fortran_order") {
    h.fortran = in.take_word("True");
    if (h.fortran || in.take_word("False")) return success();
    return malformed("fortran_order is neither True nor False");
  }
  if (in.peek() == '[') {
    return failure(status_code::unsupported,
                   "structured dtypes (lists of fields) are not supported");
  }
  if (in.peek() == '(') {
    return failure(status_code::unsupported, "subarray dtypes are not supported");
  }
  std::string_view text;
  if (!in.read_string(text)) return malformed("the dtype (descr) is not a string");
  return read_dtype(text, h);
}

/// The dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
result<header> read_dictionary(std::string_view text) {
  constexpr std::array<std::string_view, 3> keys = {"descr", "fortran_order", "shape"};
  std::array<bool, 3> seen{};
  header h;
  literal_reader in(text);
  if (!in.take('{')) return malformed("the header is not a dictionary");
  bool comma = true;
  while (!in.take('}')) {
    std::string_view key;
    if (!comma || !in.read_string(key) || !in.take(':')) {
      return malformed("the header is not a dictionary");
    }
    const auto place =
        static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
    if (place == keys.size()) return malformed("the header has an unknown key");
    if (std::exchange(seen[place], true)) return malformed("the header has a key twice");
    if (status s = read_value(key, in, h); !s.ok()) return s;
    comma = in.take(',');
  }
  if (!in.done()) return malformed("the header goes on behind its dictionary");
  if (!seen[0] || !seen[1] || !seen[2]) {
    return malformed("the header lacks one of descr, fortran_order, shape");
  }
  return h;
}

/// Magic, version and length field; `text_bytes` of header text follow at `text_at`.
struct preamble {
  std::size_t text_at = 0;
  std::size_t text_bytes = 0;
};
constexpr std::size_t longest_preamble = 12;

/// `start` is the file's first bytes, all of them or at least 12; `total` the size of the file.
result<preamble> read_preamble(std::span<const std::byte> start, std::size_t total) {
  if (start.size() < magic.size() || std::memcmp(start.data(), magic.data(), magic.size()) != 0) {
    return malformed("not a .npy file: the magic bytes are missing");
  }
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(start[i]); };
  if (start.size() < 10) return malformed("the file ends inside its header");
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0) {
    return malformed("the .npy version is not 1.0, 2.0 or 3.0");
  }
  preamble p{10, byte(8) | byte(9) << 8};
  if (byte(6) > 1) {
    if (start.size() < longest_preamble) return malformed("the file ends inside its header");
    p = {12, p.text_bytes | byte(10) << 16 | byte(11) << 24};
  }
  if (p.text_bytes > total - p.text_at) return malformed("the file ends inside its header");
  return p;
}

/// Parses the header text and checks the shape against the bytes behind it.
result<header> read_header(std::string_view text, std::size_t bytes_behind) {
  auto h = read_dictionary(text);
  if (!h) return h;
  const std::int64_t count = npy_count(h->shape, h->kind);
  if (count < 0) return malformed("the shape describes more than 2^63 bytes");
  h->data_bytes = static_cast<std::size_t>(count) * npy_item_bytes(h->kind);
  if (h->data_bytes != bytes_behind) {
    return failure(
        status_code::parse_error,
        h->data_bytes > bytes_behind ? "the data is truncated: fewer bytes than the shape says"
                                     : "bytes are left behind the data that the shape describes",
        0, static_cast<std::int64_t>(h->data_bytes), static_cast<std::int64_t>(bytes_behind));
  }
  return h;
}

template <class Word>
void swap_bytes(std::vector<std::byte>& data) {
  for (std::size_t i = 0; i + sizeof(Word) <= data.size(); i += sizeof(Word)) {
    std::reverse(data.data() + i, data.data() + i + sizeof(Word));
  }
}

/// Copies one plane between the first axis, dense in Fortran order, and the last, dense in C order.
/// Tiles keep both sides in cache.
template <class Word>
void transpose_plane(const Word* in, Word* out, std::int64_t first, std::int64_t last,
                     std::int64_t in_stride, std::int64_t out_stride) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t i0 = 0; i0 < first; i0 += tile) {
    for (std::int64_t j0 = 0; j0 < last; j0 += tile) {
      for (std::int64_t i = i0; i < std::min(first, i0 + tile); ++i) {
        for (std::int64_t j = j0; j < std::min(last, j0 + tile); ++j) {
          out[i * out_stride + j] = in[i + j * in_stride];
        }
      }
    }
  }
}

/// Fortran order to C order, for two axes or more, none of them empty.
template <class Word>
void reorder(const Word* in, Word* out, const std::vector<std::int64_t>& shape) {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> in_stride(rank, 1), out_stride(rank, 1), index(rank, 0);
  for (std::size_t d = 1; d < rank; ++d) in_stride[d] = in_stride[d - 1] * shape[d - 1];
  for (std::size_t d = rank - 1; d > 0; --d) out_stride[d - 1] = out_stride[d] * shape[d];
  for (;;) {
    std::int64_t from = 0, to = 0;
    for (std::size_t d = 1; d + 1 < rank; ++d) {
      from += index[d] * in_stride[d];
      to += index[d] * out_stride[d];
    }
    transpose_plane(in + from, out + to, shape[0], shape[rank - 1], in_stride[rank - 1],
                    out_stride[0]);
    // Count through the axes between the first and the last.
    std::size_t d = rank - 2;
    while (d > 0 && ++index[d] == shape[d]) index[d--] = 0;
    if (d == 0 || rank == 2) return;
  }
}

template <class Word>
void bring_into_order(const header& h, std::vector<std::byte>& data) {
  if (h.big_endian && sizeof(Word) > 1) swap_bytes<Word>(data);
  const auto longer = std::count_if(h.shape.begin(), h.shape.end(), [](auto n) { return n > 1; });
  if (!h.fortran || longer < 2 || data.empty()) return;
  // Axes of one element change nothing about the order.
  std::vector<std::int64_t> shape;
  for (const std::int64_t n : h.shape) {
    if (n > 1) shape.push_back(n);
  }
  std::vector<std::byte> ordered(data.size());
  reorder(reinterpret_cast<const Word*>(data.data()), reinterpret_cast<Word*>(ordered.data()),
          shape);
  data.swap(ordered);
}

npy_array finish(header& h, std::vector<std::byte> data) {
  switch (npy_item_bytes(h.kind)) {
    case 1:
      bring_into_order<std::uint8_t>(h, data);
      break;
    case 2:
      bring_into_order<std::uint16_t>(h, data);
      break;
    case 4:
      bring_into_order<std::uint32_t>(h, data);
      break;
    default:
      bring_into_order<std::uint64_t>(h, data);
      break;
  }
  return {h.kind, std::move(h.shape), std::move(data)};
}

/// Reads a file of known size without holding its data twice.
result<npy_array> read_sized(input_file& file) {
  const std::size_t total = static_cast<std::size_t>(file.size());
  std::array<std::byte, longest_preamble> start{};
  const auto got = file.read(start.data(), std::min(start.size(), total));
  if (!got) return got.error();
  const auto p = read_preamble({start.data(), *got}, total);
  if (!p) return p.error();
  // Version 1 headers begin inside the bytes that have been read.
  std::string text(reinterpret_cast<const char*>(start.data()) + p->text_at, *got - p->text_at);
  if (text.size() > p->text_bytes) return malformed("the header is not a dictionary");
  const std::size_t begun = text.size();
  text.resize(p->text_bytes);
  const auto rest = file.read(text.data() + begun, text.size() - begun);
  if (!rest) return rest.error();
  if (*rest != text.size() - begun) return malformed("the file ends inside its header");
  auto h = read_header(text, total - p->text_at - p->text_bytes);
  if (!h) return h.error();
  std::vector<std::byte> data(h->data_bytes);
  const auto body = file.read(data.data(), data.size());
  if (!body) return body.error();
  if (*body != data.size()) return malformed("the file became shorter while it was read");
  return finish(*h, std::move(data));
}

std::string header_text(npy_kind kind, std::span<const std::int64_t> shape) {
  std::string text = "{'descr': '";
  text += npy_item_bytes(kind) == 1 ? '|' : '<';
  for (const auto& known : kind_names) {
    if (known.kind == kind) text += known.name;
  }
  text += "', 'fortran_order': False, 'shape': (";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(shape[d]);
  }
  text += shape.size() == 1 ? ",), }" : "), }";
  constexpr std::size_t preamble_bytes = 10, alignment = 64;
  const std::size_t unpadded = preamble_bytes + text.size() + 1;
  text.append((alignment - unpadded % alignment) % alignment, ' ');
  return text += '\n';
}

}  // namespace

std::int64_t npy_count(std::span<const std::int64_t> shape, npy_kind kind) noexcept {
  if (shape.size() > most_axes) return -1;
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  const std::int64_t most =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(npy_item_bytes(kind));
  std::int64_t count = 1;
  for (const std::int64_t axis : shape) {
    if (axis < 0) return -1;
    if (is_empty) continue;
    if (axis > most / count) return -1;
    count *= axis;
  }
  return is_empty ? 0 : count;
}

result<npy_array> parse_npy(std::span<const std::byte> bytes) {
  return catch_out_of_memory([&]() -> result<npy_array> {
    const auto p = read_preamble(bytes, bytes.size());
    if (!p) return p.error();
    const auto text = bytes.subspan(p->text_at, p->text_bytes);
    const auto body = bytes.subspan(p->text_at + p->text_bytes);
    auto h = read_header({reinterpret_cast<const char*>(text.data()), text.size()}, body.size());
    if (!h) return h.error();
    return finish(*h, std::vector<std::byte>(body.begin(), body.end()));
  });
}

result<npy_array> read_npy(const std::filesystem::path& path) {
  return catch_out_of_memory([&]() -> result<npy_array> {
    auto file = input_file::open(path);
    if (!file) return file.error();
    if (file->size() >= 0) return read_sized(*file);
    const auto content = load(*file);
    if (!content) return content.error();
    return parse_npy(std::as_bytes(std::span(content->data.get(), content->size)));
  });
}

status write_npy(const std::filesystem::path& path, npy_kind kind,
                 std::span<const std::int64_t> shape, const void* data) {
  const std::int64_t count = npy_count(shape, kind);
  if (count < 0) return failure(status_code::invalid_argument, "shape is negative or too large");
  if (count > 0 && data == nullptr) {
    return failure(status_code::invalid_argument, "data must not be null");
  }
  return catch_out_of_memory([&]() -> status {
    auto file = output_file::create(path);
    if (!file) return file.error();
    const std::string text = header_text(kind, shape);
    std::string start(magic);
    start += {'\x01', '\x00', static_cast<char>(text.size() & 0xff),
              static_cast<char>(text.size() >> 8)};
    start += text;
    if (status s = file->write(start.data(), start.size()); !s.ok()) return s;
    const std::size_t bytes = static_cast<std::size_t>(count) * npy_item_bytes(kind);
    if (status s = file->write(data, bytes); !s.ok()) return s;
    return file->commit();
  });
}

status write_npy(const std::filesystem::path& path, const npy_array& array) {
  const std::int64_t count = npy_count(array.shape, array.kind);
  if (count >= 0 &&
      static_cast<std::size_t>(count) * npy_item_bytes(array.kind) != array.data.size()) {
    return failure(status_code::invalid_argument, "array.data does not match array.shape");
  }
  return write_npy(path, array.kind, array.shape, array.data.data());
}

}  // namespace quipu
