# SPDX-License-Identifier: Apache-2.0
# Lets clang++ read each of `sources`, alone.
if(NOT compiler)
  message("skipped: no clang++")
  return()
endif()
list(TRANSFORM include_dirs PREPEND "-isystem")
set(failed "")
foreach(source IN LISTS sources)
  execute_process(COMMAND "${compiler}" -std=c++20 -fsyntax-only -Wall -Wextra ${include_dirs}
                          "${source}" RESULT_VARIABLE outcome)
  if(NOT outcome EQUAL 0)
    list(APPEND failed "${source}")
  endif()
endforeach()
if(failed)
  message(FATAL_ERROR "clang++ rejects: ${failed}")
endif()
