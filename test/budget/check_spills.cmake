# SPDX-License-Identifier: Apache-2.0
# Compiles SOURCE for one architecture and reads what ptxas says: a kernel of the engine that spills
# registers or keeps an array in local memory is slow without a word, so it fails here.
#   cmake -DNVCC=.. -DSOURCE=.. -DINCLUDES=a;b -DOUTPUT=x.cubin -P check_spills.cmake
if(NOT NVCC)
  message("skipped: no nvcc")
  return()
endif()
set(architecture 90)
list(TRANSFORM INCLUDES PREPEND "-I")
execute_process(
  COMMAND "${NVCC}" -std=c++20 -O3 -DNDEBUG -arch=sm_${architecture} -cubin -Xptxas=-v ${INCLUDES} -o
          "${OUTPUT}" "${SOURCE}"
  RESULT_VARIABLE code
  OUTPUT_VARIABLE said
  ERROR_VARIABLE said)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${SOURCE} does not compile:\n${said}")
endif()

string(REGEX MATCHALL
             "Function properties for [^\n]*(slice|merge|totals)_kernel[^\n]*\n[^\n]*stack frame[^\n]*" kernels
             "${said}")
list(LENGTH kernels count)
if(count EQUAL 0)
  message(FATAL_ERROR "ptxas named no slice_kernel and no merge_kernel:\n${said}")
endif()
set(wasteful "")
foreach(kernel IN LISTS kernels)
  if(NOT kernel MATCHES "\n *0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads")
    string(APPEND wasteful "${kernel}\n")
  endif()
endforeach()
if(wasteful)
  message(FATAL_ERROR "kernels that use local memory:\n${wasteful}")
endif()
message("${count} kernels of sm_${architecture}: no spills, no stack frames")
