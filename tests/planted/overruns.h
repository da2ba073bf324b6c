// SPDX-License-Identifier: Apache-2.0
/* overruns.h -- single accesses of kernels that are wrong, inside pools on a device that tells a tool of its
 * blocks. Each goes by a number: of the kind, and of the block's size. */
#ifndef TARN_TESTS_PLANTED_OVERRUNS_H
#define TARN_TESTS_PLANTED_OVERRUNS_H

#include "support/world.h"

/* A wrong access of 4 bytes on its way. */
struct overrun {
    const char *kind;
    size_t bytes;  /* of the block */
    char *block;   /* that the program means, or meant: live, or freed */
    char *address; /* where the access is */
    bool reads;
    tarn_graph *graph; /* whose replay has the access; NULL: the access is made by itself */
    char *left;        /* a live block that is to be freed; NULL: none */
};

int overrun_count(void);

/* Makes the number's blocks and graphs in the world's pools, and no wrong access yet. */
void overrun_prepare(int number, struct overrun *overrun);

/* Enqueues the access on the world's stream. */
void overrun_enqueue(const struct overrun *overrun);

/* Frees what the number has made. */
void overrun_end(struct overrun *overrun);

/* What correct programs do: nothing in it is to be named. */
void overrun_do_nothing_wrong(void);

#endif
