# SPDX-License-Identifier: Apache-2.0
# Suites of CMakeLists.txt once more, in other circumstances.

# What touches graphs once more, with destructors of user objects that run late, as they do on a GPU: suites do not
# say what they await, so each must hold when nothing has been told yet. A run of faults is a twelfth of the other.
foreach(name
        api_bodies api_capture api_capture_broken api_capture_memory api_checkpoint api_checkpoint_tree api_graph
        api_graph_life api_graph_memory api_graph_update api_guard api_ladder api_lifetimes_freed api_lifetimes_gone
        api_lifetimes_live api_recapture api_released api_replay_order api_reuse_in_capture api_unrouted fault_graphs
        fault_trees model_random)
    if(NOT TARGET ${name})
        message(FATAL_ERROR "no suite ${name} to run with late destructors")
    endif()
    get_test_property(${name} LABELS labels)
    get_test_property(${name} TIMEOUT timeout)
    add_test(NAME ${name}_late COMMAND ${TARN_TEST_LAUNCHER} $<TARGET_FILE:${name}>)
    set_tests_properties(
        ${name}_late
        PROPERTIES LABELS "${labels}" TIMEOUT "${timeout}"
                   ENVIRONMENT
                   "TARN_DRIVER=$<TARGET_FILE:tarn_sim>;${TARN_TEST_ENVIRONMENT};TARN_SIM_DESTRUCTOR_US=3000;${late_counts}")
endforeach()

# The same operations where each block ends with pages of its own.
get_test_property(model_random LABELS labels)
get_test_property(model_random TIMEOUT timeout)
add_test(NAME model_random_lone COMMAND ${TARN_TEST_LAUNCHER} $<TARGET_FILE:model_random>)
set_tests_properties(
    model_random_lone
    PROPERTIES LABELS "${labels}" TIMEOUT "${timeout}"
               ENVIRONMENT
               "TARN_DRIVER=$<TARGET_FILE:tarn_sim>;${TARN_TEST_ENVIRONMENT};TARN_CONF=overrun_alignment:512;${late_counts}")

# In memory that a tool is told of; the tool stops at a mistake in what it is told.
add_test(NAME model_random_linear COMMAND ${TARN_TEST_LAUNCHER} $<TARGET_FILE:model_random>)
set_tests_properties(
    model_random_linear
    PROPERTIES LABELS "${labels}" TIMEOUT "${timeout}"
               ENVIRONMENT
               "TARN_DRIVER=$<TARGET_FILE:tarn_sim>;${TARN_TEST_ENVIRONMENT};TARN_CONF=sanitizer:True;NVTX_INJECTION64_PATH=$<TARGET_FILE:fake_tool>;TARN_FAKE_TOOL=stop;TARN_SIM_MEMORY_MIB=131072;${late_counts}")
