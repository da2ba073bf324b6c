// SPDX-License-Identifier: Apache-2.0
#include "tarn/metrics.h"

#include "api/call.h"
#include "observe/metrics.h"

tarn_status tarn_device_write_metrics(tarn_device *device, tarn_metrics_format format, int scraper,
                                      tarn_writer writer, void *user)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (writer == NULL)
        return tn_bad_argument("writer is NULL: nobody takes the bytes");
    if (format != TARN_METRICS_PROMETHEUS && format != TARN_METRICS_JSON)
        return tn_bad_argument("the format is neither Prometheus' text nor JSON");
    if (scraper < 0 || scraper >= TARN_SCRAPERS)
        return tn_bad_argument("scraper is not 0 to 3");
    tn_device_reap(device);
    return tn_leave(tn_device_write_metrics(device, format, scraper, writer, user));
}
