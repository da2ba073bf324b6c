// SPDX-License-Identifier: Apache-2.0
/* A program that records, for the tests of converted files: it allocates and frees in three pools, and
 * says at 1,000 moments how many events each pool has had, and what is live there.
 *
 *     moments SEED    lines "moment POOL EVENTS BYTES REQUESTED", where pools count from 0; then
 *                     "done", and the program waits to be killed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/driver.h"
#include "tarn/tarn.h"

enum { POOLS = 3, MOMENTS = 1000, BLOCKS = 64, STEPS = 20, LARGEST = 300000 };

struct place {
    tarn_pool *pool;
    uint64_t events;
    void *blocks[BLOCKS];
};

static tarn_device *device;
static tarn_stream stream;
static struct place places[POOLS];
static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* Allocates or frees in a place. */
static void step(struct place *place)
{
    void **block = &place->blocks[draw(BLOCKS)];

    if (*block == NULL) {
        CHECK(tarn_pool_malloc(place->pool, 1 + draw(LARGEST), 0, stream, block));
    } else {
        CHECK(tarn_free(*block));
        *block = NULL;
    }
    place->events += 1;
}

/* An allocation comes last: a free may wait for the next event of its pool. */
static void tell(struct place *place, unsigned which)
{
    tarn_stats stats = TARN_STATS_INIT;
    unsigned at = 0;

    while (at < BLOCKS && place->blocks[at] != NULL)
        at += 1;
    if (at == BLOCKS) {
        CHECK(tarn_free(place->blocks[--at]));
        place->events += 1;
    }
    CHECK(tarn_pool_malloc(place->pool, 1 + draw(LARGEST), 0, stream, &place->blocks[at]));
    place->events += 1;
    CHECK(tarn_pool_stats(place->pool, &stats));
    (void)printf("moment %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", which, place->events,
                 stats.live_bytes.all.current, stats.requested_bytes.all.current);
}

int main(int count, char **arguments)
{
    state = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    sample_driver_open();
    stream = sample_stream_create();
    CHECK(tarn_device_open(0, NULL, &device));
    for (unsigned i = 0; i < POOLS; i++)
        CHECK(tarn_pool_create(device, NULL, &places[i].pool));
    for (unsigned i = 0; i < MOMENTS; i++) {
        for (unsigned j = 0; j < STEPS; j++)
            step(&places[draw(POOLS)]);
        tell(&places[i % POOLS], i % POOLS);
    }
    (void)printf("done\n");
    (void)fflush(stdout);
    (void)alarm(300); /* where nobody kills it */
    for (;;)
        (void)pause();
}
