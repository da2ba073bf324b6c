// SPDX-License-Identifier: Apache-2.0
/* Writes a snapshot with its history of a run with two private pools, a checkpoint that was restored,
 * a use on another stream, a lack of memory, and texts of the program's. Its arguments are the file,
 * and one for a trace. */
#include <stdio.h>

#include "common/driver.h"
#include "common/kernels.h"
#include "tarn/tarn.h"

enum { BLOCKS = 200, KEPT = 5, LIMIT = 64 << 20 };

static tarn_status write_to_file(const void *bytes, size_t count, void *user)
{
    return fwrite(bytes, 1, count, user) == count ? TARN_OK : TARN_ERR_LIMIT;
}

static tarn_pool *make_pool(tarn_device *device, const char *name)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;

    options.name = name;
    CHECK(tarn_pool_create(device, &options, &pool));
    return pool;
}

/* A step of work, of which one block in KEPT stays. */
static void step(tarn_pool *pool, tarn_stream stream, void **kept)
{
    void *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(tarn_pool_malloc(pool, 700 * (i % 40 + 1), 0, stream, &blocks[i]));
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % KEPT == 0)
            kept[i / KEPT] = blocks[i];
        else
            CHECK(tarn_free(blocks[i]));
    }
}

static void lack_memory(tarn_pool *pool, tarn_stream stream)
{
    void *block = NULL;

    CHECK(tarn_pool_set_limit(pool, LIMIT));
    REQUIRE(tarn_pool_malloc(pool, (size_t)LIMIT + 1, 0, stream, &block) != TARN_OK);
    CHECK(tarn_pool_set_limit(pool, 0));
}

static void save(tarn_device *device, const char *path, const char *trace_path)
{
    tarn_snapshot *snapshot = NULL;
    FILE *file = fopen(path, "wb");
    FILE *trace = fopen(trace_path, "wb");

    REQUIRE(file != NULL && trace != NULL);
    CHECK(tarn_snapshot_take(device, NULL, &snapshot));
    CHECK(tarn_snapshot_add_history(snapshot, device));
    CHECK(tarn_snapshot_write_pytorch(snapshot, write_to_file, file));
    CHECK(tarn_snapshot_write_trace(snapshot, "run", write_to_file, trace));
    REQUIRE(fclose(file) == 0 && fclose(trace) == 0);
    tarn_snapshot_destroy(snapshot);
}

int main(int count, char **words)
{
    static void *kept[3][BLOCKS / KEPT];
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = NULL;
    tarn_checkpoint *checkpoint = NULL;
    tarn_delta *delta = NULL;
    uint64_t range = 0;

    REQUIRE(count == 3);
    sample_driver_open();
    kernels_load();
    tarn_stream streams[] = {sample_stream_create(), sample_stream_create()};
    options.history_bytes = 4 << 20;
    options.history_stacks = TARN_HISTORY_FRAMES;
    CHECK(tarn_device_open(0, &options, &device));
    tarn_pool *pools[] = {make_pool(device, "first"), make_pool(device, "second")};

    CHECK(tarn_range_begin(device, "steps", &range));
    CHECK(tarn_label_set("first step"));
    step(pools[0], streams[0], kept[0]);
    CHECK(tarn_label_set(NULL));
    step(pools[1], streams[1], kept[1]);
    CHECK(tarn_block_annotate(kept[1][0], "weights of layer 1"));
    CHECK(tarn_range_end(device, range));
    CHECK(tarn_checkpoint_take(pools[0], TARN_CONTENTS_NONE, streams[0], &checkpoint));
    step(pools[0], streams[0], kept[2]);
    CHECK(tarn_free(kept[0][3])); /* the restore makes it live again */
    CHECK(tarn_checkpoint_restore(checkpoint, streams[0], &delta));
    tarn_delta_destroy(delta);
    CHECK(tarn_checkpoint_destroy(checkpoint));
    CHECK(tarn_record_stream(kept[1][2], streams[0]));
    lack_memory(pools[1], streams[1]);
    save(device, words[1], words[2]);

    for (size_t i = 0; i < BLOCKS / KEPT; i++) {
        CHECK(tarn_free(kept[0][i]));
        CHECK(tarn_free(kept[1][i]));
    }
    for (size_t i = 0; i < 2; i++) {
        CHECK(tarn_pool_destroy(pools[i]));
        sample_stream_destroy(streams[i]);
    }
    CHECK(tarn_device_close(device));
    kernels_unload();
    sample_driver_close();
    return 0;
}
