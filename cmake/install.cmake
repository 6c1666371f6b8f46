# `cmake --install`: the command, the runtime with its companions, headers, manual pages, completions, and what CMake and
# pkg-config need to find them. `cpack -G DEB` makes a Debian package of the same files. With KILN_RUNTIME_ONLY: the
# runtime and its headers.
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "folder of libraries below the prefix; the command looks in ../lib")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS kiln_runtime EXPORT KilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(documents ${CMAKE_INSTALL_DATAROOTDIR}/doc/kiln)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${documents})
if(TARGET kiln)
  install(TARGETS kiln EXPORT KilnTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS kiln_debug_library kiln_tools_library kiln_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET kiln_manual)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  set(completions ${PROJECT_BINARY_DIR}/manual/completions)
  install(FILES ${completions}/kiln.bash DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions RENAME kiln)
  install(FILES ${completions}/kiln.fish DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d)
  # zsh's own place, and Debian's for packages: its zsh does not look into the other one below /usr.
  foreach(folder site-functions vendor-completions)
    install(FILES ${completions}/kiln.zsh DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/${folder} RENAME _kiln)
  endforeach()
endif()

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${config})
configure_package_config_file(cmake/KilnConfig.cmake.in ${PROJECT_BINARY_DIR}/KilnConfig.cmake INSTALL_DESTINATION ${config}
                              PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/KilnConfigVersion.cmake VERSION ${PROJECT_VERSION}
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/KilnConfig.cmake ${PROJECT_BINARY_DIR}/KilnConfigVersion.cmake DESTINATION ${config})
configure_file(cmake/kiln.pc.in ${PROJECT_BINARY_DIR}/kiln.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_PACKAGE_NAME kiln)
  set(CPACK_PACKAGE_CONTACT "the authors of Kiln")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler, runtime and debugger for exported PyTorch programs")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS g++)  # for `kiln compile`; running packages needs no compiler
  include(CPack)
endif()
