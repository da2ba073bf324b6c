// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "pools/staging.h"
#include "support/world.h"
#include "unit/contents.h"

static uint64_t launches(void)
{
    return sim.call_count("cuLaunchKernel");
}

enum { ALLOCATIONS_MAX = 32 }; /* of a first take */

GROUP(save, set_up)

/* One host allocation or the other: nothing is counted that is not there. */
TEST_LOOP(save, a_take_without_host_memory_leaves_nothing, 1, ALLOCATIONS_MAX + 1)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_status status;
    bool failed;

    (void)unit_alloc(pool, 4096, stream);
    (void)tn_host_plan_fault((uint64_t)_i, false);
    status = tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint);
    failed = tn_host_plan_fault(0, false) > 0;
    ck_assert_int_eq(failed, status != TARN_OK);
    ck_assert(!failed || _i < ALLOCATIONS_MAX);
    if (failed)
        STATUS(TARN_ERR_HOST_MEMORY, status);
    else
        tn_checkpoint_destroy(checkpoint);
    ck_assert_uint_eq(atomic_load(&device->contents_bytes), 0);
    ck_assert_uint_eq(unit_stats(device->default_pool).live_count, 0);
    ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
}

TEST(save, bytes_are_as_of_the_stream_at_the_call)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;

    sim.hold_work();
    test_fill(stream, address, 1, 1024); /* before the take */
    checkpoint = take();
    test_fill(stream, address, 2, 1024); /* behind it */
    sim.resume_work();
    test_expect_words(stream, checkpoint->contents, 1, 1024);
    test_expect_words(stream, address, 2, 1024);
}

TEST(save, all_blocks_are_copied_by_one_launch)
{
    void *blocks[40];
    tarn_checkpoint *checkpoint;
    uint64_t before;
    uint64_t copies;

    for (uint32_t i = 0; i < 40; i++) {
        blocks[i] = unit_alloc(pool, (i * i * 4001) % 300000 + 4, i % 2 == 0 ? stream : other);
        test_set_words(stream, blocks[i], i + 1, 1);
    }
    before = launches();
    copies = sim.call_count("cuMemcpyHtoDAsync") + sim.call_count("cuMemsetD8Async");
    checkpoint = take();
    ck_assert_uint_eq(launches() - before, 2); /* the table's, which no engine copies, and theirs */
    ck_assert_uint_eq(sim.call_count("cuMemcpyHtoDAsync") + sim.call_count("cuMemsetD8Async"),
                      copies);
    for (uint32_t i = 0; i < 40; i++)
        test_set_words(stream, blocks[i], 99, 1);
    before = launches();
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(launches() - before, 1);
    for (uint32_t i = 0; i < 40; i++)
        ck_assert_uint_eq(test_read(stream, blocks[i]), i + 1);
}

TEST(save, the_memory_is_a_block_of_the_default_pool)
{
    tarn_checkpoint *checkpoint;
    struct tn_block *block;

    (void)unit_alloc(pool, 5000, stream);
    checkpoint = take();
    block = unit_block(checkpoint->contents);
    ck_assert_ptr_eq(atomic_load(&block->segment->owner), device->default_pool);
    ck_assert_uint_eq(block->requested, 5120 + 512 + sizeof(struct tn_contents_item));
    ck_assert(tn_order_equal(tn_block_order(block), unit_order(device, stream)));
    ck_assert(tn_order_equal(checkpoint->order, tn_block_order(block)));
    tn_checkpoint_destroy(checkpoint);
    ck_assert_uint_eq(tn_pool_live_count(device->default_pool), 0);
}

static void *victim;

static void free_victim(void)
{
    if (victim != NULL)
        OK(tarn_free(victim));
    victim = NULL;
}

TEST(save, a_block_that_is_freed_while_memory_is_taken_is_not_saved)
{
    void *kept = unit_alloc(pool, 5000, stream);
    tarn_checkpoint *checkpoint;

    test_fill(stream, kept, 1, 1250);
    victim = unit_alloc(pool, MIB, stream);
    meanwhile = free_victim;
    checkpoint = take();
    ck_assert_int_eq(rooms, 2); /* the second one is no larger than it must be */
    ck_assert_uint_eq(checkpoint->block_count, 1);
    ck_assert_uint_eq(unit_block(checkpoint->contents)->requested,
                      5120 + 512 + sizeof(struct tn_contents_item));
    ck_assert_uint_eq(tn_pool_live_count(device->default_pool), 1);
    OK(tn_checkpoint_verify(checkpoint, stream));
    test_fill(stream, kept, 2, 1250);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    test_expect_words(stream, kept, 1, 1250);
    tn_checkpoint_destroy(checkpoint);
}

