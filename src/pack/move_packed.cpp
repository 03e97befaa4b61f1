// SPDX-License-Identifier: Apache-2.0
#include "pack/host_rows.hpp"
#include "quipu/pack/detail/device_columns.hpp"
#include "quipu/pack/packed_table.hpp"

namespace quipu {

namespace {

template <class T>
status copy(const context& ctx, memory_kind kind, const T* from, std::int64_t size, buffer<T>& to,
            std::int64_t room = 0) {
  if (from == nullptr || size == 0) return success();
  auto made = buffer<T>::make(kind, ctx.device, std::max(size, room));
  if (!made) return made.error();
  to = *std::move(made);
  return detail::copy_bytes(ctx, to.data(), from, static_cast<std::size_t>(size) * sizeof(T));
}

/// `rows` is where the packed rows go, `rest` where everything else does.
result<packed_table> move(const context& ctx, const packed_view& v, memory_kind rows,
                          memory_kind rest) {
  if (auto s = detail::check_packed(v); !s.ok()) return s;
  if (v.bytes == nullptr && v.byte_count > 0)
    return detail::wrong_argument("packed: bytes are null");
  if (v.used == nullptr) return detail::wrong_argument("packed: used is null");
  buffer<std::byte> bytes, columns;
  buffer<std::uint32_t> addresses;
  buffer<std::int64_t> used;
  status s = copy(ctx, rows, v.bytes, v.byte_count, bytes, detail::round_up(v.byte_count, 4));
  if (s.ok() && v.addresses != nullptr) s = copy(ctx, rest, v.addresses, v.records(), addresses);
  if (s.ok()) s = copy(ctx, rest, v.used, 1, used);
  return detail::catch_no_memory([&]() -> result<packed_table> {
    if (s.ok() && rest == memory_kind::device) {
      const auto wanted = detail::device_columns(*v.how);
      s = copy(ctx, rest, wanted.data(), static_cast<std::int64_t>(wanted.size()), columns);
    }
    if (!s.ok()) return s;
    return packed_table(*v.how, v.rows, std::move(bytes), std::move(addresses), std::move(used),
                        std::move(columns));
  });
}

}  // namespace

result<packed_table> to_device(const context& ctx, packed_view v) {
  return move(ctx, v, memory_kind::device, memory_kind::device);
}
result<packed_table> to_pinned(const context& ctx, packed_view v) {
  return move(ctx, v, memory_kind::pinned, memory_kind::device);
}
result<packed_table> to_host(const context& ctx, packed_view v) {
  return move(ctx, v, memory_kind::host, memory_kind::host);
}

}  // namespace quipu
