// SPDX-License-Identifier: Apache-2.0
/* nodes.h -- graphs with nodes of each kind: what captures of streams record, and what is added by hand.
 *
 * All calls assert that the driver does as it was asked. */
#ifndef TARN_TESTS_SUPPORT_NODES_H
#define TARN_TESTS_SUPPORT_NODES_H

#include "support/cuda.h"

/* The entry of a module of that text, loaded for good, as is its code: on the simulator that does nothing. */
tn_cu_function test_kernel(const char *ptx, const char *entry);

/* Launches it as one thread, with its parameters as the driver takes them: values or extra may be NULL. */
void test_launch_kernel(tn_cu_stream stream, tn_cu_function function, void **values, void **extra);

/* The same with a grid, a block and bytes of shared memory. */
void test_launch_shaped(tn_cu_stream stream, tn_cu_function function, const uint32_t shape[7],
                        void **values);

void test_copy_down(tn_cu_stream stream, void *to, const void *from, size_t bytes);
void test_copy_up(tn_cu_stream stream, void *to, const void *from, size_t bytes);
void test_copy_any(tn_cu_stream stream, void *to, const void *from, size_t bytes);
void test_call_host(tn_cu_stream stream, tn_cu_hostfn function, void *user);
void test_write_value(tn_cu_stream stream, void *address, uint32_t value); /* as a batch of one */

/* Nodes of the driver's own memory, where the stream is being captured. */
void *test_allocate_node(tn_cu_stream stream, size_t bytes);
void test_free_node(tn_cu_stream stream, void *address);
void test_trim_nodes(void); /* what the driver has for them, and no graph uses, goes */

/* Nodes for an event of the program's, where the stream is being captured. */
tn_cu_event test_event(void);
void test_event_destroy(tn_cu_event event);
void test_record_node(tn_cu_stream stream, tn_cu_event event);
void test_wait_node(tn_cu_stream stream, tn_cu_event event);

void test_add_empty(tn_cu_graph graph);                            /* behind no other node */
void test_add_set(tn_cu_graph graph, void *address, size_t words); /* the same */

/* Nodes that no call on a stream records, behind what the capturing stream has, and its next work behind
 * them: a set and a copy of so many rows, a pitch apart, a copy of planes of rows, and a child graph. */
void test_set_rows(tn_cu_stream stream, void *address, size_t width, size_t pitch, size_t rows);
void test_copy_rows(tn_cu_stream stream, void *to, const void *from, size_t width, size_t pitch,
                    size_t rows);
void test_copy_planes(tn_cu_stream stream, const tn_cu_memcpy3d *copy);
void test_nest(tn_cu_stream stream, tn_cu_graph child);

/* The executable does what the graph says from now on, and nobody tells the library. */
void test_update_exec(tn_cu_graphexec exec, tn_cu_graph graph);

/* The graph that the stream is being captured into. */
tn_cu_graph test_graph_of_capture(tn_cu_stream stream);

/* A capture of the stream into that graph, behind none of its nodes. */
void test_begin_capture_to(tn_cu_stream stream, tn_cu_graph graph);

/* The host's memory, page-locked in place. */
void test_host_register(void *memory, size_t bytes);
void test_host_unregister(void *memory);

#endif
