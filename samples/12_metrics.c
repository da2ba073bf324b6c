// SPDX-License-Identifier: Apache-2.0
/* 12_metrics.c -- the numbers of a device, as a server hands them to Prometheus.
 *
 * The program writes them to two files, which are its arguments: as Prometheus' text and as JSON. A
 * server would write the first to whoever asks for its page /metrics. */
#include <stdio.h>

#include "common/driver.h"
#include "tarn/tarn.h"

enum { MIB = 1024 * 1024 };
enum { PROMETHEUS, DASHBOARD }; /* scrapers, each with peaks of its own */

/* user: the file. */
static tarn_status write_to_file(const void *bytes, size_t count, void *user)
{
    return fwrite(bytes, 1, count, user) == count ? TARN_OK : TARN_ERR_LIMIT;
}

static void save(tarn_device *device, tarn_metrics_format format, int scraper, const char *path)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    CHECK(tarn_device_write_metrics(device, format, scraper, write_to_file, file));
    REQUIRE(fclose(file) == 0);
}

int main(int count, char **words)
{
    const char *paths[] = {count > 2 ? words[1] : "/dev/null", count > 2 ? words[2] : "/dev/null"};

    sample_driver_open();
    tarn_stream stream = sample_stream_create();
    tarn_device *device = NULL;
    CHECK(tarn_device_open(0, NULL, &device));
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    options.name = "sample \"12\"";
    tarn_pool *pool = NULL;
    CHECK(tarn_pool_create(device, &options, &pool));

    /* Between two scrapes 48 MiB are live, though neither scrape sees so much. */
    void *weights = NULL;
    void *batch = NULL;
    CHECK(tarn_pool_malloc(pool, (size_t)16 * MIB, 0, stream, &weights));
    save(device, TARN_METRICS_PROMETHEUS, PROMETHEUS, paths[0]);
    CHECK(tarn_pool_malloc(pool, (size_t)32 * MIB, 0, stream, &batch));
    CHECK(tarn_free(batch));
    save(device, TARN_METRICS_PROMETHEUS, PROMETHEUS, paths[0]);
    save(device, TARN_METRICS_JSON, DASHBOARD, paths[1]);

    CHECK(tarn_free(weights));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));
    sample_stream_destroy(stream);
    sample_driver_close();
    return 0;
}
