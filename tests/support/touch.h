// SPDX-License-Identifier: Apache-2.0
/* touch.h -- what a model of the library needs of the driver beside support/world.h: a kernel that
 * looks at a block and writes it, marks on streams, and the control of what captures forbid.
 *
 * For the simulator alone. Unless said otherwise, what is called here must be called relaxed: looking
 * is not to break what is being captured. */
#ifndef TARN_TESTS_SUPPORT_TOUCH_H
#define TARN_TESTS_SUPPORT_TOUCH_H

#include "support/world.h"

/* Starts the driver with two devices, and registers the kernel; any number of times. */
void touch_start(void);

int touch_device_count(void);

/* Sets the calling thread's capture mode: relaxed, or the global one that threads begin with. */
void touch_relax(bool relaxed);

struct touch {
    void *address;
    size_t bytes;
    uint64_t serial; /* names the block in reports */
    uint32_t value;  /* expected before, when known */
    uint32_t next;   /* written, when writes */
    bool known;
    bool writes;
};

/* Enqueues the kernel: it compares the first and last words of the block, and one in every 256 KiB,
 * with a pattern made of the value and their position, and then writes that of the next value. */
void touch(tn_cu_stream stream, const struct touch *touch);

/* The first mismatch that a kernel has met since the last call of this, as a sentence; NULL: none.
 * Of work that is done. */
const char *touch_mismatch(void);

/* A mark behind the work of a stream that is not being captured. */
tn_cu_event touch_mark(tn_cu_stream stream);
bool touch_is_passed(tn_cu_event mark);
void touch_await(tn_cu_event mark);
void touch_come_after(tn_cu_stream stream, tn_cu_event mark); /* NULL is allowed: nothing */
void touch_forget(tn_cu_event mark);                          /* NULL is allowed */

/* Synchronises a stream that is not being captured. */
void touch_synchronize(tn_cu_stream stream);

/* Invalidates the capture that the stream is in. */
void touch_break(tn_cu_stream stream);

/* Executable graphs that the library does not know of. */
tn_cu_graphexec touch_instantiate(tn_cu_graph graph);
void touch_launch(tn_cu_graphexec exec, tn_cu_stream stream);
void touch_end_exec(tn_cu_graphexec exec);

#endif
