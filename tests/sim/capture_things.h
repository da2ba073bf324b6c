// SPDX-License-Identifier: Apache-2.0
/* capture_things.h -- what the tests of captures share: things for calls to work on, made before a
 * capture, and ways to begin, look at and end one. */
#ifndef TARN_TESTS_CAPTURE_THINGS_H
#define TARN_TESTS_CAPTURE_THINGS_H

#include "sim_test.h"

struct capture_things {
    tn_cu_context context;
    tn_cu_stream stream; /* non-blocking */
    tn_cu_event event;   /* recorded there */
    tn_cu_deviceptr linear;
    void *host;
    tn_cu_graph graph; /* empty */
    tn_cu_graphexec exec;
    struct kernels kernels;
    struct mapped mapped;
};
extern struct capture_things there;

/* Set-up: the driver started, device 0's context current, and things made. */
void make_capture_things(void);

/* A new stream that captures. */
tn_cu_stream capturing(unsigned int flags, tn_cu_capture_mode mode);

/* Ends a capture and returns its graph: none unless success is expected. */
tn_cu_graph end_capture(tn_cu_stream stream, tn_cu_result expected);

/* Assert the state of a stream's capture. */
void is_active(tn_cu_stream stream);
void is_invalidated(tn_cu_stream stream);
void is_idle(tn_cu_stream stream);

size_t node_count(tn_cu_graph graph);

/* An unsafe call. */
tn_cu_result alloc_linear(void);

#endif
