// SPDX-License-Identifier: Apache-2.0
/* stress.h -- a thread of the stress tests: what it owns, and what must be in its memory.
 *
 * A thread has physical handles, each with a few tracked areas of one value, and slots of addresses
 * that it maps them at. An area's value changes in the order of one stream; when another stream is
 * to touch it, an event orders that one behind (stress_order). */
#ifndef TARN_TESTS_STRESS_H
#define TARN_TESTS_STRESS_H

#include <stdatomic.h>

#include "support/cuda.h"

enum {
    THREADS = 64,
    STREAMS = 4, /* of each thread: 256 in all */
    CAPTURES = 16,
    FIXED_SLOTS = 2, /* always mapped: what graphs name */
    SLOTS = 5,
    HANDLES = 6,
    AREAS = 4,
    AREA_WORDS = 256,
    AREA_STRIDE = 64 << 10,
    EXECS = 3,
    EFFECTS = 6,
    OBJECTS = 4,
    FILES_MAX = 1024, /* the soft limit of open files, and vm.max_map_count */
    MAPPINGS_MAX = 65530,
    SAMPLE_MS = 50,
};
#define SLOT_BYTES (2 * MIB)
#define UNORDERED (-1) /* an area that no stream has unfinished work on */

struct area {
    uint32_t value; /* of each word, when its stream gets there */
    int stream;     /* that it was last touched in the order of, or UNORDERED */
};

struct physical {
    tn_cu_memhandle handle;
    int slot;    /* that it is mapped at, or -1 */
    bool fresh;  /* nothing has been written to it */
    bool shared; /* it was made to be exported */
    struct area areas[AREAS];
};

enum effect_kind { EFFECT_FILL, EFFECT_ADD, EFFECT_COPY, EFFECT_HOST, EFFECT_KINDS };

/* What a node of a graph does to the areas of the slots; EFFECT_HOST only calls a host function. */
struct effect {
    enum effect_kind kind;
    int slot;
    int area;
    int from; /* the area of the same slot that is copied */
    uint32_t value;
};

struct exec {
    tn_cu_graphexec exec; /* NULL: none */
    bool built;           /* by hand: it is a chain of memset nodes */
    bool nested;          /* the chain is a child graph */
    size_t count;
    struct effect effects[EFFECTS];
};

struct thread {
    int number;
    uint64_t random;
    uint64_t calls;
    uint64_t quota;
    tn_cu_stream streams[STREAMS];
    tn_cu_event event; /* orders streams */
    tn_cu_deviceptr base;
    struct physical handles[HANDLES];
    int mapped[SLOTS]; /* the handle at each slot, or -1 */
    struct exec execs[EXECS];
    tn_cu_userobject objects[OBJECTS];
    uint32_t *host; /* page-locked, an area's size */

    /* A capture under way, on stream 0, with stream 1 forked from it. */
    bool capturing;
    bool relaxed; /* it was begun so */
    bool forked;
    struct exec captured;
};

/* Host functions that are to run, and that have run. */
extern atomic_uint_fast64_t stress_callbacks_due;
extern atomic_uint_fast64_t stress_callbacks_run;

/* Calls that are counted and must give SUCCESS, or the result that is named. Unsafe ones are made in relaxed
 * mode while the thread has a capture. */
#define DO(call)                                                                                   \
    do {                                                                                           \
        t->calls++;                                                                                \
        CU_OK(call);                                                                               \
    } while (0)
#define DO_GIVING(result, call)                                                                    \
    do {                                                                                           \
        t->calls++;                                                                                \
        ck_assert_int_eq((int)(call), (int)(result));                                              \
    } while (0)
#define DO_UNSAFE(call)                                                                            \
    do {                                                                                           \
        stress_enter_unsafe(t);                                                                    \
        DO(call);                                                                                  \
        stress_leave_unsafe(t);                                                                    \
    } while (0)

uint64_t stress_random(struct thread *t);
int stress_below(struct thread *t, int limit);
void stress_enter_unsafe(struct thread *t);
void stress_leave_unsafe(struct thread *t);

/* The address of a slot, and of an area of what is mapped there. */
tn_cu_deviceptr stress_slot(const struct thread *t, int slot);
tn_cu_deviceptr stress_address(const struct thread *t, int slot, int area);
struct area *stress_area(struct thread *t, int slot, int area);

/* A stream that takes no part in the capture; a slot where something is mapped. */
int stress_usable_stream(struct thread *t);
int stress_mapped_slot(struct thread *t);

/* Lets a stream touch an area after those that did so before. */
void stress_order(struct thread *t, struct area *area, int stream);

/* Waits for a stream; nothing is unfinished in it then. */
void stress_settle(struct thread *t, int stream);

/* Maps a handle at an address, with access. */
void stress_lay(struct thread *t, tn_cu_memhandle handle, tn_cu_deviceptr address);

void stress_make_handle(struct thread *t, struct physical *physical);
void stress_map(struct thread *t, int handle, int slot);
void stress_unmap(struct thread *t, int slot); /* waits for what is unfinished there */

/* A random effect on an area of the slot; to make it happen in the order of a stream, or become a
 * node; and what it does to what must be there. */
struct effect stress_choose_effect(struct thread *t, int slot);
void stress_enqueue(struct thread *t, const struct effect *effect, tn_cu_stream stream);
void stress_apply(struct thread *t, const struct effect *effect);

/* Reads an area back and compares every word; the other one reads it through another mapping of what
 * the slot has. */
void stress_verify(struct thread *t, int slot, int number);
void stress_verify_at(struct thread *t, tn_cu_deviceptr base, int slot, int number);

#endif
