# SPDX-License-Identifier: Apache-2.0
# tarn_test(NAME name SOURCES file... LABELS label... [LIBS target...] [ENV variable=value...]
#           [ARGUMENTS word...]
#           [TIMEOUT seconds] [NO_FORK] [ALSO_ON_GPU])
#     One executable, run by ctest under its name. Its main is that of tests/support/registry.c, or its
#     own. TARN_DRIVER names the simulated driver. With the label gpu it names the real one, the run is
#     without fork (CUDA does not survive one), alone among its kind, and skipped when it exits with 77.
#     ALSO_ON_GPU adds such a run to one on the simulator, as <name>_gpu.
# tarn_suites(FILES file... LABELS label... [as above])
#     A tarn_test for each file, named after folder and file: unit/test_segment.c is unit_segment.
# tarn_nightly(suite label variable=value...)
#     One more run of the suite, as <suite>_all, in the night alone.

add_library(tarn_check INTERFACE)
if(TARN_STATIC_CHECK)
    find_library(TARN_CHECK_LIBRARY NAMES libcheck_pic.a libcheck.a REQUIRED)
    find_path(TARN_CHECK_INCLUDE check.h REQUIRED)
    target_include_directories(tarn_check SYSTEM INTERFACE ${TARN_CHECK_INCLUDE})
    target_link_libraries(tarn_check INTERFACE ${TARN_CHECK_LIBRARY})
    # Check may have been built without subunit.
    find_library(TARN_SUBUNIT_LIBRARY NAMES libsubunit.a)
    if(TARN_SUBUNIT_LIBRARY)
        target_link_libraries(tarn_check INTERFACE ${TARN_SUBUNIT_LIBRARY})
    endif()
    target_link_libraries(tarn_check INTERFACE Threads::Threads rt m)
else()
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
    target_link_libraries(tarn_check INTERFACE PkgConfig::CHECK Threads::Threads)
endif()

# How the sanitizers report; that undefined behaviour is fatal is compiled in. The thread sanitizer lets a
# process that has threads sleep before it ends, a second if not told: for each test, since the simulator has.
set(TARN_TEST_ENVIRONMENT
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=10)
if(TARN_SANITIZE)
    list(APPEND TARN_TEST_ENVIRONMENT CK_TIMEOUT_MULTIPLIER=15)
endif()
# An emulator keeps a record of each page that is reserved, so 4 TiB take minutes. Where they are refused the library asks for
# less by itself.
if(CMAKE_CROSSCOMPILING_EMULATOR)
    list(APPEND TARN_TEST_ENVIRONMENT CK_TIMEOUT_MULTIPLIER=15 TARN_SIM_HINTS=refused:4096)
endif()

function(tarn_test)
    cmake_parse_arguments(
        PARSE_ARGV 0 TEST "NO_FORK;ALSO_ON_GPU" "NAME;TIMEOUT"
        "SOURCES;LABELS;LIBS;ENV;ARGUMENTS")
    if(NOT TEST_TIMEOUT)
        set(TEST_TIMEOUT 300)
    endif()
    if(TEST_NO_FORK)
        list(APPEND TEST_ENV CK_FORK=no)
    endif()

    add_executable(${TEST_NAME} ${TEST_SOURCES})
    target_link_libraries(${TEST_NAME} PRIVATE tarn_test_support ${TEST_LIBS} tarn_check)
    # The simulator is loaded by name, too. Sanitizers make such calls from their own library, and only
    # the old kind of search path counts for every library of the process.
    target_link_options(${TEST_NAME} PRIVATE -Wl,--disable-new-dtags)
    add_dependencies(${TEST_NAME} tarn_sim)

    set(gpu_run ${TEST_NAME})
    if(NOT "gpu" IN_LIST TEST_LABELS)
        set(gpu_run ${TEST_NAME}_gpu)
        add_test(NAME ${TEST_NAME} COMMAND ${TARN_TEST_LAUNCHER} $<TARGET_FILE:${TEST_NAME}>
                                           ${TEST_ARGUMENTS})
        set(environment TARN_DRIVER=$<TARGET_FILE:tarn_sim> ${TARN_TEST_ENVIRONMENT} ${TEST_ENV})
        set_tests_properties(
            ${TEST_NAME} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT}
                                    ENVIRONMENT "${environment}")
        if(NOT TEST_ALSO_ON_GPU)
            return()
        endif()
    endif()
    list(REMOVE_ITEM TEST_LABELS sim)
    add_test(NAME ${gpu_run} COMMAND ${TEST_NAME})
    set_tests_properties(
        ${gpu_run} PROPERTIES LABELS "gpu;${TEST_LABELS}" TIMEOUT 300 SKIP_RETURN_CODE 77
                              RESOURCE_LOCK gpu
                              ENVIRONMENT "TARN_DRIVER=cuda;CK_FORK=no;${TEST_ENV}")
endfunction()

function(tarn_suites)
    cmake_parse_arguments(
        PARSE_ARGV 0 SUITES "NO_FORK;ALSO_ON_GPU" "TIMEOUT" "FILES;LABELS;LIBS;ENV")
    set(options)
    foreach(option NO_FORK ALSO_ON_GPU)
        if(SUITES_${option})
            list(APPEND options ${option})
        endif()
    endforeach()
    foreach(file ${SUITES_FILES})
        string(REGEX REPLACE "^([a-z]+)/test_(.*)\\.c$" "\\1_\\2" name ${file})
        tarn_test(
            ${options} NAME ${name} SOURCES ${file} TIMEOUT ${SUITES_TIMEOUT}
            LABELS ${SUITES_LABELS} LIBS ${SUITES_LIBS} ENV ${SUITES_ENV})
    endforeach()
endfunction()

function(tarn_nightly suite label)
    add_test(NAME ${suite}_all COMMAND ${TARN_TEST_LAUNCHER} $<TARGET_FILE:${suite}>)
    set(environment TARN_DRIVER=$<TARGET_FILE:tarn_sim> ${TARN_TEST_ENVIRONMENT} ${ARGN})
    set_tests_properties(
        ${suite}_all PROPERTIES LABELS "nightly;${label}" TIMEOUT 20000 ENVIRONMENT "${environment}")
endfunction()
