# SPDX-License-Identifier: Apache-2.0
# How every target of this project is compiled.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_compile_definitions(_GNU_SOURCE $<$<BOOL:${TARN_DEBUG_CHECKS}>:TARN_DEBUG_CHECKS=1>)
# What unwinds the stack through the library, an exception out of a callback or the end of a thread, runs the cleanups
# on its way; see src/base/user_code.h.
add_compile_options(
    -fexceptions
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wstrict-prototypes
    -Wmissing-prototypes
    -Wvla
    $<$<BOOL:${TARN_WERROR}>:-Werror>)

# Clang counts conversions between int and enum among those of signedness, where gcc, which judges the others, does
# not; and it takes | of two conditions for a slip, which is written where a branch costs more than both.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    add_compile_options(-Wno-sign-conversion -Wno-bitwise-instead-of-logical)
endif()

if(TARN_SANITIZE)
    add_compile_options(
        -fsanitize=${TARN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${TARN_SANITIZE})
endif()

# Clang leaves the sanitizers' functions undefined in shared libraries; all else must be defined.
set(TARN_SHARED_LINK_OPTIONS -Wl,-z,nodelete)
if(NOT (TARN_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES "Clang"))
    list(APPEND TARN_SHARED_LINK_OPTIONS -Wl,-z,defs)
endif()

# What a test is run by: the emulator of a toolchain file. ThreadSanitizer of older compilers refuses the address layouts
# of newer kernels.
set(TARN_TEST_LAUNCHER ${CMAKE_CROSSCOMPILING_EMULATOR})
if(TARN_SANITIZE MATCHES "thread")
    find_program(TARN_SETARCH setarch)
    if(TARN_SETARCH)
        execute_process(
            COMMAND ${TARN_SETARCH} --addr-no-randomize true
            RESULT_VARIABLE refused
            OUTPUT_QUIET ERROR_QUIET)
        if(NOT refused)
            set(TARN_TEST_LAUNCHER ${TARN_SETARCH} --addr-no-randomize)
        endif()
    endif()
endif()
