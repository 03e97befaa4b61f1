# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
find_package(CUDAToolkit 13.0 REQUIRED)
# With components, CCCL brings no Thrust configuration to consumers; CCCL::CCCL can be exported,
# while the targets behind it cannot.
find_package(CCCL 3.0 REQUIRED CONFIG COMPONENTS libcudacxx CUB
             HINTS "${CUDAToolkit_LIBRARY_DIR}/cmake" "${CUDAToolkit_LIBRARY_ROOT}/lib/cmake"
                   "${CUDAToolkit_LIBRARY_ROOT}/lib64/cmake")
