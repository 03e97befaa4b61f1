# SPDX-License-Identifier: Apache-2.0
# Two libraries with CUB in one process must not take each other's kernels and tables.
execute_process(COMMAND "${nm}" -DC --defined-only "${library}" OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT symbols MATCHES "quipu::status quipu::aggregate<float, int, int>")
  message(FATAL_ERROR "the verbs are not exported")
endif()
string(REGEX MATCHALL "[^\n]* [A-Z] [^\n]*" lines "${symbols}")
foreach(line IN LISTS lines)
  if(line MATCHES " [TWVBDRu] ([^<(]* )?(void )?(cub|thrust|nvtx3|cuda)::")
    message(SEND_ERROR "exported: ${line}")
  endif()
endforeach()
