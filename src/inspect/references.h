// SPDX-License-Identifier: Apache-2.0
/* references.h -- every address that the nodes of a graph name.
 *
 * The driver tells which parameters of a copy, a set or a batch are addresses. It does not tell
 * this of a kernel's parameters. Each word of eight bytes of a parameter, structs included, at a
 * multiple of eight bytes, counts as an address if it lies in one of three places:
 * - memory that Tarn has, or had before;
 * - memory of the graph's own allocation nodes;
 * - other memory that the driver knows.
 *
 * A number that happens to be such an address counts, too. Addresses that lie in memory, or that a
 * kernel computes, are not seen.
 *
 * Locking: none. The graph and its functions must not be changed or destroyed meanwhile. Nothing
 * waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_REFERENCES_H
#define TARN_INSPECT_REFERENCES_H

#include "inspect/collection.h"

/* Opens an empty record for a graph and bodies of its conditional nodes, and finds the nodes.
 * regions: their addresses are Tarn's also where they have no memory; they must stay until the
 * record is dropped.
 *   INVALID_ARGUMENT: a body's node is no conditional node of the graph;
 *   LIMIT: the graph has 2^32 nodes or more;
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: the record is empty again */
TARN_MUST_CHECK tarn_status tn_references_open(struct tn_references *references,
                                               struct tn_regions *regions, tn_cu_graph graph,
                                               const tarn_audit_body *bodies, size_t body_count);

/* Reads further nodes, several together, in place of the nodes read before, until they name
 * `enough` addresses or more, or until all nodes are read.
 *   INVALID_ARGUMENT: the graph is of another device;
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: the record can only be dropped */
TARN_MUST_CHECK tarn_status tn_references_read(struct tn_references *references, size_t enough);

/* Whether unread nodes are left. */
static inline bool tn_references_go_on(const struct tn_references *references)
{
    return references->next < references->node_count;
}

/* Opens the record and reads all nodes. Returns what these two may return: then the record is empty
 * again. */
TARN_MUST_CHECK tarn_status tn_references_collect(struct tn_references *references,
                                                  struct tn_regions *regions, tn_cu_graph graph,
                                                  const tarn_audit_body *bodies, size_t body_count);

/* Adds a reference to those read last; false when there is no memory. */
bool tn_references_add(struct tn_references *references, const struct tn_reference *reference);

/* Whether an allocation node gives memory at the address. */
bool tn_references_give(const struct tn_references *references, uint64_t address);

/* Gives up the state that reading needs: nodes, levels and names are left. */
void tn_references_finish(struct tn_references *references);
void tn_references_drop(struct tn_references *references);

#endif
