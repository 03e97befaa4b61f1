# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/quipu")
set(installed_targets quipu_headers)
if(QUIPU_BUILD_LIBRARY)
  list(APPEND installed_targets quipu)
endif()
install(TARGETS ${installed_targets} EXPORT quipuTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT quipuTargets NAMESPACE quipu:: DESTINATION "${package_dir}")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/quipuConfig.cmake.in" "${PROJECT_BINARY_DIR}/quipuConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/quipuConfigVersion.cmake"
                                 COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/quipuConfig.cmake"
              "${PROJECT_BINARY_DIR}/quipuConfigVersion.cmake" DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(TARGET quipu_cli)
  install(TARGETS quipu_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