static void free_last(void)
{
    free_victim();
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(pool)); /* the call has it still */
}

TEST(save, when_all_is_freed_while_memory_is_taken_there_are_no_contents)
{
    tarn_checkpoint *checkpoint;

    victim = unit_alloc(pool, 5000, stream);
    meanwhile = free_last;
    checkpoint = take();
    ck_assert_uint_eq(checkpoint->block_count, 0);
    ck_assert_ptr_null(checkpoint->contents);
    ck_assert_uint_eq(atomic_load(&device->contents_bytes), 0);
    ck_assert_uint_eq(unit_stats(device->default_pool).live_count, 0);
    OK(tn_checkpoint_verify(checkpoint, stream));
    (void)unit_alloc(pool, 5000, stream);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(tn_pool_live_count(pool), 0);
    tn_checkpoint_destroy(checkpoint);
    ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
}

static void *blocks_added[8];
static uint32_t added;

static void add_block(void)
{
    blocks_added[added] = unit_alloc(pool, 4096, stream);
    test_fill(stream, blocks_added[added], added, 1024);
    added += 1;
}

/* However often: the memory is doubled. */
TEST_LOOP(save, blocks_that_come_while_memory_is_taken_are_saved_too, TARN_CONTENTS_DEVICE,
          TARN_CONTENTS_HOST + 1)
{
    tarn_checkpoint *checkpoint;

    added = 0;
    add_block();
    meanwhile = add_block;
    OK(tn_checkpoint_take(pool, (tarn_contents)_i, stream, &checkpoint));
    meanwhile = NULL;
    ck_assert_int_eq(rooms, 3);
    ck_assert_uint_eq(checkpoint->block_count, added);
    ck_assert_uint_eq(tn_pool_live_count(device->default_pool), 1);
    OK(tn_checkpoint_verify(checkpoint, stream));
    for (uint32_t i = 0; i < added; i++)
        test_fill(stream, blocks_added[i], 99, 1024);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    for (uint32_t i = 0; i < added; i++)
        test_expect_words(stream, blocks_added[i], i, 1024);
    tn_checkpoint_destroy(checkpoint);
}

static tarn_capture *begun;

static void begin_capture(void)
{
    OK(tarn_capture_begin(pool, other, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &begun));
}

TEST(save, a_capture_that_begins_while_memory_is_taken_is_in_the_way)
{
    tarn_checkpoint *checkpoint = NULL;

    (void)unit_alloc(pool, 4096, stream);
    meanwhile = begin_capture;
    STATUS(TARN_ERR_WRONG_STATE,
           tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    ck_assert_ptr_null(checkpoint);
    ck_assert_uint_eq(atomic_load(&device->contents_bytes), 0);
    ck_assert_uint_eq(unit_stats(device->default_pool).live_count, 0);
    ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
    OK(tarn_capture_abort(begun));
}

GROUP(load, set_up)

TEST(load, another_stream_waits_for_the_copies_out)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;

    test_fill(stream, address, 1, 1024);
    test_synchronize(stream);
    sim.hold_work();
    checkpoint = take(); /* its copies are still to run */
    sim.resume_work();
    test_fill(stream, address, 2, 1024);
    test_synchronize(stream);
    OK(tn_checkpoint_restore(checkpoint, other, NULL));
    test_expect_words(other, address, 1, 1024);
}

static tarn_status load_on(tarn_checkpoint *made, tn_cu_stream on, struct tn_use *use)
{
    tarn_status status;

    tn_pool_lock(pool);
    status = tn_contents_load(made, on, use->order, use);
    tn_pool_unlock(pool);
    return status;
}

static void load(tarn_checkpoint *checkpoint, tn_cu_stream on)
{
    struct tn_use *use;

    OK(tn_use_make(&device->streams, on, unit_order(device, on), &use));
    OK(load_on(checkpoint, on, use));
    tn_contents_add_use(checkpoint, use);
}

TEST(load, a_load_on_another_stream_is_ordered_by_the_event)
{
    uint64_t waits = sim.call_count("cuStreamWaitEvent");
    tarn_checkpoint *checkpoint;

    (void)unit_alloc(pool, 4096, stream);
    checkpoint = take();
    load(checkpoint, stream);
    ck_assert_uint_eq(sim.call_count("cuStreamWaitEvent"), waits); /* its own stream */
    load(checkpoint, other);
    ck_assert_uint_eq(sim.call_count("cuStreamWaitEvent"), waits + 1);
    tn_checkpoint_destroy(checkpoint);
}

