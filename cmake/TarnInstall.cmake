# SPDX-License-Identifier: Apache-2.0
# What is installed: headers, both libraries, the simulator, the command, tarn.pc and the CMake package.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/tarn TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(TARGETS tarn tarn_static EXPORT tarnTargets)
install(TARGETS tarn_sim)
if(TARGET tarn_tool)
    install(TARGETS tarn_tool)
    install(FILES command/tarn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES command/tarn.bash
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tarn)
endif()

# A program with libtarn.a looks for the simulator where that was installed: driver/loader.c.
if(CMAKE_OBJCOPY)
    install(
        CODE "
        cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE)
        cmake_path(APPEND libdir \${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_LIBDIR})
        string(LENGTH \"\${libdir}\" length)
        math(EXPR left \"1024 - \${length}\")
        if(left GREATER 0)
            string(REPEAT \"\\n\" \${left} lines)
            file(WRITE ${PROJECT_BINARY_DIR}/cmake/libdir \"\${libdir}\${lines}\")
            execute_process(
                COMMAND ${CMAKE_OBJCOPY}
                        --update-section tarn_libdir=${PROJECT_BINARY_DIR}/cmake/libdir
                        \$ENV{DESTDIR}\${libdir}/libtarn.a COMMAND_ERROR_IS_FATAL ANY)
        endif()")
endif()
install(DIRECTORY ${PROJECT_BINARY_DIR}/lib/tarn-sim DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tarn)
install(EXPORT tarnTargets NAMESPACE tarn:: DESTINATION ${package_dir})
configure_package_config_file(
    cmake/tarnConfig.cmake.in cmake/tarnConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(cmake/tarnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
    FILES ${PROJECT_BINARY_DIR}/cmake/tarnConfig.cmake
          ${PROJECT_BINARY_DIR}/cmake/tarnConfigVersion.cmake
    DESTINATION ${package_dir})

# tarn.pc finds its prefix from where it lies, so an installed copy can be moved.
cmake_path(
    RELATIVE_PATH CMAKE_INSTALL_PREFIX
    BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
    OUTPUT_VARIABLE TARN_PREFIX_FROM_PC)
configure_file(cmake/tarn.pc.in cmake/tarn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/tarn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
