// SPDX-License-Identifier: Apache-2.0
/* order.h -- orders of work, which memory belongs to.
 *
 * The layers below pools know streams and captures by these numbers alone. driver/stream.h turns a
 * handle into an order.
 *
 * Locking: none. */
#ifndef TARN_BASE_ORDER_H
#define TARN_BASE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* An order of work: a stream outside captures, or a stream within one capture. */
struct tn_order {
    uint64_t stream_id;  /* in a capture: the handle's value; odd: a per-thread default stream's */
    uint64_t capture_id; /* 0: the stream is not being captured */
};

/* Belongs to no order: memory in which only recorded uses run. */
#define TN_ORDER_NONE ((struct tn_order){UINT64_MAX - 1, 0})

/* Of memory of the host: the order of the calling threads, whatever streams and captures do. */
#define TN_ORDER_HOST ((struct tn_order){UINT64_MAX - 3, 0})

static inline bool tn_order_equal(struct tn_order a, struct tn_order b)
{
    return ((a.stream_id ^ b.stream_id) | (a.capture_id ^ b.capture_id)) == 0; /* one jump */
}

#endif
