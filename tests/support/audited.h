// SPDX-License-Identifier: Apache-2.0
/* audited.h -- for suites of audits: a graph that copies an input to an output, and what looks through it. */
#ifndef TARN_TESTS_AUDITED_H
#define TARN_TESTS_AUDITED_H

#include "support/world.h"

enum { WORDS = 1 << 10, BYTES = WORDS * 4 };

static char *input; /* of the default pool; NULL: a test has freed it */
static char *output;
static tarn_audit *audit;
static tarn_audit_options options;

static inline void open_world(void)
{
    test_world_open();
    input = test_alloc(world.default_pool, BYTES, world.stream);
    output = test_alloc(world.default_pool, BYTES, world.stream);
    audit = NULL;
    options = (tarn_audit_options)TARN_AUDIT_OPTIONS_INIT;
}

static inline void close_world(void)
{
    tarn_audit_destroy(audit);
    if (input != NULL)
        OK(tarn_free(input));
    OK(tarn_free(output));
    test_world_close();
}

/* Copies the input through a temporary block of the world's pool to the output: two nodes. */
static inline void copy_through(void)
{
    void *temporary = test_malloc(BYTES);

    test_copy(world.stream, temporary, input, BYTES);
    test_copy(world.stream, output, temporary, BYTES);
    OK(tarn_free(temporary));
}

static inline tarn_graph *make_graph(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);

    copy_through();
    return test_capture_end(capture);
}

#endif
