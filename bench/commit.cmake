# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCE=tree -D HEADER=file -P commit.cmake
#     Writes a header that defines BENCH_COMMIT: the nearest tag or the commit, "-dirty" after it
#     when the tree differs from it, or "unknown" outside a git repository. A header that says so
#     already is left alone, so that nothing is compiled again.
set(commit "")
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
    execute_process(
        COMMAND ${git} --no-optional-locks -C ${SOURCE} describe --always --tags --dirty
        OUTPUT_VARIABLE commit
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit)
    set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define BENCH_COMMIT \"${commit}\"\n")
