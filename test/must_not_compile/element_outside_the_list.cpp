// SPDX-License-Identifier: Apache-2.0
// expects: constraints? (not satisfied|failure)
#include "quipu/reduce/aggregate.hpp"

#ifdef OFFEND
using feature = int;  // no storage type of features
#else
using feature = float;
#endif

quipu::aggregate_args<feature, std::int32_t> args;
