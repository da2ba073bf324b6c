// SPDX-License-Identifier: Apache-2.0
/* plant.h -- graphs with one mistake between correct nodes, and what an audit must say of it.
 *
 * No such graph is ever launched. A test leaves nothing behind: on a GPU all run in one process. */
#ifndef TARN_TESTS_PLANTED_PLANT_H
#define TARN_TESTS_PLANTED_PLANT_H

#include "planted/cells.h"
#include "support/world.h"

enum planted_carrier {
#define PLANTED_CARRIER(name, column) CARRIER_##name,
    PLANTED_CARRIERS(PLANTED_CARRIER)
#undef PLANTED_CARRIER
};

enum planted_mistake {
#define PLANTED_MISTAKE(name, pointer_class) MISTAKE_##name,
    PLANTED_MISTAKES(PLANTED_MISTAKE)
#undef PLANTED_MISTAKE
};

enum {
    PLANTED_BLOCK_BYTES = 4096,
    PLANTED_TOUCHED_MAX = 2048, /* by one node */
};

/* One mistake on its way. */
struct planted {
    size_t touched; /* bytes of the node; 0: not known */
    size_t inner;   /* where in its block the node's address lies, where the mistake does not say */
    char *address;  /* that the node names */
    bool is_made;   /* what the driver decides may leave nothing to judge */
    tarn_pointer expected; /* class, device, address, block and pool: what an audit must say */
    /* What the mistake is made of: */
    char *base;
    void *kept; /* a block that lives on, or NULL */
    tarn_pool *other;
    tarn_graph *elsewhere;
    char pageable[PLANTED_TOUCHED_MAX];
};

/* How a mistake is made; NULL: nothing is to be done then. */
struct planted_kind {
    void (*prepare)(struct planted *planted); /* before the capture: gives the address */
    void (*begin)(struct planted *planted);   /* first in the capture; or it gives the address */
    void (*change)(
        struct planted *planted); /* in the capture, between the first node and the mistake */
    void (*end)(struct planted *planted);   /* last in the capture */
    void (*spoil)(struct planted *planted); /* after the capture's end and its mark */
    void (*clean)(struct planted *planted); /* when the graph is gone */
    bool is_unmarked; /* an audit of the program's graph is not told where its capture ended */
};
extern const struct planted_kind planted_kinds[]; /* by planted_mistake */

/* Fixtures: a world with two outputs of the default pool; and whose capture planted_try makes. */
void planted_open_for_tarn(void);
void planted_open_for_the_program(void);
void planted_close(void);

/* Makes the graph, audits it, judges what is found. */
void planted_try(enum planted_carrier carrier, enum planted_mistake mistake);

/* A kernel with three parameters: an address, a number, and a struct of three words of eight bytes; launched with an
 * array of them, or packed. */
struct planted_params {
    uint64_t first;
    uint32_t number;
    uint64_t block[3];
};
#define PLANTED_KERNEL "planted_kernel"
void planted_launch(tn_cu_stream stream, const struct planted_params *params);
void planted_launch_packed(tn_cu_stream stream, const struct planted_params *params);

static inline uint64_t planted_word(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

#endif
