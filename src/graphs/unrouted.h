// SPDX-License-Identifier: Apache-2.0
/* unrouted.h -- allocations in captures that no route leads to a private pool.
 *
 * Without further measures the graph would outlive the memory. The device's option decides:
 *   adopt   the capture gets a pool of its own, made at its first unrouted allocation and
 *           released at once: it goes with its last block and with the capture's graph, whose user
 *           object is its hold
 *   refuse  UNROUTED
 *   allow   the default pool serves them as ordinary memory, which no graph holds
 *
 * Locking: no lock may be held. */
#ifndef TARN_GRAPHS_UNROUTED_H
#define TARN_GRAPHS_UNROUTED_H

#include "graphs/capture.h"
#include "pools/allocate.h"

/* Serves the request, whose order is that of the stream in a capture.
 *   UNROUTED; what tn_capture_admit and tn_pool_allocate may answer */
TARN_MUST_CHECK tarn_status tn_unrouted_allocate(tarn_device *device,
                                                 const struct tn_request *request,
                                                 tarn_stream stream, void **address);

#endif
