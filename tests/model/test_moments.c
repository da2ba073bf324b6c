// SPDX-License-Identifier: Apache-2.0
/* What a history tells of a moment is what the pools had then, whatever models have done since: one
 * model, or eight of threads that share a device and two pools. Between two moments each makes a few
 * random steps. A moment is told when it is noted, and once more later: what has happened since is
 * taken back. TARN_MOMENTS is how many there are; TARN_MOMENTS_SEED is the first run's seed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/host.h"
#include "model/model.h"
#include "observe/retell.h"
#include "pools/device.h"
#include "support/touch.h"

enum {
    THREADS_MAX = 8,
    ROUNDS = 120, /* in a run: as many moments */
    STEPS = 6,    /* of a thread, from a moment to the next; at most */
    STEPS_ALONE = 20,
    KEPT = 8, /* moments that are told later */
};

/* The live blocks of all pools, in order of their numbers. */
struct listed {
    struct tn_told_block *blocks;
    size_t count;
};

struct moment {
    struct tn_told_cuts cut;
    struct listed listed; /* blocks NULL: no moment */
    uint64_t taken;       /* pages of the log, by then */
    uint64_t left_count;  /* and those that were left */
};

struct worker {
    struct model *model;
    pthread_t thread;
    uint64_t random;
};

struct run {
    tarn_device *device;
    tarn_pool *pools[2];
    size_t thread_count;
    struct worker workers[THREADS_MAX];
    struct moment moments[KEPT];
    uint64_t random;
};

static char line[160];
static tn_cu_context context;
static pthread_barrier_t barrier; /* before each round, and behind it */
static bool ends;

/* Moments that were told later, and those that the log had no pages for. */
static uint64_t told_count;
static uint64_t passed_count;
static uint64_t overwritten_count; /* of the former, behind which pages were overwritten */
static uint64_t block_count;

static int compare_blocks(const void *a, const void *b)
{
    uint64_t left = ((const struct tn_told_block *)a)->sequence;
    uint64_t right = ((const struct tn_told_block *)b)->sequence;

    return (left > right) - (left < right);
}

static struct listed list(const struct run *run)
{
    struct listed listed = {NULL, 0};
    tarn_snapshot *snapshot;

    touch_relax(true);
    OK(tarn_snapshot_take(run->device, NULL, &snapshot));
    touch_relax(false);
    listed.blocks = calloc(snapshot->block_count + 1, sizeof *listed.blocks);
    ck_assert_ptr_nonnull(listed.blocks);
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->segments[i];

        for (size_t j = 0; j < segment->block_count; j++) {
            const tarn_snapshot_block *block = &segment->blocks[j];

            if (block->state == TARN_EXTENT_LIVE)
                listed.blocks[listed.count++] =
                    (struct tn_told_block){.sequence = block->sequence,
                                           .address = (uint64_t)(uintptr_t)block->address,
                                           .bytes = block->block_bytes,
                                           .requested = block->bytes};
        }
    }
    tarn_snapshot_destroy(snapshot);
    qsort(listed.blocks, listed.count, sizeof *listed.blocks, compare_blocks);
    return listed;
}

/* cut NULL: of now. */
static struct tn_told retell(const struct run *run, const struct tn_told_cuts *cut)
{
    struct tn_history *history = &run->device->history;
    struct tn_told_source source = {.read = tn_ring_from_own_file,
                                    .context = &history->file,
                                    .page_count = history->ring.page_count,
                                    .area_bytes =
                                        tn_ring_area_offset(history->file.head, TN_RING_AREAS),
                                    .part_count = history->file.part_count};
    struct tn_told told;

    OK(tn_retell(&source, cut, &told));
    return told;
}

static void check(const struct tn_told *told, const struct listed *listed)
{
    ck_assert_uint_eq(told->broken_pages + told->unread_parts + told->lost_blocks, 0);
    ck_assert_uint_eq(told->count, listed->count);
    for (size_t i = 0; i < told->count; i++) {
        const struct tn_told_block *is = &told->blocks[i];
        const struct tn_told_block *was = &listed->blocks[i];

        if (is->sequence != was->sequence || is->address != was->address ||
            is->bytes != was->bytes || is->requested != was->requested)
            ck_abort_msg("block %llu is told as block %llu", (unsigned long long)was->sequence,
                         (unsigned long long)is->sequence);
    }
}

/* Notes a moment: the pools' locks have brought all frees into the log. */
static struct moment note(const struct run *run)
{
    struct listed listed = list(run);
    struct tn_told told = retell(run, NULL);
    const struct tn_ring *ring = &run->device->history.ring;
    struct moment moment = {told.cut, listed, ring->taken, ring->left_count};

    check(&told, &listed);
    told.cut = (struct tn_told_cuts){.cuts = NULL};
    tn_told_free(&told);
    return moment;
}

/* Whether the log has all frees since the moment, of blocks whose allocation it may have lost. */
static bool may_be_told(const struct tn_ring *ring, const struct moment *moment)
{
    return ring->taken <= moment->left_count;
}

/* Whether it has the allocations as well: they are in the log, or in their frees. */
static bool must_be_told(const struct tn_ring *ring, const struct moment *moment)
{
    const uint64_t late = 2 * (ring->page_count / 16 + 1); /* how rarely the ring looks */

    return ring->taken + late <= moment->taken + (moment->left_count - moment->taken) / 2;
}