TEST(load, a_load_that_the_driver_refuses_changes_no_byte)
{
    static const char *const calls[] = {"cuLaunchKernel", "cuStreamWaitEvent"};
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;
    struct tn_use *use;

    test_fill(stream, address, 1, 1024);
    checkpoint = take();
    test_fill(stream, address, 2, 1024);
    OK(tn_use_make(&device->streams, other, unit_order(device, other), &use));
    for (size_t i = 0; i < 2; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, load_on(checkpoint, other, use));
        unit_expect_sentence(calls[i]);
        test_synchronize(other);
        test_expect_words(stream, address, 2, 1024);
    }
    tn_use_end(&device->streams, use);
}

/* The copies cannot be taken back any more, so nothing fails; what comes next waits for the device. */
TEST(load, a_refused_event_behind_a_load_is_made_up_for)
{
    void *address = unit_alloc(pool, 4096, stream);
    void *contents;
    tarn_checkpoint *checkpoint;
    uint64_t waits;

    test_fill(stream, address, 1, 1024);
    checkpoint = take();
    contents = checkpoint->contents;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        test_fill(stream, address, 2, 1024);
        sim.plan_fault("cuEventRecord", 1, nth == 1, TN_CUDA_ERROR_UNKNOWN);
        OK(tn_checkpoint_restore(checkpoint, stream, NULL));
        ck_assert_uint_ge(sim.clear_fault(NULL), 1);
        test_expect_words(stream, address, 1, 1024);
        ck_assert((checkpoint->used == NULL) == (nth == 1)); /* refused once, another is made */
        waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
        OK(tn_checkpoint_restore(checkpoint, stream, NULL));
        ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + (nth == 1));
    }
    sim.plan_fault("cuEventRecord", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(sim.clear_fault(NULL), 3);
    tn_checkpoint_destroy(checkpoint);
    ck_assert_int_eq(unit_block(contents)->state, TN_BLOCK_PENDING); /* until it is proven */
    OK(tarn_pool_trim(device->default_pool, NULL));
    ck_assert_uint_eq(tn_pool_pending_count(device->default_pool), 0);
}

/* Another thread's load came between the wait and this one's. */
TEST(load, a_load_behind_one_that_nothing_orders_is_refused)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;
    struct tn_use *use;

    test_fill(stream, address, 1, 1024);
    checkpoint = take();
    test_fill(stream, address, 2, 1024);
    OK(tn_use_make(&device->streams, other, unit_order(device, other), &use));
    sim.plan_fault("cuEventRecord", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    load(checkpoint, stream);
    sim.clear_fault(NULL);
    test_expect_words(stream, address, 1, 1024);
    test_fill(stream, address, 3, 1024);
    test_synchronize(stream);
    tn_pool_lock(pool);
    STATUS(TARN_ERR_DRIVER, tn_contents_load(checkpoint, other, use->order, use));
    unit_expect_sentence("call again");
    tn_pool_unlock(pool);
    test_synchronize(other);
    test_expect_words(stream, address, 3, 1024); /* no byte has changed */
    tn_use_end(&device->streams, use);
    OK(tn_contents_prepare(checkpoint, other));
    load(checkpoint, other);
    test_expect_words(other, address, 1, 1024);
    tn_checkpoint_destroy(checkpoint);
}

static void *make_ready(void *checkpoint)
{
    OK(tn_contents_prepare(checkpoint, other));
    return NULL;
}

/* A wait proves what was enqueued before it began, and nothing that another thread enqueues meanwhile. */
TEST(load, a_wait_does_not_order_a_load_of_another_thread)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint = take();
    uint64_t waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
    pthread_t thread;

    sim.hold_work();
    test_fill(stream, address, 2, 1024);
    sim.plan_fault("cuEventRecord", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    load(checkpoint, stream);
    ck_assert_int_eq(pthread_create(&thread, NULL, make_ready, checkpoint), 0);
    while (atomic_load(&device->gpu.calls[TN_CALL_WAIT]) == waits)
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    load(checkpoint, stream); /* is not ordered before anything either */
    ck_assert_uint_gt(sim.clear_fault(NULL), 0);
    sim.resume_work();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + 1);
    OK(tn_contents_prepare(checkpoint, other));
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + 2);
    OK(tn_contents_prepare(checkpoint, other));
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits + 2);
    load(checkpoint, other);
    tn_checkpoint_destroy(checkpoint);
}

