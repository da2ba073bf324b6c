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

void test_add_empty(tn_cu_graph graph); /* behind no other node */

/* The graph that the stream is being captured into. */
tn_cu_graph test_graph_of_capture(tn_cu_stream stream);

#endif
