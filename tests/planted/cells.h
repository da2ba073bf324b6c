// SPDX-License-Identifier: Apache-2.0
/* cells.h -- the mistakes that are planted in graphs: which, and in nodes of which types.
 *
 * Each row of PLANTED_CELLS is a test, and is made twice: in a graph that Tarn captured, and in one that the program
 * captured itself. tests/planted/table.py makes docs/planted.md of these tables, and prints the tests of a cell there: a
 * row stands on a line of its own, and a class and a type of node without a test have a reason. */
#ifndef TARN_TESTS_PLANTED_CELLS_H
#define TARN_TESTS_PLANTED_CELLS_H

// clang-format off

/* What names the address (how it is made stands in plant.c), and the type of the graph's node that it is, or is in. */
#define PLANTED_CARRIERS(X) \
    X(PARAMETER, "kernel") \
    X(STRUCT, "kernel") \
    X(PACKED, "kernel") \
    X(CHILD_KERNEL, "child graph") \
    X(CHILD_SET, "child graph") \
    X(CHILD_UPLOAD_FROM, "child graph") \
    X(BODY_KERNEL, "conditional") \
    X(BODY_SET, "conditional") \
    X(BODY_UPLOAD_FROM, "conditional") \
    X(COPY_FROM, "copy") \
    X(COPY_TO, "copy") \
    X(ANY_FROM, "copy") \
    X(UPLOAD_FROM, "copy") \
    X(UPLOAD_TO, "copy") \
    X(DOWNLOAD_FROM, "copy") \
    X(DOWNLOAD_TO, "copy") \
    X(ROWS_FROM, "copy") \
    X(ROWS_TO, "copy") \
    X(SET, "set") \
    X(SET_ROWS, "set") \
    X(BATCH, "batch") \
    X(ARGUMENT, "host function")

/* Mistake (how it is made stands in mistakes.c), and the class that an audit gives it. */
#define PLANTED_MISTAKES(X) \
    X(FREED, TARN_POINTER_FREED) \
    X(FREED_DEFAULT, TARN_POINTER_FREED_EXTERNAL) \
    X(FREED_OTHER, TARN_POINTER_FREED_EXTERNAL) \
    X(AGAIN, TARN_POINTER_USED_AGAIN) \
    X(AGAIN_OTHER, TARN_POINTER_USED_AGAIN) \
    X(AGAIN_UNMARKED, TARN_POINTER_USED_AGAIN) \
    X(UNORDERED, TARN_POINTER_UNORDERED) \
    X(BEYOND, TARN_POINTER_BEYOND) \
    X(BEYOND_SMALLER, TARN_POINTER_BEYOND) \
    X(BEYOND_LINEAR, TARN_POINTER_BEYOND) \
    X(UNMAPPED, TARN_POINTER_UNMAPPED) \
    X(TRIMMED, TARN_POINTER_UNMAPPED) \
    X(DESTROYED, TARN_POINTER_UNMAPPED) \
    X(PAGEABLE, TARN_POINTER_PAGEABLE) \
    X(UNREGISTERED, TARN_POINTER_PAGEABLE) \
    X(FREED_PINNED, TARN_POINTER_PAGEABLE) \
    X(FREED_LINEAR, TARN_POINTER_UNKNOWN) \
    X(OVERWRITES, TARN_POINTER_OVERWRITES)

/* Class, type of node, why it has no test. */
#define PLANTED_REASONS(X) \
    X(TARN_POINTER_BEYOND, "kernel", "a kernel's parameter does not say how many bytes the kernel touches") \
    X(TARN_POINTER_BEYOND, "host function", "an argument does not say how many bytes the function touches") \
    X(TARN_POINTER_PAGEABLE, "kernel", "a kernel's word that points to unknown memory counts as a number") \
    X(TARN_POINTER_PAGEABLE, "set", "a set or a batch names device memory: the class is *unknown*") \
    X(TARN_POINTER_PAGEABLE, "batch", "a set or a batch names device memory: the class is *unknown*") \
    X(TARN_POINTER_PAGEABLE, "host function", "an argument that points to unknown memory is of the class *argument*, no mistake") \
    X(TARN_POINTER_UNKNOWN, "kernel", "a kernel's word that points to unknown memory counts as a number") \
    X(TARN_POINTER_UNKNOWN, "host function", "an argument that points to unknown memory is of the class *argument*, no mistake") \
    X(TARN_POINTER_OVERWRITES, "host function", "a host function writes to no device memory") \
    X(TARN_POINTER_LET_GO, "kernel", "a share takes two processes: api_share_graphs closes one that a graph reads") \
    X(TARN_POINTER_LET_GO, "child graph", "a share takes two processes: api_share_graphs closes one that a graph reads") \
    X(TARN_POINTER_LET_GO, "conditional", "a share takes two processes: api_share_graphs closes one that a graph reads") \
    X(TARN_POINTER_LET_GO, "copy", "a share takes two processes: api_share_graphs closes one that a graph reads") \
    X(TARN_POINTER_LET_GO, "set", "a share takes two processes: api_share_graphs closes one that a graph reads") \
    X(TARN_POINTER_LET_GO, "batch", "a share takes two processes: api_share_graphs closes one that a graph reads") \
    X(TARN_POINTER_LET_GO, "host function", "a share takes two processes: api_share_graphs closes one that a graph reads")

