# SPDX-License-Identifier: Apache-2.0
# Configures `source` in a fresh folder `build`, builds it (or the target `only`) and runs `program`, if
# these are given.
file(REMOVE_RECURSE "${build}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G Ninja -DCMAKE_BUILD_TYPE=Release
          "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_PREFIX_PATH=${prefix}"
          "-DQUIPU_SOURCE=${quipu}" "-DHOW=${how}" "-DQUIPU_BUILD_LIBRARY=${build_library}"
          --no-warn-unused-cli COMMAND_ERROR_IS_FATAL ANY)
set(target "")
if(only)
  set(target --target "${only}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" ${target} COMMAND_ERROR_IS_FATAL ANY)
if(program)
  execute_process(COMMAND "${build}/${program}" COMMAND_ERROR_IS_FATAL ANY)
endif()
