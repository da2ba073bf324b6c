// SPDX-License-Identifier: Apache-2.0
/* bodies.h -- graphs in graphs: conditional nodes in a graph being captured, and child nodes. */
#ifndef TARN_TESTS_SUPPORT_BODIES_H
#define TARN_TESTS_SUPPORT_BODIES_H

#include "support/cuda.h"

enum { TEST_BODIES_MAX = 4 };

struct test_node {
    tn_cu_graph bodies[TEST_BODIES_MAX];
};

/* Adds a conditional node of that many bodies behind what the capturing stream has, and the stream's next
 * work behind it. Each launch begins with the value: which body runs. */
struct test_node test_add_conditional(tn_cu_stream stream, tn_cu_conditional_type type,
                                      unsigned int size, unsigned int value);

tn_cu_graph test_graph(void);                              /* an empty one */
void test_add_child(tn_cu_graph graph, tn_cu_graph child); /* a node, behind no other */

#endif