/* Test, carrier, mistake. */
#define PLANTED_CELLS(X) \
    X(freed_block_in_a_kernels_parameter, PARAMETER, FREED) \
    X(freed_block_in_a_kernels_struct, STRUCT, FREED) \
    X(freed_block_in_a_packed_buffer, PACKED, FREED) \
    X(freed_block_in_a_child_graphs_kernel, CHILD_KERNEL, FREED) \
    X(freed_block_in_a_bodys_kernel, BODY_KERNEL, FREED) \
    X(freed_block_set_in_a_child_graph, CHILD_SET, FREED) \
    X(freed_block_set_in_a_body, BODY_SET, FREED) \
    X(freed_block_copied_from, COPY_FROM, FREED) \
    X(freed_block_copied_to, COPY_TO, FREED) \
    X(freed_block_copied_from_unified, ANY_FROM, FREED) \
    X(freed_block_uploaded_to, UPLOAD_TO, FREED) \
    X(freed_block_downloaded_from, DOWNLOAD_FROM, FREED) \
    X(freed_block_rows_copied_from, ROWS_FROM, FREED) \
    X(freed_block_rows_copied_to, ROWS_TO, FREED) \
    X(freed_block_set, SET, FREED) \
    X(freed_block_rows_set, SET_ROWS, FREED) \
    X(freed_block_written_by_a_batch, BATCH, FREED) \
    X(freed_block_given_to_a_host_function, ARGUMENT, FREED) \
    X(freed_block_of_the_default_pool_in_a_kernels_parameter, PARAMETER, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_in_a_kernels_struct, STRUCT, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_in_a_packed_buffer, PACKED, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_in_a_child_graphs_kernel, CHILD_KERNEL, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_in_a_bodys_kernel, BODY_KERNEL, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_set_in_a_child_graph, CHILD_SET, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_set_in_a_body, BODY_SET, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_copied_from, COPY_FROM, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_copied_to, COPY_TO, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_copied_from_unified, ANY_FROM, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_uploaded_to, UPLOAD_TO, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_downloaded_from, DOWNLOAD_FROM, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_rows_copied_from, ROWS_FROM, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_rows_copied_to, ROWS_TO, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_set, SET, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_rows_set, SET_ROWS, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_written_by_a_batch, BATCH, FREED_DEFAULT) \
    X(freed_block_of_the_default_pool_given_to_a_host_function, ARGUMENT, FREED_DEFAULT) \
    X(freed_block_of_another_pool_in_a_kernels_parameter, PARAMETER, FREED_OTHER) \
    X(freed_block_of_another_pool_in_a_kernels_struct, STRUCT, FREED_OTHER) \
    X(freed_block_of_another_pool_in_a_packed_buffer, PACKED, FREED_OTHER) \
    X(freed_block_of_another_pool_in_a_child_graphs_kernel, CHILD_KERNEL, FREED_OTHER) \
    X(freed_block_of_another_pool_in_a_bodys_kernel, BODY_KERNEL, FREED_OTHER) \
    X(freed_block_of_another_pool_set_in_a_child_graph, CHILD_SET, FREED_OTHER) \
    X(freed_block_of_another_pool_set_in_a_body, BODY_SET, FREED_OTHER) \
    X(freed_block_of_another_pool_copied_from, COPY_FROM, FREED_OTHER) \
    X(freed_block_of_another_pool_copied_to, COPY_TO, FREED_OTHER) \
    X(freed_block_of_another_pool_copied_from_unified, ANY_FROM, FREED_OTHER) \
    X(freed_block_of_another_pool_uploaded_to, UPLOAD_TO, FREED_OTHER) \
    X(freed_block_of_another_pool_downloaded_from, DOWNLOAD_FROM, FREED_OTHER) \
    X(freed_block_of_another_pool_rows_copied_from, ROWS_FROM, FREED_OTHER) \
    X(freed_block_of_another_pool_rows_copied_to, ROWS_TO, FREED_OTHER) \
    X(freed_block_of_another_pool_set, SET, FREED_OTHER) \
    X(freed_block_of_another_pool_rows_set, SET_ROWS, FREED_OTHER) \
    X(freed_block_of_another_pool_written_by_a_batch, BATCH, FREED_OTHER) \
    X(freed_block_of_another_pool_given_to_a_host_function, ARGUMENT, FREED_OTHER) \
    X(address_used_again_in_a_kernels_parameter, PARAMETER, AGAIN) \
    X(address_used_again_in_a_kernels_struct, STRUCT, AGAIN) \
    X(address_used_again_in_a_packed_buffer, PACKED, AGAIN) \
    X(address_used_again_in_a_child_graphs_kernel, CHILD_KERNEL, AGAIN) \
    X(address_used_again_in_a_bodys_kernel, BODY_KERNEL, AGAIN) \
    X(address_used_again_set_in_a_child_graph, CHILD_SET, AGAIN) \
    X(address_used_again_set_in_a_body, BODY_SET, AGAIN) \
    X(address_used_again_copied_from, COPY_FROM, AGAIN) \
    X(address_used_again_copied_to, COPY_TO, AGAIN) \
    X(address_used_again_copied_from_unified, ANY_FROM, AGAIN) \
    X(address_used_again_uploaded_to, UPLOAD_TO, AGAIN) \
    X(address_used_again_downloaded_from, DOWNLOAD_FROM, AGAIN) \
    X(address_used_again_rows_copied_from, ROWS_FROM, AGAIN) \
    X(address_used_again_rows_copied_to, ROWS_TO, AGAIN) \
    X(address_used_again_set, SET, AGAIN) \
    X(address_used_again_rows_set, SET_ROWS, AGAIN) \
    X(address_used_again_written_by_a_batch, BATCH, AGAIN) \
    X(address_used_again_given_to_a_host_function, ARGUMENT, AGAIN) \
    X(address_used_again_in_another_pool_in_a_kernels_parameter, PARAMETER, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_in_a_kernels_struct, STRUCT, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_in_a_packed_buffer, PACKED, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_in_a_child_graphs_kernel, CHILD_KERNEL, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_in_a_bodys_kernel, BODY_KERNEL, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_set_in_a_child_graph, CHILD_SET, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_set_in_a_body, BODY_SET, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_copied_from, COPY_FROM, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_copied_to, COPY_TO, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_copied_from_unified, ANY_FROM, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_uploaded_to, UPLOAD_TO, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_downloaded_from, DOWNLOAD_FROM, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_rows_copied_from, ROWS_FROM, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_rows_copied_to, ROWS_TO, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_set, SET, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_rows_set, SET_ROWS, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_written_by_a_batch, BATCH, AGAIN_OTHER) \
    X(address_used_again_in_another_pool_given_to_a_host_function, ARGUMENT, AGAIN_OTHER) \
    X(address_used_again_without_a_mark_in_a_kernels_parameter, PARAMETER, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_in_a_kernels_struct, STRUCT, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_in_a_packed_buffer, PACKED, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_in_a_child_graphs_kernel, CHILD_KERNEL, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_in_a_bodys_kernel, BODY_KERNEL, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_set_in_a_child_graph, CHILD_SET, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_set_in_a_body, BODY_SET, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_copied_from, COPY_FROM, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_copied_to, COPY_TO, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_copied_from_unified, ANY_FROM, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_uploaded_to, UPLOAD_TO, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_downloaded_from, DOWNLOAD_FROM, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_rows_copied_from, ROWS_FROM, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_rows_copied_to, ROWS_TO, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_set, SET, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_rows_set, SET_ROWS, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_written_by_a_batch, BATCH, AGAIN_UNMARKED) \
    X(address_used_again_without_a_mark_given_to_a_host_function, ARGUMENT, AGAIN_UNMARKED) \
    X(block_of_another_pools_capture_in_a_kernels_parameter, PARAMETER, UNORDERED) \
    X(block_of_another_pools_capture_in_a_kernels_struct, STRUCT, UNORDERED) \
    X(block_of_another_pools_capture_in_a_packed_buffer, PACKED, UNORDERED) \
    X(block_of_another_pools_capture_in_a_child_graphs_kernel, CHILD_KERNEL, UNORDERED) \
    X(block_of_another_pools_capture_in_a_bodys_kernel, BODY_KERNEL, UNORDERED) \
    X(block_of_another_pools_capture_set_in_a_child_graph, CHILD_SET, UNORDERED) \
    X(block_of_another_pools_capture_set_in_a_body, BODY_SET, UNORDERED) \
    X(block_of_another_pools_capture_copied_from, COPY_FROM, UNORDERED) \
    X(block_of_another_pools_capture_copied_to, COPY_TO, UNORDERED) \
    X(block_of_another_pools_capture_copied_from_unified, ANY_FROM, UNORDERED) \
    X(block_of_another_pools_capture_uploaded_to, UPLOAD_TO, UNORDERED) \
    X(block_of_another_pools_capture_downloaded_from, DOWNLOAD_FROM, UNORDERED) \
    X(block_of_another_pools_capture_rows_copied_from, ROWS_FROM, UNORDERED) \
    X(block_of_another_pools_capture_rows_copied_to, ROWS_TO, UNORDERED) \
    X(block_of_another_pools_capture_set, SET, UNORDERED) \
    X(block_of_another_pools_capture_rows_set, SET_ROWS, UNORDERED) \
    X(block_of_another_pools_capture_written_by_a_batch, BATCH, UNORDERED) \
    X(block_of_another_pools_capture_given_to_a_host_function, ARGUMENT, UNORDERED) \
    X(unmapped_memory_in_a_kernels_parameter, PARAMETER, UNMAPPED) \
    X(unmapped_memory_in_a_kernels_struct, STRUCT, UNMAPPED) \
    X(unmapped_memory_in_a_packed_buffer, PACKED, UNMAPPED) \
    X(unmapped_memory_in_a_child_graphs_kernel, CHILD_KERNEL, UNMAPPED) \
    X(unmapped_memory_in_a_bodys_kernel, BODY_KERNEL, UNMAPPED) \
    X(unmapped_memory_set_in_a_child_graph, CHILD_SET, UNMAPPED) \
    X(unmapped_memory_set_in_a_body, BODY_SET, UNMAPPED) \
    X(unmapped_memory_copied_from, COPY_FROM, UNMAPPED) \
    X(unmapped_memory_copied_to, COPY_TO, UNMAPPED) \
    X(unmapped_memory_copied_from_unified, ANY_FROM, UNMAPPED) \
    X(unmapped_memory_uploaded_to, UPLOAD_TO, UNMAPPED) \
    X(unmapped_memory_downloaded_from, DOWNLOAD_FROM, UNMAPPED) \
    X(unmapped_memory_rows_copied_from, ROWS_FROM, UNMAPPED) \
    X(unmapped_memory_rows_copied_to, ROWS_TO, UNMAPPED) \
    X(unmapped_memory_set, SET, UNMAPPED) \
    X(unmapped_memory_rows_set, SET_ROWS, UNMAPPED) \
    X(unmapped_memory_written_by_a_batch, BATCH, UNMAPPED) \
    X(unmapped_memory_given_to_a_host_function, ARGUMENT, UNMAPPED) \
    X(memory_trimmed_away_in_a_kernels_parameter, PARAMETER, TRIMMED) \
    X(memory_trimmed_away_in_a_kernels_struct, STRUCT, TRIMMED) \
    X(memory_trimmed_away_in_a_packed_buffer, PACKED, TRIMMED) \
    X(memory_trimmed_away_in_a_child_graphs_kernel, CHILD_KERNEL, TRIMMED) \
    X(memory_trimmed_away_in_a_bodys_kernel, BODY_KERNEL, TRIMMED) \
    X(memory_trimmed_away_set_in_a_child_graph, CHILD_SET, TRIMMED) \
    X(memory_trimmed_away_set_in_a_body, BODY_SET, TRIMMED) \
    X(memory_trimmed_away_copied_from, COPY_FROM, TRIMMED) \
    X(memory_trimmed_away_copied_to, COPY_TO, TRIMMED) \
    X(memory_trimmed_away_copied_from_unified, ANY_FROM, TRIMMED) \
    X(memory_trimmed_away_uploaded_to, UPLOAD_TO, TRIMMED) \
    X(memory_trimmed_away_downloaded_from, DOWNLOAD_FROM, TRIMMED) \
    X(memory_trimmed_away_rows_copied_from, ROWS_FROM, TRIMMED) \
    X(memory_trimmed_away_rows_copied_to, ROWS_TO, TRIMMED) \
    X(memory_trimmed_away_set, SET, TRIMMED) \
    X(memory_trimmed_away_rows_set, SET_ROWS, TRIMMED) \
    X(memory_trimmed_away_written_by_a_batch, BATCH, TRIMMED) \
    X(memory_trimmed_away_given_to_a_host_function, ARGUMENT, TRIMMED) \
    X(memory_of_a_destroyed_pool_in_a_kernels_parameter, PARAMETER, DESTROYED) \
    X(memory_of_a_destroyed_pool_in_a_kernels_struct, STRUCT, DESTROYED) \
    X(memory_of_a_destroyed_pool_in_a_packed_buffer, PACKED, DESTROYED) \
    X(memory_of_a_destroyed_pool_in_a_child_graphs_kernel, CHILD_KERNEL, DESTROYED) \
    X(memory_of_a_destroyed_pool_in_a_bodys_kernel, BODY_KERNEL, DESTROYED) \
    X(memory_of_a_destroyed_pool_set_in_a_child_graph, CHILD_SET, DESTROYED) \
    X(memory_of_a_destroyed_pool_set_in_a_body, BODY_SET, DESTROYED) \
    X(memory_of_a_destroyed_pool_copied_from, COPY_FROM, DESTROYED) \
    X(memory_of_a_destroyed_pool_copied_to, COPY_TO, DESTROYED) \
    X(memory_of_a_destroyed_pool_copied_from_unified, ANY_FROM, DESTROYED) \
    X(memory_of_a_destroyed_pool_uploaded_to, UPLOAD_TO, DESTROYED) \
    X(memory_of_a_destroyed_pool_downloaded_from, DOWNLOAD_FROM, DESTROYED) \
    X(memory_of_a_destroyed_pool_rows_copied_from, ROWS_FROM, DESTROYED) \
    X(memory_of_a_destroyed_pool_rows_copied_to, ROWS_TO, DESTROYED) \
    X(memory_of_a_destroyed_pool_set, SET, DESTROYED) \
    X(memory_of_a_destroyed_pool_rows_set, SET_ROWS, DESTROYED) \
    X(memory_of_a_destroyed_pool_written_by_a_batch, BATCH, DESTROYED) \
    X(memory_of_a_destroyed_pool_given_to_a_host_function, ARGUMENT, DESTROYED) \
    X(bytes_beyond_a_block_set_in_a_child_graph, CHILD_SET, BEYOND) \
    X(bytes_beyond_a_block_set_in_a_body, BODY_SET, BEYOND) \
    X(bytes_beyond_a_block_copied_from, COPY_FROM, BEYOND) \
    X(bytes_beyond_a_block_copied_to, COPY_TO, BEYOND) \
    X(bytes_beyond_a_block_copied_from_unified, ANY_FROM, BEYOND) \
    X(bytes_beyond_a_block_uploaded_to, UPLOAD_TO, BEYOND) \
    X(bytes_beyond_a_block_downloaded_from, DOWNLOAD_FROM, BEYOND) \
    X(bytes_beyond_a_block_rows_copied_from, ROWS_FROM, BEYOND) \
    X(bytes_beyond_a_block_rows_copied_to, ROWS_TO, BEYOND) \
    X(bytes_beyond_a_block_set, SET, BEYOND) \
    X(bytes_beyond_a_block_rows_set, SET_ROWS, BEYOND) \
    X(bytes_beyond_a_block_written_by_a_batch, BATCH, BEYOND) \
    X(bytes_beyond_a_smaller_block_than_was_there_set_in_a_child_graph, CHILD_SET, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_set_in_a_body, BODY_SET, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_copied_from, COPY_FROM, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_copied_to, COPY_TO, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_copied_from_unified, ANY_FROM, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_uploaded_to, UPLOAD_TO, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_downloaded_from, DOWNLOAD_FROM, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_rows_copied_from, ROWS_FROM, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_rows_copied_to, ROWS_TO, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_set, SET, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_rows_set, SET_ROWS, BEYOND_SMALLER) \
    X(bytes_beyond_a_smaller_block_than_was_there_written_by_a_batch, BATCH, BEYOND_SMALLER) \
    X(bytes_beyond_linear_memory_set_in_a_child_graph, CHILD_SET, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_set_in_a_body, BODY_SET, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_copied_from, COPY_FROM, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_copied_to, COPY_TO, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_uploaded_to, UPLOAD_TO, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_downloaded_from, DOWNLOAD_FROM, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_rows_copied_from, ROWS_FROM, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_rows_copied_to, ROWS_TO, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_set, SET, BEYOND_LINEAR) \
    X(bytes_beyond_linear_memory_rows_set, SET_ROWS, BEYOND_LINEAR) \
    X(freed_linear_memory_set_in_a_child_graph, CHILD_SET, FREED_LINEAR) \
    X(freed_linear_memory_set_in_a_body, BODY_SET, FREED_LINEAR) \
    X(freed_linear_memory_copied_from, COPY_FROM, FREED_LINEAR) \
    X(freed_linear_memory_copied_to, COPY_TO, FREED_LINEAR) \
    X(freed_linear_memory_uploaded_to, UPLOAD_TO, FREED_LINEAR) \
    X(freed_linear_memory_downloaded_from, DOWNLOAD_FROM, FREED_LINEAR) \
    X(freed_linear_memory_rows_copied_from, ROWS_FROM, FREED_LINEAR) \
    X(freed_linear_memory_rows_copied_to, ROWS_TO, FREED_LINEAR) \
    X(freed_linear_memory_set, SET, FREED_LINEAR) \
    X(freed_linear_memory_rows_set, SET_ROWS, FREED_LINEAR) \
    X(freed_linear_memory_written_by_a_batch, BATCH, FREED_LINEAR) \
    X(pageable_memory_uploaded_from, UPLOAD_FROM, PAGEABLE) \
    X(pageable_memory_downloaded_to, DOWNLOAD_TO, PAGEABLE) \
    X(pageable_memory_copied_from_unified, ANY_FROM, PAGEABLE) \
    X(pageable_memory_uploaded_from_in_a_child_graph, CHILD_UPLOAD_FROM, PAGEABLE) \
    X(unregistered_memory_uploaded_from, UPLOAD_FROM, UNREGISTERED) \
    X(unregistered_memory_downloaded_to, DOWNLOAD_TO, UNREGISTERED) \
    X(unregistered_memory_copied_from_unified, ANY_FROM, UNREGISTERED) \
    X(unregistered_memory_uploaded_from_in_a_child_graph, CHILD_UPLOAD_FROM, UNREGISTERED) \
    X(freed_pinned_memory_uploaded_from, UPLOAD_FROM, FREED_PINNED) \
    X(freed_pinned_memory_downloaded_to, DOWNLOAD_TO, FREED_PINNED) \
    X(freed_pinned_memory_copied_from_unified, ANY_FROM, FREED_PINNED) \
    X(freed_pinned_memory_uploaded_from_in_a_child_graph, CHILD_UPLOAD_FROM, FREED_PINNED) \
    X(freed_pinned_memory_uploaded_from_in_a_body, BODY_UPLOAD_FROM, FREED_PINNED) \
    X(later_graphs_block_in_a_kernels_parameter, PARAMETER, OVERWRITES) \
    X(later_graphs_block_in_a_kernels_struct, STRUCT, OVERWRITES) \
    X(later_graphs_block_in_a_packed_buffer, PACKED, OVERWRITES) \
    X(later_graphs_block_in_a_child_graphs_kernel, CHILD_KERNEL, OVERWRITES) \
    X(later_graphs_block_set_in_a_child_graph, CHILD_SET, OVERWRITES) \
    X(later_graphs_block_in_a_bodys_kernel, BODY_KERNEL, OVERWRITES) \
    X(later_graphs_block_set_in_a_body, BODY_SET, OVERWRITES) \
    X(later_graphs_block_copied_to, COPY_TO, OVERWRITES) \
    X(later_graphs_block_uploaded_to, UPLOAD_TO, OVERWRITES) \
    X(later_graphs_block_rows_copied_to, ROWS_TO, OVERWRITES) \
    X(later_graphs_block_set, SET, OVERWRITES) \
    X(later_graphs_block_rows_set, SET_ROWS, OVERWRITES) \
    X(later_graphs_block_written_by_a_batch, BATCH, OVERWRITES)

// clang-format on

#endif