/* The event behind the copies went with its context, and so did they. */
TEST(load, contents_outlive_the_context_that_they_were_copied_in)
{
    tn_cu_context own = test_context();
    tn_cu_context context = test_make_context();
    tn_cu_stream foreign = test_stream();
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;
    uint64_t waits;

    test_set_context(own);
    test_fill(stream, address, 1, 1024);
    test_synchronize(stream);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_HOST, foreign, &checkpoint));
    test_synchronize(foreign);
    OK(tarn_stream_retire(device, foreign));
    test_end_context(context);
    waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
    for (uint32_t i = 0; i < 3; i++) {
        tn_cu_stream on = i % 2 == 0 ? stream : other;

        test_fill(stream, address, 2, 1024);
        test_synchronize(stream);
        OK(tn_contents_prepare(checkpoint, on));
        load(checkpoint, on);
        test_expect_words(on, address, 1, 1024);
    }
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), waits);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    tn_checkpoint_destroy(checkpoint);
    OK(tn_gpu_check(&device->gpu));
}

/* C4 */
TEST(save, digests_are_those_of_the_bytes)
{
    static const size_t sizes[] = {1, 15, 16, 17, 24, 511, 65536, 65537, 200001};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    unsigned char *blocks[COUNT];
    tarn_checkpoint *checkpoint;

    for (size_t i = 0; i < COUNT; i++) {
        unsigned char *bytes = malloc(sizes[i]);

        ck_assert_ptr_nonnull(bytes);
        blocks[i] = unit_alloc(pool, sizes[i], stream);
        for (size_t at = 0; at < sizes[i]; at++)
            bytes[at] = (unsigned char)(at * 31 + i);
        test_write(stream, blocks[i], bytes, sizes[i]);
        free(bytes);
    }
    checkpoint = take();
    test_synchronize(stream);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t digest = 0;
        uint64_t saved = 0;
        size_t at = 0;

        for (; at + 16 <= sizes[i]; at += 16) {
            for (size_t word = 0; word < 2; word++) {
                uint64_t bits = 0;

                for (size_t byte = 8; byte-- > 0;)
                    bits = bits << 8 | (unsigned char)((at + word * 8 + byte) * 31 + i);
                digest += tn_digest_term(bits, at / 8 + word);
            }
        }
        for (; at < sizes[i]; at++)
            digest += tn_digest_term((unsigned char)(at * 31 + i), TN_DIGEST_TAIL | at);
        test_read_bytes(stream, &saved, (void *)(uintptr_t)(checkpoint->digests + i * 8), 8);
        ck_assert_uint_eq(saved, digest);
    }
    OK(tn_checkpoint_verify(checkpoint, stream));
    test_flip_byte(stream, (void *)(uintptr_t)(checkpoint->digests + 3)); /* broken */
    STATUS(TARN_ERR_CORRUPT, tn_checkpoint_verify(checkpoint, stream));
    unit_expect_sentence("1 bytes at");
    tn_checkpoint_destroy(checkpoint);
}

/* One bit anywhere in the bytes of a block, and in no padding. */
TEST(save, a_flipped_bit_is_found)
{
    static const size_t places[] = {0, 7, 8, 65535, 65536, 99999, 199996, 200000};
    tarn_contents kinds[] = {TARN_CONTENTS_DEVICE, TARN_CONTENTS_HOST};
    void *first = unit_alloc(pool, 100, stream);
    void *second = unit_alloc(pool, 200001, stream);

    test_fill(stream, first, 1, 25);
    test_fill(stream, second, 2, 50000);
    test_write(stream, (char *)second + 200000, "x", 1);
    for (size_t kind = 0; kind < 2; kind++) {
        tarn_checkpoint *checkpoint;
        char *bytes;

        OK(tn_checkpoint_take(pool, kinds[kind], stream, &checkpoint));
        bytes = (char *)(uintptr_t)checkpoint->saved;
        OK(tn_checkpoint_verify(checkpoint, stream));
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            test_flip_byte(stream, bytes + 512 + places[i]);
            STATUS(TARN_ERR_CORRUPT, tn_checkpoint_verify(checkpoint, other));
            unit_expect_sentence("200001 bytes");
            unit_expect_sentence("0 more of 2");
            test_flip_byte(stream, bytes + 512 + places[i]);
            OK(tn_checkpoint_verify(checkpoint, other));
        }
        test_flip_byte(stream, bytes + 100); /* padding */
        OK(tn_checkpoint_verify(checkpoint, stream));
        test_flip_byte(stream, bytes + 99);
        test_flip_byte(stream, bytes + 512);
        STATUS(TARN_ERR_CORRUPT, tn_checkpoint_verify(checkpoint, stream));
        unit_expect_sentence("1 more of 2");
        tn_checkpoint_destroy(checkpoint);
    }
}

