// SPDX-License-Identifier: Apache-2.0
// expects: static assertion failed
#include <string>

#include "quipu/core/buffer.hpp"

#ifdef OFFEND
using held = std::string;
#else
using held = double;
#endif

quipu::buffer<held> b;
