// SPDX-License-Identifier: Apache-2.0
/* breaks.h -- the ways in which a program breaks a capture, each by a call of its own to the driver.
 *
 * Each asserts that the driver answers as it does on a GPU (tests/contract), and leaves the stream's capture
 * invalidated. The stream was made by test_blocking_stream, and is captured by this thread, not relaxed. */
#ifndef TARN_TESTS_SUPPORT_BREAKS_H
#define TARN_TESTS_SUPPORT_BREAKS_H

#include "support/cuda.h"

struct test_break {
    const char *name;
    void (*call)(tn_cu_stream stream);
};

enum { TEST_BREAKS = 10 };
extern const struct test_break test_breaks[TEST_BREAKS];

/* Waits on one captured stream for an event of another capture's, which breaks both. */
void test_merge_captures(tn_cu_stream first, tn_cu_stream then);

/* Asks for the end of a capture on a stream that was forked into it. */
void test_end_on_fork(tn_cu_stream fork);

/* A launch of an executable of the program's into a capture. */
void test_launch_into_capture(tn_cu_graphexec exec, tn_cu_stream stream);

/* A wait for an event that was recorded outside of captures. */
void test_wait_outside(tn_cu_stream stream);

#endif