/* Tells a moment that was noted, where the log has it. */
static void tell(const struct run *run, struct moment *moment)
{
    const struct tn_ring *ring = &run->device->history.ring;
    struct listed now = list(run); /* the locks, again */
    struct tn_told told = retell(run, &moment->cut);

    if (told.lost_events == 0 && may_be_told(ring, moment) &&
        (told.lost_blocks == 0 || must_be_told(ring, moment))) {
        check(&told, &moment->listed);
        told_count += 1;
        overwritten_count += told.lost_pages > 0;
        block_count += told.count;
    } else {
        passed_count += 1;
    }
    tn_told_free(&told);
    free(now.blocks);
    free(moment->listed.blocks);
    tn_host_free(moment->cut.cuts);
    *moment = (struct moment){.taken = 0};
}

static void note_and_tell(struct run *run)
{
    struct moment *moment = &run->moments[model_next(&run->random) % KEPT];

    if (moment->listed.blocks != NULL)
        tell(run, moment);
    *moment = note(run);
}

static void make_steps(struct worker *worker, uint64_t most)
{
    uint8_t frame[MODEL_FRAME_BYTES];

    for (uint64_t i = model_next(&worker->random) % (most + 1); i > 0; i--) {
        model_random_frame(&worker->random, frame);
        model_step(worker->model, frame);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    test_set_context(context);
    (void)pthread_barrier_wait(&barrier);
    while (!ends) {
        make_steps(worker, STEPS);
        (void)pthread_barrier_wait(&barrier);
        (void)pthread_barrier_wait(&barrier);
    }
    model_destroy(worker->model);
    test_set_context(NULL);
    return NULL;
}

static void begin(struct run *run, uint64_t seed)
{
    const struct model_config config = {.per_thread = run->thread_count > 1 && seed % 2 == 0};
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = (size_t)(run->thread_count > 1 ? 4096 : 64 << seed % 4) << 10;
    OK(tarn_device_open(0, &options, &run->device));
    OK(tarn_device_default_pool(run->device, &run->pools[0]));
    OK(tarn_pool_create(run->device, NULL, &run->pools[1]));
    run->random = seed;
    for (size_t i = 0; i < run->thread_count; i++) {
        run->workers[i].model = model_create_shared(&config, run->device, run->pools, 2);
        run->workers[i].random = seed * THREADS_MAX + i;
    }
}

static void end(struct run *run)
{
    for (size_t i = 0; i < KEPT; i++) {
        if (run->moments[i].listed.blocks != NULL)
            tell(run, &run->moments[i]);
    }
    OK(tarn_pool_destroy(run->pools[1]));
    OK(tarn_device_close(run->device));
}

/* One thread's steps, and the moments between, on this thread. */
static void run_alone(uint64_t seed)
{
    struct run run = {.thread_count = 1};

    begin(&run, seed);
    for (int round = 0; round < ROUNDS; round++) {
        make_steps(&run.workers[0], STEPS_ALONE);
        note_and_tell(&run);
    }
    model_destroy(run.workers[0].model);
    end(&run);
}

static void run_together(uint64_t seed)
{
    struct run run = {.thread_count = THREADS_MAX};

    begin(&run, seed);
    ends = false;
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, THREADS_MAX + 1), 0);
    for (size_t i = 0; i < THREADS_MAX; i++)
        ck_assert_int_eq(pthread_create(&run.workers[i].thread, NULL, work, &run.workers[i]), 0);
    for (int round = 0; round < ROUNDS; round++) {
        (void)pthread_barrier_wait(&barrier);
        (void)pthread_barrier_wait(&barrier);
        note_and_tell(&run);
    }
    ends = true;
    (void)pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < THREADS_MAX; i++)
        ck_assert_int_eq(pthread_join(run.workers[i].thread, NULL), 0);
    ck_assert_int_eq(pthread_barrier_destroy(&barrier), 0);
    end(&run);
}

SUITE("moments that a history tells")
GROUP(moments, NULL, .timeout = 20000)

TEST_LOOP(moments, what_was_live_is_told_of_any_moment, 0, 2)
{
    void (*const runs[])(uint64_t) = {run_alone, run_together};
    const uint64_t wanted = test_setting("TARN_MOMENTS", 1000);
    uint64_t seed = test_seed("TARN_MOMENTS_SEED", 1);

    model_repeat_with(line);
    touch_start();
    context = test_context();
    for (; told_count < wanted; seed++) {
        (void)snprintf(line, sizeof line,
                       "to repeat: TARN_MOMENTS_SEED=%llu TARN_MOMENTS=1 model_moments\n",
                       (unsigned long long)seed);
        runs[_i](seed);
        ck_assert_uint_le(passed_count, told_count + 2 * (uint64_t)ROUNDS);
    }
    (void)printf(
        "%llu moments with %llu threads, %llu passed over, %llu with lost pages, %llu blocks\n",
        (unsigned long long)told_count, _i == 0 ? 1ULL : (unsigned long long)THREADS_MAX,
        (unsigned long long)passed_count, (unsigned long long)overwritten_count,
        (unsigned long long)block_count);
    ck_assert_uint_gt(block_count, told_count);
}
