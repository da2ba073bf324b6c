# SPDX-License-Identifier: Apache-2.0
# cmake -D BENCH=tarn_bench -D PYTHON=python3 -D TRACE_MAKER=tiny_trace.py -D OUT=folder
#       -P check_recorded.cmake
#     A trace that the converter has written is replayed; the lines are those that results/README.md
#     promises. A damaged trace ends the program with a sentence, before anything is measured.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT})
set(ENV{PYTHONDONTWRITEBYTECODE} 1)
execute_process(
    COMMAND ${PYTHON} ${TRACE_MAKER} ${OUT}/tiny.trace COMMAND_ERROR_IS_FATAL ANY)
execute_process(
    COMMAND ${BENCH} --quick --row recorded --trace ${OUT}/tiny.trace --out ${OUT}/lines.jsonl
    COMMAND_ERROR_IS_FATAL ANY)

file(STRINGS ${OUT}/lines.jsonl lines ENCODING UTF-8)
set(seen)
foreach(line IN LISTS lines)
    string(JSON variant GET "${line}" variant)
    string(JSON rival GET "${line}" rival)
    string(JSON median GET "${line}" median)
    if(NOT median GREATER 0)
        message(FATAL_ERROR "a figure is 0: ${line}")
    endif()
    if(variant STREQUAL "tiny: reserved over allocated" AND rival STREQUAL "as recorded"
       AND NOT median EQUAL 1.5)
        message(FATAL_ERROR "3 MiB over 2 MiB should be 1.5: ${line}")
    endif()
    list(APPEND seen "${variant} of ${rival}")
endforeach()
set(expected "tiny: GiB requested at the peak of as recorded"
             "tiny: reserved over allocated of as recorded")
foreach(rival "" "cuMemAllocFromPoolAsync")
    foreach(what "event, first replay" "event" "reserved over allocated"
                 "reserved over requested" "reserved over requested, later")
        list(APPEND expected "tiny: ${what} of ${rival}")
    endforeach()
endforeach()
list(SORT seen)
list(SORT expected)
if(NOT seen STREQUAL expected)
    message(FATAL_ERROR "lines of: ${seen}\nshould be of: ${expected}")
endif()

file(READ ${OUT}/tiny.trace text LIMIT 40 HEX)
file(WRITE ${OUT}/damaged.trace "${text}")
foreach(bad damaged missing)
    execute_process(
        COMMAND ${BENCH} --quick --row recorded --trace ${OUT}/${bad}.trace
        RESULT_VARIABLE status
        OUTPUT_VARIABLE said
        ERROR_VARIABLE why)
    if(NOT status EQUAL 1 OR NOT why MATCHES "${bad}.trace (is no trace|cannot be opened)" OR NOT said STREQUAL "")
        message(FATAL_ERROR "${bad}: status ${status}, ${said}${why}")
    endif()
endforeach()
