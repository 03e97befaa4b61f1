# SPDX-License-Identifier: Apache-2.0
file(READ compile_commands.json commands)
string(REGEX MATCHALL "(compute|sm)_[0-9]+[a-z]?" found "${commands}")
list(REMOVE_DUPLICATES found)
list(SORT found)
if(NOT found STREQUAL "compute_90;sm_90")
  message(FATAL_ERROR "the parent asked for 90 alone, compiled are: ${found}")
endif()
