// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quipu {

/// CRC-32C (Castagnoli, RFC 3720), going on from `before`.
std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace quipu
