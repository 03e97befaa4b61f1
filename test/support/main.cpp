// SPDX-License-Identifier: Apache-2.0
// Entry of the test programs. Device tests end with 77, which ctest shows as skipped, when there is
// no GPU; listing the tests works everywhere.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#ifdef QUIPU_TEST_NEEDS_DEVICE
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

namespace {
bool lists_only(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--list", 6) == 0 || std::strcmp(argv[i], "-l") == 0) return true;
  }
  return false;
}
}  // namespace
#endif

int main(int argc, char** argv) {
#ifdef QUIPU_TEST_NEEDS_DEVICE
  int devices = 0;
  if (!lists_only(argc, argv) && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
    std::puts("skipped: no GPU");
    return 77;
  }
#endif
  return Catch::Session().run(argc, argv);
}
