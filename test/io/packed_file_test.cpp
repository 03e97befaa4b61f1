// SPDX-License-Identifier: Apache-2.0
#include "quipu/io/packed_file.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "case_files.hpp"
#include "pack/tables.hpp"
#include "packed_seal.hpp"

using namespace quipu;
using namespace quipu_test;

namespace {

const host_context two{2};

stored_table rows_of(const stored_table& t, std::int64_t first, std::int64_t count) {
  stored_table some = t;
  some.rows = count;
  const auto begin = t.bytes.begin() + first * t.row_bytes();
  some.bytes.assign(begin, begin + count * t.row_bytes());
  return some;
}

std::vector<std::byte> unpacked(packed_table& packed, const stored_table& like) {
  auto out = like.poisoned(packed.rows());
  check(unpack(two, {packed.view(), out.view(), 0}));
  return out.bytes;
}

/// Ranges of rows that touch the beginning, the end, both and neither.
std::vector<std::pair<std::int64_t, std::int64_t>> ranges_of(std::int64_t rows) {
  return {{0, 0}, {0, rows}, {rows, 0}, {rows / 3, rows / 2}, {0, 1}, {rows - 1, 1}};
}

/// What is in the file is the table, in whole and in part.
void check_file(const std::filesystem::path& path, const stored_table& t, packed_table& packed) {
  check(write_packed(path, packed.view(), "a note"));
  auto whole = check(read_packed(path));
  CHECK(serialise(whole.how()) == serialise(packed.how()));
  CHECK(bytes_of(whole) == bytes_of(packed));
  CHECK(whole.view().byte_count == (*packed.view().used + 3) / 4 * 4);
  const auto file = check(packed_file::open(path));
  CHECK(file.rows() == t.rows);
  CHECK(file.note() == "a note");
  for (const auto& [first, count] : ranges_of(t.rows)) {
    auto some = check(file.read_rows(first, count));
    CHECK(some.rows() == count);
    CHECK(unpacked(some, t) == rows_of(t, first, count).bytes);
  }
}

status open_and_read(const std::filesystem::path& path) {
  const auto file = packed_file::open(path);
  return file ? file->read().error() : file.error();
}

void check_refused(const status& s, const std::string& message,
                   status_code code = status_code::parse_error) {
  CHECK(s.code == code);
  CHECK(std::string(s.message) == message);
  if (code == status_code::parse_error) CHECK(s.position == 0);
}

/// Three rows of bfloat16, the last of which does not fit its slot.
packed_table small_exponent_table() {
  packing p;
  p.how = codec::exponent;
  p.format = number_format::bfloat16;
  p.element_bytes = 2;
  p.width = 8;
  p.slot_bytes = 16;
  p.exponent.usual = {127, 126, 125, 124, 123, 122, 121};
  p.exponent.next = {120, 119, 118, 117, 116, 115, 114};
  const auto t = make_table(3, 8, 2, number_format::bfloat16, [](std::int64_t i) {
    return i < 16 ? bfloat_bits(1.0f + static_cast<float>(i) / 16) : 0x100 * i;
  });
  return pack_all(t, p);
}

stored_table mostly_zeros(std::int64_t rows) {
  return make_table(rows, 6, 4, number_format::bits,
                    [](std::int64_t i) { return i % 4 == 1 ? i : 0; });
}

packed_table small_sparse_table() {
  packing p;
  p.how = codec::sparse;
  p.width = 6;
  return pack_all(mostly_zeros(5), p);
}

std::string hex(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const auto c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::string from_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t k = 0; k < text.size(); k += 2) {
    bytes += static_cast<char>(16 * digit(text[k]) + digit(text[k + 1]));
  }
  return bytes;
}

/// Refuses bytes, their checksums made right, with that message.
void check_sealed(std::string bytes, const char* message) {
  const temporary_folder folder;
  INFO(message);
  seal(bytes);
  put_file(folder / "t.qpk", bytes);
  const auto file = packed_file::open(folder / "t.qpk");
  check_refused(file ? file->read_rows(0, file->rows()).error() : file.error(), message);
}

template <class Number>
std::string with(std::string bytes, std::size_t at, Number number) {
  put_number(bytes, at, number);
  return bytes;
}

std::string content_of(packed_table packed) {
  const temporary_folder folder;
  check(write_packed(folder / "t.qpk", packed.view()));
  return file_content(folder / "t.qpk");
}

}  // namespace

