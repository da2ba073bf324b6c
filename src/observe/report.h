// SPDX-License-Identifier: Apache-2.0
/* report.h -- statistics as text, for people and for programs that read JSON.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_REPORT_H
#define TARN_OBSERVE_REPORT_H

#include "tarn/stats.h"

/* Writes as much as capacity bytes hold, and a zero byte. Returns the length of the whole, without
 * it. */
size_t tn_pool_write_report(tarn_pool *pool, tarn_report_format format, char *buffer,
                            size_t capacity);
size_t tn_device_write_report(tarn_device *device, tarn_report_format format, char *buffer,
                              size_t capacity);

#endif
