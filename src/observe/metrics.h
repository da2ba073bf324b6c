// SPDX-License-Identifier: Apache-2.0
/* metrics.h -- the numbers of a device and its pools as Prometheus' text, or as JSON.
 *
 * Locking: none may be held; the device's and each pool's are taken in turn. */
#ifndef TARN_OBSERVE_METRICS_H
#define TARN_OBSERVE_METRICS_H

#include "pools/device.h"
#include "tarn/metrics.h"

/* BUSY; the writer's status */
TARN_MUST_CHECK tarn_status tn_device_write_metrics(tarn_device *device, tarn_metrics_format format,
                                                    int scraper, tarn_writer writer, void *user);

#endif
