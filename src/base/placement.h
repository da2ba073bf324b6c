// SPDX-License-Identifier: Apache-2.0
/* placement.h -- where the system puts a process's pages: on which NUMA node, in which size.
 *
 * The system provides a page at the first write to it, and takes it from the node of the thread that
 * writes, or from the node that the memory is bound to. Page-locked pages never move afterwards.
 *
 * A refusal of the system is no failure: sandboxes forbid some of these calls, and kernels lack
 * others. The memory works all the same, more slowly.
 *
 * Locking: none; any thread. Touching waits for the system, and belongs under no lock. */
#ifndef TARN_BASE_PLACEMENT_H
#define TARN_BASE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN_PLACEMENT_ANYWHERE = -1 }; /* a node, where there is no choice */

/* Has the system take pages of these addresses from the node, while the node has any. False: the
 * system refuses. memory: a multiple of the system's page. */
bool tn_placement_bind(void *memory, size_t bytes, int node);

/* Has the calling thread run on processors of the node alone, as far as it may run there. False: it
 * runs where it ran before. */
bool tn_placement_run_on(int node);

/* Writes a zero to each page: to fresh memory, which is all zeros. Other threads may touch other
 * parts of it meanwhile. */
void tn_placement_touch(void *memory, size_t bytes);

/* Looks at a page every step bytes, all of them touched. *counted: the pages that were looked at;
 * *elsewhere: those on other nodes. False: the system does not say. */
bool tn_placement_find(const void *memory, size_t bytes, size_t step, int node, uint64_t *counted,
                       uint64_t *elsewhere);

/* How many of these bytes are in huge pages; 0, too, where the system does not say. Reads a file of
 * the system's that has a line for each mapping of the process: for rare looks. */
uint64_t tn_placement_huge_bytes(const void *memory, size_t bytes);

#endif
