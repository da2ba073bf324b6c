// SPDX-License-Identifier: Apache-2.0
/* metrics.h -- the numbers of a device and its pools, for programs that watch many processes.
 *
 *   tarn_device_write_metrics(device, TARN_METRICS_PROMETHEUS, 0, write_to_client, client);
 *
 * The text is Prometheus' own, or JSON. It has the highest values since the last text, and the
 * device's memory that is not Tarn's. docs/metrics.md lists all numbers. */
#ifndef TARN_METRICS_H
#define TARN_METRICS_H

#include "tarn/snapshot.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tarn_metrics_format {
    /* text exposition format 0.0.4, of the media type "text/plain; version=0.0.4" */
    TARN_METRICS_PROMETHEUS = 0,
    /* one object: the device's numbers, and an object for each pool */
    TARN_METRICS_JSON = 1,
} tarn_metrics_format;

/* how many programs can take metrics of a device, each with peaks of its own */
#define TARN_SCRAPERS 4

/* Writes the metrics of a device. The writer gets up to 4 KiB at a time. Each pool is shown at a
 * moment of its own, and is locked for this moment alone. A pool that goes meanwhile may be absent
 * from the rest of the text.
 *
 * scraper: 0 to TARN_SCRAPERS - 1. Peaks are the highest values since the last call of the same
 * scraper that answered TARN_OK, or since the beginning. Peaks of tarn_stats, and their resets, do
 * not matter. Peaks of mapped and pending bytes are exact. The peak of a pool's live bytes is exact
 * where one stream allocates, and else never too low.
 *
 * The call takes no host memory and makes no context. It asks the driver for the device's free
 * memory alone. Numbers that the driver does not tell are left out; in JSON they are null. Any
 * thread may call, while any stream is being captured, and within callbacks of tarn/pressure.h.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  writer is NULL.
 *                     The format is unknown.
 *                     scraper is not in its range.
 *   BUSY              A call of the same scraper is not over.
 *   LIMIT             The writer answered so: there is no room for more.
 * Another status of the writer ends the call likewise, and is the call's answer. The next call of
 * the scraper then has the peaks of this one, too. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_write_metrics(tarn_device *device,
                                                               tarn_metrics_format format,
                                                               int scraper, tarn_writer writer,
                                                               void *user);

#ifdef __cplusplus
}
#endif
#endif
