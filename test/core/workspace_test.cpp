// SPDX-License-Identifier: Apache-2.0
#include "quipu/core/workspace.hpp"

#if __has_include(<rapidcheck.h>)
#include <rapidcheck.h>
#endif

#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace {

using quipu::arena;
using quipu::status_code;
using quipu::workspace;

/// What a verb asks for: (log2 of the element's size, elements).
using wish = std::pair<int, std::int64_t>;

struct alignas(16) quad {
  float values[4];
};

std::byte* take(arena& a, const wish& w) {
  switch (w.first) {
    case 0:
      return reinterpret_cast<std::byte*>(a.take<char>(w.second));
    case 1:
      return reinterpret_cast<std::byte*>(a.take<std::int16_t>(w.second));
    case 2:
      return reinterpret_cast<std::byte*>(a.take<float>(w.second));
    case 3:
      return reinterpret_cast<std::byte*>(a.take<double>(w.second));
    default:
      return reinterpret_cast<std::byte*>(a.take<quad>(w.second));
  }
}

/// Bytes with a 256-byte border at `start`.
struct memory {
  explicit memory(std::size_t bytes) : all(bytes + 256) {
    const auto address = reinterpret_cast<std::uintptr_t>(all.data());
    start = all.data() + (256 - address % 256) % 256;
  }
  std::vector<std::byte> all;
  std::byte* start;
};

/// Counts, then binds memory of just that size, then memory that is a byte short.
bool counting_and_binding_agree(const std::vector<wish>& wishes) {
  arena counting;
  for (const auto& w : wishes) {
    if (take(counting, w) != nullptr) return false;
  }
  const auto bytes = counting.bytes();
  memory m(bytes);
  arena binding(workspace{m.start, bytes});
  const std::byte* free = m.start;
  for (const auto& w : wishes) {
    std::byte* const got = take(binding, w);
    const auto size = static_cast<std::size_t>(w.second) << w.first;
    if (got == nullptr || reinterpret_cast<std::uintptr_t>(got) % 256 != 0) return false;
    if (got < free || got + size > m.start + bytes) return false;
    free = got + size;
  }
  if (binding.bytes() != bytes || !binding.fits().ok()) return false;
  if (bytes == 0) return true;

  arena tight(workspace{m.start, bytes - 1});
  for (const auto& w : wishes) take(tight, w);
  const auto s = tight.fits();
  return s.code == status_code::workspace_too_small &&
         s.expected == static_cast<std::int64_t>(bytes) &&
         s.actual == static_cast<std::int64_t>(bytes) - 1;
}

}  // namespace

TEST_CASE("counting and binding lay out the same", "[workspace]") {
  CHECK(counting_and_binding_agree({}));
  CHECK(counting_and_binding_agree({{2, 1}}));
  CHECK(counting_and_binding_agree({{0, 1}, {4, 3}, {3, 0}, {2, 1000}}));
  CHECK(counting_and_binding_agree({{2, 64}, {2, 64}}));
#if __has_include(<rapidcheck.h>)
  const auto wishes = rc::gen::container<std::vector<wish>>(
      rc::gen::pair(rc::gen::inRange(0, 5), rc::gen::inRange<std::int64_t>(0, 3000)));
  CHECK(rc::check("any wishes", [&] { RC_ASSERT(counting_and_binding_agree(*wishes)); }));
#endif
}

TEST_CASE("a workspace that is too small names both sizes", "[workspace]") {
  memory m(1000);
  arena a(workspace{m.start, 1000});
  CHECK(a.take<float>(100) != nullptr);
  CHECK(a.take<float>(200) == nullptr);
  const auto s = a.fits();
  CHECK(s.code == status_code::workspace_too_small);
  CHECK(s.expected == 512 + 800);
  CHECK(s.actual == 1000);
  CHECK(quipu::describe(s) == "workspace: too small (1312 bytes needed, 1000 given)");
}

TEST_CASE("no workspace is too small as well, unless nothing is wanted", "[workspace]") {
  arena a(workspace{});
  CHECK(a.fits().ok());
  CHECK(a.take<float>(4) == nullptr);
  CHECK(a.fits().code == status_code::workspace_too_small);
  CHECK(a.fits().actual == 0);
}

TEST_CASE("a workspace that starts askew is refused", "[workspace]") {
  memory m(1024);
  for (const int shift : {1, 4, 8, 15}) {
    arena a(workspace{m.start + shift, 512});
    a.take<float>(4);
    CHECK(a.fits().code == status_code::invalid_argument);
  }
  arena a(workspace{m.start + 16, 512});
  a.take<float>(4);
  CHECK(a.fits().ok());
}

TEST_CASE("a loan gives back what was taken, and counts while it lives", "[workspace]") {
  memory m(8192);
  const auto lay_out = [](arena& a) {
    a.take<char>(1000);
    char* lent = nullptr;
    {
      const arena::loan outer(a);
      lent = a.take<char>(3000);
      const arena::loan inner(a);
      a.take<char>(1000);
    }
    char* after = a.take<char>(2000);
    CHECK(after == lent);
  };
  arena counting;
  lay_out(counting);
  CHECK(counting.bytes() == 1024 + 3072 + 1000);
  arena bound(workspace{m.start, counting.bytes()});
  lay_out(bound);
  CHECK(bound.fits().ok());
  arena small(workspace{m.start, counting.bytes() - 1});
  lay_out(small);
  CHECK(small.fits().code == status_code::workspace_too_small);
}
