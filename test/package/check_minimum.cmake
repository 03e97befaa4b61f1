# SPDX-License-Identifier: Apache-2.0
# One lowest version of CMake, said before anything else, so that an older one stops with that text.
set(first "")
file(STRINGS "${source}/CMakeLists.txt" lines REGEX "^[^#]")
list(GET lines 0 first)
if(NOT first MATCHES "^cmake_minimum_required\\(VERSION ([0-9]+)\\.([0-9]+)\\)$")
  message(FATAL_ERROR "CMakeLists.txt begins with '${first}'")
endif()
set(major "${CMAKE_MATCH_1}")
set(minor "${CMAKE_MATCH_2}")
file(READ "${source}/CMakePresets.json" presets)
string(JSON preset_minor GET "${presets}" cmakeMinimumRequired minor)
if(NOT preset_minor EQUAL minor)
  message(FATAL_ERROR "CMakePresets.json asks for ${major}.${preset_minor}, not ${major}.${minor}")
endif()

# The text itself, from a project that asks for more than any CMake offers.
set(folder "${CMAKE_CURRENT_BINARY_DIR}/minimum")
file(WRITE "${folder}/CMakeLists.txt" "cmake_minimum_required(VERSION ${major}00.${minor})\n")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${folder}" -B "${folder}/build"
                RESULT_VARIABLE outcome ERROR_VARIABLE complaint OUTPUT_QUIET)
if(outcome EQUAL 0 OR NOT complaint MATCHES "CMake ${major}00\\.${minor} or higher is required")
  message(FATAL_ERROR "an old CMake would say: ${complaint}")
endif()
