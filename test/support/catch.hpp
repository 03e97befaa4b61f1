// SPDX-License-Identifier: Apache-2.0
#pragma once

// Catch2 v3 where it is installed, else v2: distributions ship either.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
