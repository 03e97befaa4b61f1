# SPDX-License-Identifier: Apache-2.0
list(TRANSFORM include_dirs PREPEND "-isystem")
set(compile "${compiler}" -std=c++20 -fsyntax-only -Werror=unused-result ${include_dirs})

file(STRINGS "${source}" expected REGEX "^// expects: ")
string(REPLACE "// expects: " "" expected "${expected}")
if(expected STREQUAL "")
  message(FATAL_ERROR "${source} has no line '// expects: ...'")
endif()

execute_process(COMMAND ${compile} "${source}" RESULT_VARIABLE outcome)
if(NOT outcome EQUAL 0)
  message(FATAL_ERROR "does not even compile without OFFEND")
endif()
execute_process(COMMAND ${compile} -DOFFEND "${source}" RESULT_VARIABLE outcome
                ERROR_VARIABLE complaint)
if(outcome EQUAL 0)
  message(FATAL_ERROR "compiles, although it breaks a promise")
endif()
if(NOT complaint MATCHES "${expected}")
  message(FATAL_ERROR "fails for another reason than '${expected}':\n${complaint}")
endif()
