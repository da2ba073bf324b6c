// SPDX-License-Identifier: Apache-2.0
/* stop.h -- how the driver's capture of a tarn_capture ends, and what the program hears of a
 * capture that cannot end.
 *
 * The words for a capture that broke: graphs/broken.h, driver/result.h.
 *
 * Locking: none may be held. */
#ifndef TARN_GRAPHS_STOP_H
#define TARN_GRAPHS_STOP_H

#include "graphs/record.h"

/* Ends the driver's capture: OPEN to STOPPED, with the section in the record; or to BROKEN.
 *   CAPTURE_BROKEN: the capture cannot be ended, and stays OPEN if the driver has it still,
 *   invalidated; DEVICE_LOST, DRIVER: the capture goes on */
TARN_MUST_CHECK tarn_status tn_capture_take_section(tarn_capture *capture);

/* CAPTURE_BROKEN, for a capture that is BROKEN, or that the driver has dropped. */
TARN_MUST_CHECK tarn_status tn_capture_refuse_end(const tarn_capture *capture);

/* Whether the hold says that the driver has dropped the capture. Then nobody may touch the stream,
 * which may be gone too. *graph, unless `graph` is NULL: the graph of the capture; NULL: dropped by
 * the driver, or not known. */
bool tn_capture_is_dropped(const tarn_capture *capture, tn_cu_graph *graph);

#endif
