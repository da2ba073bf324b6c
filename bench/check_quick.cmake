# SPDX-License-Identifier: Apache-2.0
# cmake -D BENCH=tarn_bench -D OUT=file -P check_quick.cmake
#     Runs every row with few samples, and checks that each line written is JSON with the fields
#     that results/README.md promises. What was measured does not matter here.
cmake_minimum_required(VERSION 3.25)

function(expect_type line field types)
    string(JSON type ERROR_VARIABLE error TYPE "${line}" ${field})
    if(error OR NOT type IN_LIST types)
        message(FATAL_ERROR "${field} should be one of ${types}: ${line}")
    endif()
endfunction()

file(REMOVE ${OUT})
execute_process(COMMAND ${BENCH} --quick --limits --out ${OUT} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "tarn_bench: ${status}")
endif()

file(STRINGS ${OUT} lines ENCODING UTF-8)
set(rows_seen)
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
endforeach()

list(REMOVE_DUPLICATES rows_seen)
foreach(row pair trace replay growth capture checkpoint contents)
    if(NOT row IN_LIST rows_seen)
        message(FATAL_ERROR "no line of row ${row}; there are: ${rows_seen}")
    endif()
endforeach()
