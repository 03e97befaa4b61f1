// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that runs on the host and, when nvcc compiles it, on the device too.
#ifdef __CUDACC__
#define QUIPU_HD __host__ __device__
#else
#define QUIPU_HD
#endif

/// Unrolls the loop that follows, in device code: host compilers do not know the pragma.
#ifdef __CUDA_ARCH__
#define QUIPU_UNROLL _Pragma("unroll")
#else
#define QUIPU_UNROLL
#endif
