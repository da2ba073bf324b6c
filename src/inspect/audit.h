// SPDX-License-Identifier: Apache-2.0
/* audit.h -- every pointer of a graph, with its class.
 *
 *   G6  each address that the nodes name counts in exactly one class
 *
 * Locking: none may be held. Nothing waits for the GPU or disturbs a capture, but for a scan. */
#ifndef TARN_INSPECT_AUDIT_H
#define TARN_INSPECT_AUDIT_H

#include "inspect/references.h"
#include "pools/device.h"
#include "tarn/audit.h"

/* The graph to look through, and how to see it. */
struct tn_audit_subject {
    tn_cu_graph graph;
    /* The own pool, which the caller keeps; NULL: none. */
    tarn_pool *pool;
    uint64_t mark;                 /* 0: none */
    const struct tn_watch *keeper; /* of the graph's guard; NULL: none */
    bool is_guarded;               /* overwriting is a mistake */
    /* A tarn_graph's. Other threads read it, too, with the device's GRAPHS lock. */
    bool is_listed;
};

/* Which pointers an audit lists, besides the mistakes. */
enum tn_audit_list {
    TN_LIST_NONE,
    TN_LIST_ALL,
    /* The first pointer into each live block that the graph does not hold. Left out are mistakes
     * without a live block of their own: see tn_pointer_is_dead. */
    TN_LIST_NOT_HELD,
};

/* Returns what tarn_driver_graph_audit may return. */
TARN_MUST_CHECK tarn_status tn_audit(tarn_device *device, const struct tn_audit_subject *subject,
                                     const tarn_audit_options *options, enum tn_audit_list list,
                                     tarn_audit **audit);
void tn_audit_drop(tarn_audit *audit);
size_t tn_audit_listed(const tarn_audit *audit); /* the number of listed pointers */

/* Whether the block that the pointer meant is gone. */
static inline bool tn_pointer_is_dead(tarn_pointer_class pointer_class)
{
    return pointer_class == TARN_POINTER_FREED || pointer_class == TARN_POINTER_FREED_EXTERNAL ||
           pointer_class == TARN_POINTER_USED_AGAIN || pointer_class == TARN_POINTER_UNMAPPED ||
           pointer_class == TARN_POINTER_LET_GO;
}

static inline bool tn_pointer_is_mistake(tarn_pointer_class pointer_class)
{
#define TN_POINTER_MISTAKE(name, number, text, mistake, what) ((mistake) ? 1u << (number) : 0) |
    const uint32_t mistakes = TARN_POINTER_TABLE(TN_POINTER_MISTAKE) 0;
#undef TN_POINTER_MISTAKE

    return (mistakes >> pointer_class & 1) != 0;
}

const char *tn_pointer_class_name(tarn_pointer_class pointer_class);
const char *tn_pointer_class_sentence(tarn_pointer_class pointer_class);

/* Writes the pointer's place in the graph, and its block: as much as capacity bytes hold, and a
 * zero byte. */
void tn_audit_write_pointer(const tarn_audit *audit, const tarn_pointer *pointer, char *buffer,
                            size_t capacity);

/* Writes as much as capacity bytes hold, and a zero byte. Returns the length of the whole, without
 * the zero byte. */
size_t tn_audit_write_report(const tarn_audit *audit, tarn_report_format format, char *buffer,
                             size_t capacity);

#endif
