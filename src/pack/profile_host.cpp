// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <new>

#include "pack/table_sample.hpp"

namespace quipu {

result<table_profile> make_profile(const host_context& ctx, const table_view& t,
                                   const profile_options& o) {
  if (auto s = detail::check_profile(t, o); !s.ok()) return s;
  try {
    const auto chosen = detail::choose_rows(t, o);
    detail::sampled_table sample(t, chosen.rows);
    const auto bytes = static_cast<std::size_t>(t.row_bytes());
    for (std::int64_t k = 0; k < chosen.rows && bytes > 0; ++k) {
      std::memcpy(sample.bytes.data() + k * t.row_bytes(), t.row(chosen[k]), bytes);
    }
    return detail::profile_sample(ctx, sample, t.rows, o);
  } catch (const std::bad_alloc&) {
    return failure(status_code::out_of_memory, "not enough host memory for a profile");
  }
}

}  // namespace quipu