TEST_CASE("a packed file gives back every packing, in whole and in part") {
  const temporary_folder folder;
  for (const std::int64_t width : {1, 17, 128, 257}) {
    for (const auto& [name, table] : many_tables(41, width)) {
      INFO(name << ", " << table.element_bytes << " bytes, " << width << " wide");
      for (const auto& p : packings_of(table)) {
        INFO(name_of(p.how));
        auto packed = pack_all(table, p);
        check_file(folder / "t.qpk", table, packed);
        // Part of a table is what that part alone packs to.
        auto some = check(check(packed_file::open(folder / "t.qpk")).read_rows(13, 20));
        auto alone = pack_all(rows_of(table, 13, 20), packed.how());
        CHECK(bytes_of(some) == bytes_of(alone));
      }
    }
  }
}

TEST_CASE("packed files hold rows of several records and tables without any") {
  const temporary_folder folder;
  for (const auto& [name, table] : many_tables(3, 12289)) {
    INFO(name << ", " << table.element_bytes << " bytes");
    for (const auto& p : packings_of(table)) {
      auto packed = pack_all(table, p);
      check_file(folder / "t.qpk", table, packed);
    }
  }
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{0, 8}, {8, 0}, {0, 0}}) {
    const auto table = make_table(rows, width, 4, number_format::float32, [](auto) { return 0; });
    for (const auto& p : packings_of(table)) {
      auto packed = pack_all(table, p);
      check(write_packed(folder / "t.qpk", packed.view()));
      const auto file = check(packed_file::open(folder / "t.qpk"));
      CHECK(file.rows() == rows);
      CHECK(file.note().empty());
      auto all = check(file.read_rows(0, rows));
      CHECK(bytes_of(all).empty());
      auto again = check(file.read());
      CHECK(again.rows() == rows);
    }
  }
}

TEST_CASE("rows that updates have moved are found in a packed file") {
  const temporary_folder folder;
  for (const auto& [name, table] : many_tables(37, 33)) {
    INFO(name << ", " << table.element_bytes << " bytes");
    for (const auto& p : packings_of(table)) {
      INFO(name_of(p.how));
      packed_options room;
      room.spare_rows = 37;
      room.growth = expansion::allow;
      auto packed = check(make_packed(two, table.view(), p, room));
      auto changed = table;
      std::mt19937_64 random(5);
      const std::vector<std::int32_t> ids{30, 3, 4, 17, 36, 0, 9};
      auto rows = table.poisoned(static_cast<std::int64_t>(ids.size()));
      for (auto& b : rows.bytes) b = static_cast<std::byte>(random());
      for (std::size_t k = 0; k < ids.size(); ++k) {
        const auto row = rows.row(static_cast<std::int64_t>(k));
        std::copy(row.begin(), row.end(), changed.bytes.begin() + ids[k] * table.row_bytes());
      }
      check(update_rows<std::int32_t>(
          two, {packed.view(), make_vector_view(ids.data(), 7), table_view(rows.view())}));
      check_file(folder / "t.qpk", changed, packed);
    }
  }
}

TEST_CASE("part of a packed file is read without the rest of it") {
  const temporary_folder folder;
  const std::int64_t rows = 70000;
  std::mt19937_64 random(11);
  const auto bits = make_table(rows, 32, 2, number_format::bfloat16, [&](std::int64_t i) {
    // Every hundredth row goes to the overflow area.
    return i / 32 % 100 == 0 ? random() : bfloat_bits(1.0f + static_cast<float>(i % 113) / 128);
  });
  for (const auto& p : packings_of(bits)) {
    INFO(name_of(p.how));
    auto packed = pack_all(bits, p);
    check(write_packed(folder / "t.qpk", packed.view()));
    auto bytes = file_content(folder / "t.qpk");
    const file_sections at(bytes);
    if (at.record_bytes < (2u << 20)) continue;
    bytes[at.records + (1 << 20) + 5] ^= 1;  // in the second block
    put_file(folder / "t.qpk", bytes);
    const auto file = check(packed_file::open(folder / "t.qpk"));
    check_refused(file.read().error(), "a block's checksum does not match");
    check_refused(file.read_rows(0, rows).error(), "a block's checksum does not match");
    auto first = check(file.read_rows(1, 99));
    CHECK(unpacked(first, bits) == rows_of(bits, 1, 99).bytes);
    std::int64_t broken = 0;
    for (std::int64_t row = 1; row + 99 <= rows; row += 100) {
      auto some = file.read_rows(row, 99);
      broken += !some.ok();
      if (some.ok() && row % 9 == 0) {
        CHECK(unpacked(*some, bits) == rows_of(bits, row, 99).bytes);
      }
    }
    const auto row_bytes = static_cast<double>(at.record_bytes) / static_cast<double>(rows);
    CHECK(broken > 0);
    CHECK(static_cast<double>(broken) < (1 << 20) / row_bytes / 100 * 1.2 + 3);
  }
}