TEST(save, a_verification_that_fails_leaves_nothing)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;
    uint64_t failed = 1;
    int met = 0;

    test_fill(stream, address, 1, 1024);
    checkpoint = take();
    OK(tn_checkpoint_verify(checkpoint, stream));
    for (uint64_t nth = 1; failed > 0; nth++) {
        uint64_t live = tn_pool_live_count(device->default_pool);
        uint64_t events = test_ledger().events;
        tarn_status status;

        sim.plan_fault(NULL, nth, 0, TN_CUDA_ERROR_INVALID_VALUE);
        status = tn_checkpoint_verify(checkpoint, stream);
        failed = sim.clear_fault(NULL);
        met += status != TARN_OK;
        ck_assert(status == TARN_OK || status == TARN_ERR_DRIVER);
        ck_assert_uint_eq(tn_pool_live_count(device->default_pool), live);
        ck_assert_uint_le(test_ledger().events, events + 1); /* a refused destroy */
    }
    ck_assert_int_ge(met, 7);
}

TEST(save, host_contents_are_in_page_locked_memory)
{
    void *address = unit_alloc(pool, 3 * MIB, stream);
    tarn_checkpoint *checkpoint;
    uint64_t created;
    uint32_t *words;

    test_fill(stream, address, 7, 3 * MIB / 4);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_HOST, stream, &checkpoint));
    test_synchronize(stream);
    created = sim.call_count("cuMemCreate");
    words = checkpoint->pinned->address;
    ck_assert_ptr_eq(words, (void *)(uintptr_t)checkpoint->saved);
    for (size_t i = 0; i < 3 * MIB / 4; i += 1021)
        ck_assert_uint_eq(words[i], 7);
    ck_assert_uint_lt(tn_pool_live_bytes(device->default_pool), MIB);
    tn_checkpoint_destroy(checkpoint);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_HOST, stream, &checkpoint));
    ck_assert_ptr_eq(checkpoint->pinned->address, words); /* kept for the next */
    ck_assert_uint_eq(sim.call_count("cuMemCreate"), created);
    tn_checkpoint_destroy(checkpoint);
}

GROUP(drop, set_up)

TEST(drop, contents_dropped_while_another_stream_reads_them_are_kept)
{
    void *address = unit_alloc(pool, 4096, other);
    tarn_checkpoint *checkpoint;
    void *contents;

    test_fill(other, address, 1, 1024);
    test_synchronize(other);
    checkpoint = take();
    contents = checkpoint->contents;
    test_synchronize(stream);
    test_fill(other, address, 2, 1024);
    sim.hold_work();
    OK(tn_checkpoint_restore(checkpoint, other, NULL)); /* reads them later */
    tn_checkpoint_destroy(checkpoint);
    ck_assert_int_eq(unit_block(contents)->state, TN_BLOCK_PENDING);
    sim.resume_work();
    test_expect_words(other, address, 1, 1024);
    tn_pool_lock(device->default_pool);
    tn_pending_poll(device->default_pool, false);
    tn_pool_unlock(device->default_pool);
    ck_assert_uint_eq(tn_pool_pending_count(device->default_pool), 0);
    OK(tarn_pool_validate(device->default_pool));
}

TEST(save, bytes_that_nobody_asked_for_are_not_copied)
{
    char *first = unit_alloc(pool, 1000, stream); /* of 1024 */
    char *second = unit_alloc(pool, 1024, stream);
    tarn_checkpoint *checkpoint;

    ck_assert_ptr_eq(second, first + 1024);
    test_fill(stream, first, 1, 250);
    test_fill(stream, second, 2, 256);
    checkpoint = take();
    test_fill(stream, first, 3, 512);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    test_expect_words(stream, first, 1, 250);
    test_expect_words(stream, first + 1000, 3, 6);
    test_expect_words(stream, second, 2, 256);
}

TEST(load, a_stream_that_loads_twice_has_one_use)
{
    tarn_checkpoint *checkpoint;
    uint64_t events;

    (void)unit_alloc(pool, 4096, stream);
    checkpoint = take();
    OK(tn_checkpoint_restore(checkpoint, other, NULL));
    events = test_ledger().events;
    for (int i = 0; i < 5; i++)
        OK(tn_checkpoint_restore(checkpoint, other, NULL));
    ck_assert_uint_eq(test_ledger().events, events);
    ck_assert_ptr_nonnull(tn_block_uses(unit_block(checkpoint->contents)));
    ck_assert_ptr_null(tn_block_uses(unit_block(checkpoint->contents))->next);
}
