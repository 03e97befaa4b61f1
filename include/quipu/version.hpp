// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one place that names the version; CMake reads it from here.
#define QUIPU_VERSION_MAJOR 0
#define QUIPU_VERSION_MINOR 1
#define QUIPU_VERSION_PATCH 0
