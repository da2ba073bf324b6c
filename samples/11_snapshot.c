// SPDX-License-Identifier: Apache-2.0
/* 11_snapshot.c -- what the memory of a device is used for, as a table and as a file.
 *
 * The snapshot is taken in the middle of a capture, where most questions are asked. With a path as
 * its argument the program also writes the snapshot there, with all that happened before, for
 * https://pytorch.org/memory_viz or for torch/cuda/_memory_viz.py. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { COUNT = 1024 * 1024, BYTES = COUNT * sizeof(float), BATCHES = 6 };

/* user: the file. */
static tarn_status write_to_file(const void *bytes, size_t count, void *user)
{
    return fwrite(bytes, 1, count, user) == count ? TARN_OK : TARN_ERR_LIMIT;
}

static void save(const tarn_snapshot *snapshot, const char *path)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    CHECK(tarn_snapshot_write_pytorch(snapshot, write_to_file, file));
    REQUIRE(fclose(file) == 0);
    printf("written to %s\n", path);
}

static void print(const tarn_snapshot *snapshot)
{
    printf("%18s %9s %9s %9s %9s  %s\n", "address", "KiB", "live", "pending", "held", "pool");
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->segments[i];
        printf("0x%016" PRIxPTR " %9zu %9zu %9zu %9zu  %" PRIu64 " '%s'%s\n",
               (uintptr_t)segment->address, segment->bytes >> 10, segment->allocated_bytes >> 10,
               (segment->active_bytes - segment->allocated_bytes) >> 10, segment->held_bytes >> 10,
               segment->pool->number, segment->pool->name,
               segment->capture_id != 0 ? ", capturing" : "");
    }
}

/* The bytes in blocks of a state. */
static size_t sum(const tarn_snapshot *snapshot, tarn_extent_state state)
{
    size_t bytes = 0;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        for (size_t k = 0; k < snapshot->segments[i].block_count; k++) {
            const tarn_snapshot_block *block = &snapshot->segments[i].blocks[k];
            bytes += block->state == state ? block->block_bytes : 0;
        }
    }
    return bytes;
}

int main(int count, char **words)
{
    sample_driver_open();
    kernels_load();
    tarn_stream stream = sample_stream_create();

    tarn_device_options with_history = TARN_DEVICE_OPTIONS_INIT;
    with_history.history_bytes = 1024 * 1024;
    with_history.history_stacks = TARN_HISTORY_FRAMES;
    tarn_device *device = NULL;
    CHECK(tarn_device_open(0, &with_history, &device));
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    options.name = "sample 11";
    tarn_pool *pool = NULL;
    CHECK(tarn_pool_create(device, &options, &pool));

    /* Weights in the default pool, and batches of which every other one is over. */
    void *weights = NULL;
    void *batches[BATCHES];
    CHECK(tarn_malloc(device, BYTES, stream, &weights));
    for (size_t i = 0; i < BATCHES; i++) {
        CHECK(tarn_malloc(device, 1000 * (i + 1), stream, &batches[i]));
    }
    for (size_t i = 1; i < BATCHES; i += 2) {
        CHECK(tarn_free(batches[i]));
    }

    /* A block from before the capture, freed within: it waits for the capture's end. */
    void *input = NULL;
    void *output = NULL;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    CHECK(tarn_pool_malloc(pool, BYTES, 0, stream, &input));
    CHECK(tarn_capture_begin(pool, stream, NULL, &capture));
    CHECK(tarn_malloc(device, BYTES, stream, &output));
    kernel_scale(stream, output, input, 3.0F, COUNT);
    CHECK(tarn_free_on(input, stream));

    tarn_snapshot *snapshot = NULL;
    CHECK(tarn_snapshot_take(device, NULL, &snapshot));
    CHECK(tarn_snapshot_add_history(snapshot, device));
    CHECK(tarn_capture_end(capture, &graph));
    print(snapshot);
    REQUIRE(sum(snapshot, TARN_EXTENT_PENDING) == BYTES);
    REQUIRE(sum(snapshot, TARN_EXTENT_LIVE) == (size_t)2 * BYTES + 1024 + 3072 + 5120);
    if (count > 1) {
        save(snapshot, words[1]);
    }
    tarn_snapshot_destroy(snapshot);

    CHECK(tarn_graph_destroy(graph));
    CHECK(tarn_free(output));
    for (size_t i = 0; i < BATCHES; i += 2) {
        CHECK(tarn_free(batches[i]));
    }
    CHECK(tarn_free(weights));
    CHECK(tarn_pool_destroy(pool));
    CHECK(tarn_device_close(device));

    sample_stream_destroy(stream);
    kernels_unload();
    sample_driver_close();
    return 0;
}