TEST_CASE("a packed file that is damaged in any byte is refused") {
  const temporary_folder folder;
  const auto path = folder / "t.qpk";
  // A new file each time: file systems are slow to cut one that is there.
  const auto outcome_of = [&](const std::string& bytes) {
    std::filesystem::remove(path);
    put_file(path, bytes);
    return open_and_read(path);
  };
  for (const bool sparse : {false, true}) {
    auto packed = sparse ? small_sparse_table() : small_exponent_table();
    check(write_packed(path, packed.view(), "n"));
    const auto good = file_content(path);
    for (std::size_t k = 0; k < good.size(); ++k) {
      for (const int flip : {1 << k % 8, 0xff}) {
        auto bad = good;
        bad[k] = static_cast<char>(bad[k] ^ flip);
        const auto s = outcome_of(bad);
        if (s.ok()) FAIL("byte " << k << " was changed");
        const bool version = k >= 8 && k < 12;
        CHECK((s.code == status_code::parse_error || version));
      }
      CHECK(outcome_of(good.substr(0, k)).code == status_code::parse_error);
    }
    for (const std::size_t more : {1, 2, 63, 64, 65}) {
      for (const char c : {'\0', 'x'}) {
        check_refused(outcome_of(good + std::string(more, c)), "bytes are left behind the rows");
      }
    }
    CHECK(outcome_of(good).ok());
  }
}

TEST_CASE("addresses are not believed because their checksums are right") {
  auto good = content_of(small_sparse_table());
  const file_sections at(good);
  check_sealed(with(good, at.addresses + 4, 0), "packed: two records have one address");
  check_sealed(with(good, at.addresses + 4, 0x80000000u), "packed: two records have one address");
  check_sealed(with(good, at.addresses + 16, static_cast<std::uint32_t>(at.record_bytes / 4)),
               "packed: an address lies behind the records");
  const auto* other_count = "packed: addresses are not as many as records";
  check_sealed(with(good, 32, std::int64_t{6}), other_count);
  check_sealed(with(good, 32, std::int64_t{1} << 62), other_count);
  check_sealed(with(good, 32, std::int64_t{-5}), "packed: rows are negative");
  check_sealed(with(good, 32, std::int64_t{0}), "packed: addresses of records that have none");
  check_sealed(with(good, at.packing + 8, std::uint8_t{9}), "packing: no such codec");
  put_number(good, 16, std::int64_t{-1});
  put_number(good, 60, crc32c(good.data(), 60));
  check_sealed(good, "the header holds an impossible size");
  put_number(good, 16, std::int64_t{1} << 59);
  put_number(good, 60, crc32c(good.data(), 60));
  check_sealed(good, "the file is truncated: fewer bytes than its header says");
}

TEST_CASE("slots are not believed because their checksums are right") {
  const auto good = content_of(small_exponent_table());
  const file_sections at(good);
  REQUIRE(good[at.records + 47] == '\xff');
  check_sealed(with(good, at.records + 32, 1u), "a row lies behind the end");
  auto twice = with(good, at.records + 16, 0u);
  twice[at.records + 31] = '\xff';
  check_sealed(twice, "two rows lie in one place");
  check_sealed(with(good, 32, std::int64_t{5}), "packed: used ends before the last slot");
  check_sealed(with(good, 32, std::int64_t{1} << 62), "packed: used ends before the last slot");
  check_sealed(with(good, at.packing + 14, std::int64_t{9}),
               "packed: used does not end with a record");
}

TEST_CASE("files that are no packed files are told apart") {
  const temporary_folder folder;
  const auto path = folder / "t.qpk";
  const auto refuse = [&](const std::string& bytes, const char* message,
                          status_code code = status_code::parse_error) {
    put_file(path, bytes);
    check_refused(open_and_read(path), message, code);
  };
  auto packed = small_sparse_table();
  check(write_packed(path, packed.view()));
  auto later = file_content(path);
  put_number(later, 8, 2u);
  refuse(later, "a packed file of a later version", status_code::unsupported);
  put_number(later, 8, 0u);
  refuse(later, "the header's checksum does not match");
  refuse("\x93NUMPY and so on", "not a packed file");
  refuse("x", "not a packed file");
  refuse("\x93q", "the file ends inside its header");
  refuse("", "the file is empty");
  CHECK(open_and_read(folder / "none.qpk").code == status_code::io_error);
  CHECK(open_and_read("/dev/zero").code == status_code::unsupported);
  check(write_packed(path, packed.view()));
  const auto file = check(packed_file::open(path));
  for (const auto& [first, count] :
       {std::pair<std::int64_t, std::int64_t>{-1, 1}, {0, 6}, {5, 1}, {6, 0}, {0, -1}}) {
    CHECK(file.read_rows(first, count).error().code == status_code::out_of_range);
  }
  std::filesystem::resize_file(path, 200);
  check_refused(file.read().error(), "the file became shorter while it was read");
}

