# SPDX-License-Identifier: Apache-2.0
# cmake -D BENCH=tarn_bench -D OUT=file -P check_quick.cmake
#     Runs every row with few samples, and checks that each line written is JSON with the fields
#     that results/README.md promises, and that the exit status is the one that the lines' targets
#     and the print of the limits ask for. What was measured does not matter here, but for memory
#     that ended objects keep.
cmake_minimum_required(VERSION 3.25)

function(expect_type line field types)
    string(JSON type ERROR_VARIABLE error TYPE "${line}" ${field})
    if(error OR NOT type IN_LIST types)
        message(FATAL_ERROR "${field} should be one of ${types}: ${line}")
    endif()
endfunction()

file(REMOVE ${OUT})
execute_process(
    COMMAND ${BENCH} --quick --limits --out ${OUT}
    RESULT_VARIABLE status
    OUTPUT_VARIABLE printed)
message("${printed}")
if(NOT status MATCHES "^[013]$" OR NOT printed MATCHES "limits met")
    message(FATAL_ERROR "tarn_bench: ${status}")
endif()

file(STRINGS ${OUT} lines ENCODING UTF-8)
set(rows_seen)
set(missed 0)
foreach(line IN LISTS lines)
    foreach(field date commit device row variant unit)
        expect_type("${line}" ${field} STRING)
    endforeach()
    foreach(field driver_version median p10 p90 samples)
        expect_type("${line}" ${field} NUMBER)
    endforeach()
    expect_type("${line}" simulated BOOLEAN)
    expect_type("${line}" rival "STRING;NULL")
    expect_type("${line}" target "NUMBER;NULL")
    expect_type("${line}" target_is "STRING;NULL")
    string(JSON row GET "${line}" row)
    list(APPEND rows_seen ${row})

    string(JSON target_is GET "${line}" target_is)
    string(JSON target GET "${line}" target)
    string(JSON median GET "${line}" median)
    if((target_is STREQUAL "at most" AND median GREATER target)
       OR (target_is STREQUAL "at least" AND median LESS target))
        math(EXPR missed "${missed} + 1")
        string(JSON variant GET "${line}" variant)
        if(row STREQUAL "lives" AND variant MATCHES "memory")
            message(FATAL_ERROR "what has ended keeps memory: ${line}")
        endif()
    endif()
endforeach()

# A limit is missed by the lines, as printed, and by the exit status, or by none of them.
if(NOT printed MATCHES "limits met, ${missed} missed, ([0-9]+) not measured\n")
    message(FATAL_ERROR "${missed} limits are missed by the lines of JSON, but not as printed")
endif()
set(not_measured ${CMAKE_MATCH_1})
if(missed GREATER 0)
    set(expected 1)
elseif(not_measured GREATER 0)
    set(expected 3)
else()
    set(expected 0)
endif()
if(NOT status EQUAL expected)
    message(FATAL_ERROR "exit status ${status}, where ${expected} is right")
endif()

# Rows that are as large in a quick run have a line for each of their limits.
string(REGEX MATCH "\nnot measured: (capture|checkpoint|replay), [^\n]+" lacking "${printed}")
if(lacking)
    message(FATAL_ERROR "nothing measures a limit: ${lacking}")
endif()

list(REMOVE_DUPLICATES rows_seen)
foreach(row host pinned pair scaling producers replay growth capture checkpoint trace live fragmentation
            adversaries contents)
    if(NOT row IN_LIST rows_seen)
        message(FATAL_ERROR "no line of row ${row}; there are: ${rows_seen}")
    endif()
endforeach()
