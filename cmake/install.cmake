# `cmake --install`: the command, the runtime with its companions, headers, and what CMake and pkg-config need to find
# them. `cpack -G DEB` makes a Debian package of the same files.
set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "folder of libraries below the prefix; the command looks in ../lib")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(Kiln::runtime ALIAS kiln_runtime)
set_target_properties(kiln_runtime PROPERTIES EXPORT_NAME runtime)
install(TARGETS kiln RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS kiln_runtime EXPORT KilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kiln_debug_library kiln_tools_library kiln_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${config})
configure_package_config_file(cmake/KilnConfig.cmake.in ${CMAKE_BINARY_DIR}/KilnConfig.cmake INSTALL_DESTINATION ${config}
                              PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/KilnConfig.cmake ${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake DESTINATION ${config})
configure_file(cmake/kiln.pc.in ${CMAKE_BINARY_DIR}/kiln.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_CONTACT "the authors of Kiln")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler, runtime and debugger for exported PyTorch programs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS g++)  # for `kiln compile`; running packages needs no compiler
include(CPack)