TEST_CASE("nothing is left of a packed file that could not be written") {
  const temporary_folder folder;
  const auto path = folder / "t.qpk";
  auto packed = small_sparse_table();
  const auto refuse = [&](const packed_view& v, const char* message, const std::string& note = {}) {
    check_refused(write_packed(path, v, note), message, status_code::invalid_argument);
  };
  const auto good = packed.view();
  auto v = good;
  v.how = nullptr;
  refuse(v, "packed: no packing");
  v = good, v.used = nullptr;
  refuse(v, "packed: used is null");
  v = good, v.byte_count = *v.used - 1;
  refuse(v, "packed: used is more than byte_count");
  v = good, v.rows = -1;
  refuse(v, "packed: rows are negative");
  refuse(good, "note: longer than 2^20 bytes", std::string((1 << 20) + 1, 'n'));
  std::vector<std::uint32_t> addresses(5, 0);
  v = good, v.addresses = addresses.data();
  refuse(v, "packed: two records have one address");
  {
    const file_size_limit full(300);
    CHECK(write_packed(path, good).code == status_code::io_error);
  }
  CHECK(folder.files() == 0);
  check(write_packed(path, good, std::string(1 << 20, 'n')));
  CHECK(check(packed_file::open(path)).note().size() == 1 << 20);
  CHECK(folder.files() == 1);
}

TEST_CASE("threads may read one packed file") {
  const temporary_folder folder;
  const auto table = mostly_zeros(20000);
  auto packed = pack_all(table, packings_of(table).back());
  check(write_packed(folder / "t.qpk", packed.view()));
  const auto file = check(packed_file::open(folder / "t.qpk"));
  std::vector<int> right(4);
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      auto some = file.read_rows(k * 5000, 5000);
      auto out = table.poisoned(5000);
      right[static_cast<std::size_t>(k)] =
          some.ok() && unpack(host_context{1}, {some->view(), out.view(), 0}).ok() &&
          out.bytes == rows_of(table, k * 5000, 5000).bytes;
    });
  }
  for (auto& t : threads) t.join();
  CHECK(std::ranges::all_of(right, [](int r) { return r == 1; }));
}

// Files of version 1 as they were first written: readable for ever, and written alike.
constexpr const char* exponent_file =
    // header
    "9371706b0d0a1a0a0100000055064b4c70000000000000000a00000000000000"
    "030000000000000000000000000000004000000000000000469eeb22e1761656"
    // packing
    "7170616b01000000020202000000080000000000000010000000000000000400"
    "000004000000010000000300000000000000000000007f7e7d7c7b7a79787776"
    "7574737200000000000000000100000000000000000000000000000000000000"
    "00000000000000000000000027a2f63700000000000000000000000000000000"
    // note
    "746872656520726f777300000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000"
    // checksums
    "1ba4137b00000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000"
    // slots; the last one points to what follows them
    "0008101820283038000000000000000040485058606870780000000000000000"
    "000000000000000000000000000000ff00100011001200130014001500160017";
constexpr const char* sparse_file =
    // header
    "9371706b0d0a1a0a010000000000000070000000000000000000000000000000"
    "050000000000000014000000000000003400000000000000028f32b9cce76a6e"
    // packing
    "7170616b01000000030004000000060000000000000000000000000000000400"
    "0000040000000100000003000000000000000000000000000000000000000000"
    "0000000000000000000000000100000000000000000000000000000000000000"
    "0000000000000000000000002cfb284f00000000000000000000000000000000"
    // checksums
    "80f693505c6af337000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000"
    // addresses
    "000000000300000005000000080000000a000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000"
    // records
    "0260220001000000050000000160080009000000026022000d00000011000000"
    "016008001500000002602200190000001d000000";

TEST_CASE("packed files of version 1 stay what they are") {
  const temporary_folder folder;
  const auto path = folder / "t.qpk";
  const auto check_bytes = [&](packed_table packed, std::string_view note, const char* golden) {
    check(write_packed(path, packed.view(), note));
    auto bytes = file_content(path);
    CHECK(hex(bytes) == golden);
    seal(bytes);
    CHECK(hex(bytes) == golden);  // the checksums are those of docs/packed_format.md
    put_file(path, from_hex(golden));
    const auto file = check(packed_file::open(path));
    CHECK(file.note() == note);
    auto table = check(file.read());
    CHECK(bytes_of(table) == bytes_of(packed));
    CHECK(serialise(table.how()) == serialise(packed.how()));
  };
  check_bytes(small_exponent_table(), "three rows", exponent_file);
  check_bytes(small_sparse_table(), "", sparse_file);
}
