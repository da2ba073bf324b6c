// SPDX-License-Identifier: Apache-2.0
/* Page-locked memory of the host: pools in that location, and the default one of the device. */
#include <pthread.h>

#include "support/world.h"

enum { WORDS = 1024 };

static uint32_t *host_malloc(size_t bytes)
{
    void *address = NULL;

    OK(tarn_host_malloc(world.device, bytes, &address));
    return address;
}

static tarn_pool *host_pool(void)
{
    tarn_pool *pool = NULL;

    OK(tarn_host_pool(world.device, &pool));
    return pool;
}

static tarn_pool *registered_pool(size_t limit_bytes)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = "registered";
    options.limit_bytes = limit_bytes;
    options.location = TARN_LOCATION_REGISTERED;
    return test_pool_with(&options);
}

static tarn_pool *private_pool(const char *name, size_t limit_bytes)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = name;
    options.limit_bytes = limit_bytes;
    options.location = TARN_LOCATION_HOST;
    return test_pool_with(&options);
}

static struct test_device_stats host_stats(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    stats.walk = true;
    OK(tarn_host_stats(world.device, &stats));
    return test_device_stats_in(&stats);
}

SUITE("page-locked memory")
GROUP(locked, test_world_open, test_world_close, .name = "page-locked memory")

TEST(locked, the_process_and_the_device_see_the_same_bytes)
{
    uint32_t *words = host_malloc(WORDS * sizeof *words);
    void *memory = test_malloc(WORDS * sizeof *words);

    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i;
    test_copy(world.stream, memory, words, WORDS * sizeof *words);
    test_fill(world.stream, words, 7, WORDS);
    test_synchronize(world.stream);
    ck_assert_uint_eq(words[0], 7);
    ck_assert_uint_eq(words[WORDS - 1], 7);
    test_copy(world.stream, words, memory, WORDS * sizeof *words);
    test_synchronize(world.stream);
    for (uint32_t i = 0; i < WORDS; i++)
        ck_assert_uint_eq(words[i], i);
    OK(tarn_free(words));
    OK(tarn_free(memory));
}

TEST(locked, memory_of_the_host_is_counted_apart)
{
    struct test_device_stats before = test_device_stats();
    size_t free_bytes = test_free_bytes();
    uint32_t *words = host_malloc(8 * MIB);
    struct test_device_stats now = test_device_stats();

    ck_assert_uint_eq(now.mapped_bytes, before.mapped_bytes);
    ck_assert_uint_eq(now.live_bytes, before.live_bytes);
    ck_assert_uint_eq(host_stats().live_bytes, 8 * MIB);
    ck_assert_uint_eq(host_stats().mapped_bytes, test_stats(host_pool()).mapped_bytes);
    ck_assert_uint_ge(host_stats().mapped_bytes, 8 * MIB);
    ck_assert_uint_eq(test_free_bytes(), free_bytes); /* the device has given nothing */
    OK(tarn_free(words));
    ck_assert_uint_eq(host_stats().live_bytes, 0);
}

TEST(locked, freed_memory_is_reused_at_once_and_needs_no_wait_to_go)
{
    uint32_t *words = host_malloc(8 * MIB);
    uint32_t *again;
    size_t freed = 0;

    sim.hold_work(); /* a wait for the device would not end */
    test_fill(world.stream, test_malloc(64), 1, 16);
    OK(tarn_free(words));
    again = host_malloc(8 * MIB);
    ck_assert_ptr_eq(again, words);
    OK(tarn_free(again));
    OK(tarn_pool_trim(host_pool(), &freed));
    ck_assert_uint_ge(freed, 8 * MIB);
    ck_assert_uint_eq(test_stats(host_pool()).mapped_bytes, 0);
    sim.resume_work();
    OK(tarn_free(test_live_block(world.default_pool)));
}

TEST(locked, a_block_waits_for_the_copies_it_was_recorded_for_and_delays_no_other)
{
    uint32_t *slow = host_malloc(4 * MIB);
    uint32_t *fast = host_malloc(4 * MIB);
    uint32_t *next;

    sim.hold_work();
    test_fill(world.side, slow, 3, WORDS);
    OK(tarn_record_stream(slow, world.side));
    OK(tarn_free(slow));
    OK(tarn_free_on(fast, world.stream)); /* nothing is on this stream */
    ck_assert_uint_eq(test_stats(host_pool()).live_count, 0);
    next = host_malloc(4 * MIB);
    ck_assert_ptr_ne(next, slow);
    ck_assert_ptr_eq(next, fast);
    sim.resume_work();
    test_synchronize(world.side);
    ck_assert_ptr_eq(host_malloc(4 * MIB), slow);
    OK(tarn_free(slow));
    OK(tarn_free(next));
    OK(tarn_pool_validate(host_pool()));
}

TEST(locked, an_inner_address_is_found_for_a_record_and_for_a_look_but_not_freed)
{
    uint32_t *words = host_malloc(4 * MIB);
    tarn_segment segment = TARN_SEGMENT_INIT;
    tarn_block block;

    sim.hold_work();
    test_fill(world.side, words + 100, 3, WORDS);
    OK(tarn_record_stream(words + 100, world.side));
    OK(tarn_block_at(words + 100, &block));
    ck_assert_ptr_eq(block.address, words);
    OK(tarn_segment_at(words + 100, &segment));
    ck_assert_int_eq(segment.location, TARN_LOCATION_HOST);
    REFUSE(TARN_ERR_INNER_ADDRESS, "inside", tarn_free(words + 100));
    REFUSE(TARN_ERR_INNER_ADDRESS, "inside", tarn_free_on(words + 100, world.stream));
    OK(tarn_free(words));
    ck_assert_uint_eq(test_stats(host_pool()).pending_count, 1);
    sim.resume_work();
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(words));
    REFUSE(TARN_ERR_DOUBLE_FREE, "", tarn_record_stream(words, world.side));
}

TEST(locked, foreign_pointers_are_answered_as_such)
{
    void *memory = test_host_alloc(4096);
    uint32_t local = 0;

    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_record_stream(&local, world.stream));
    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_record_stream(memory, world.stream));
    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_free(memory));
    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_free_on(memory, world.stream));
    test_host_free(memory);
}

TEST(locked, a_private_pool_is_used_like_one_of_a_device)
{
    tarn_pool *pool = private_pool("staging", 64 * MIB);
    tarn_segment segment = TARN_SEGMENT_INIT;
    tarn_block_list *list = NULL;
    void *address = NULL;
    size_t freed = 0;

    OK(tarn_pool_malloc(pool, 5 * MIB, 4096, world.stream, &address));
    ck_assert_uint_eq((uintptr_t)address % 4096, 0);
    memset(address, 1, 5 * MIB);
    OK(tarn_segment_at(address, &segment));
    ck_assert_int_eq(segment.location, TARN_LOCATION_HOST);
    ck_assert_ptr_eq(segment.pool, pool);
    OK(tarn_pool_blocks(pool, &list));
    ck_assert_uint_eq(list->count, 1);
    tarn_block_list_destroy(list);
    OK(tarn_pool_validate(pool));
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(pool, 128 * MIB, 0, world.stream, &address));
    OK(tarn_free(address));
    OK(tarn_pool_reserve(pool, 32 * MIB, world.stream));
    ck_assert_uint_ge(test_stats(pool).mapped_bytes, 32 * MIB);
    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_eq(test_stats(pool).mapped_bytes, 0);
    OK(tarn_pool_destroy(pool));
}

TEST(locked, the_memory_of_a_pool_that_ends_serves_others_in_its_location_alone)
{
    tarn_pool *pool = private_pool("first", 0);
    void *address = NULL;
    size_t cached;

    OK(tarn_pool_malloc(pool, 32 * MIB, 0, NULL, &address));
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
    cached = host_stats().cached_bytes;
    ck_assert_uint_ge(cached, 32 * MIB);
    ck_assert_uint_eq(test_device_stats().cached_bytes, 0);
    OK(tarn_free(test_malloc(32 * MIB)));
    ck_assert_uint_eq(host_stats().cached_bytes, cached);
    OK(tarn_free(host_malloc(32 * MIB)));
    ck_assert_uint_eq(host_stats().cached_bytes, cached - 32 * MIB);
    OK(tarn_device_set_pinned_cache_limit(world.device, TARN_NO_CACHE));
    ck_assert_uint_eq(host_stats().cached_bytes, 0);
}

TEST(locked, the_default_pool_stays_with_its_device)
{
    tarn_pool *pool = host_pool();

    ck_assert_ptr_eq(host_pool(), pool);
    REFUSE(TARN_ERR_WRONG_STATE, "default pool", tarn_pool_destroy(pool));
    REFUSE(TARN_ERR_WRONG_STATE, "default pool", tarn_pool_release(pool));
}

/* Which pool serves, told by the pools' live blocks. */
static void expect_host_malloc_in(tarn_pool *pool)
{
    const uint64_t live = test_stats(pool).live_count;
    void *block = NULL;

    OK(tarn_host_malloc(world.device, 4096, &block));
    ck_assert_uint_eq(test_stats(pool).live_count, live + 1);
    OK(tarn_free(block));
    ck_assert_uint_eq(test_stats(pool).live_count, live);
}

static bool accept_without_a_stream(tn_cu_stream stream, void *user)
{
    *(int *)user += 1;
    return stream == NULL;
}

static void *host_malloc_elsewhere(void *pool)
{
    expect_host_malloc_in(pool);
    return NULL;
}

TEST(locked, a_route_leads_allocations_of_the_host_alone)
{
    tarn_pool *pool = private_pool("routed", 0);
    tarn_pool *newer = private_pool("newer", 0);
    tarn_route *routes[3] = {NULL};
    pthread_t other;
    void *block;
    int calls = 0;

    OK(tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_thread, NULL, &routes[0]));
    expect_host_malloc_in(pool);
    ck_assert_int_eq(pthread_create(&other, NULL, host_malloc_elsewhere, host_pool()), 0);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    block = test_malloc(4096); /* of the device */
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 1);
    OK(tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_thread, NULL, &routes[1]));
    expect_host_malloc_in(pool);
    OK(tarn_free(block));
    block = test_malloc(4096);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    OK(tarn_free(block));
    OK(tarn_begin_allocate_to_pool(world.device, newer, accept_without_a_stream, &calls,
                                   &routes[2]));
    expect_host_malloc_in(newer);
    ck_assert_int_eq(calls, 1);
    OK(tarn_free(test_malloc(4096)));
    ck_assert_int_eq(calls, 1); /* not for the device's */
    STATUS(TARN_ERR_BUSY, tarn_pool_destroy(pool));
    OK(tarn_pool_release(newer)); /* the route keeps it */
    OK(tarn_host_malloc(world.device, 4096, &block));
    ck_assert_int_eq(calls, 2);
    OK(tarn_free(block));
    for (int i = 2; i >= 0; i--)
        OK(tarn_end_allocate_to_pool(routes[i]));
    expect_host_malloc_in(host_pool());
    OK(tarn_pool_destroy(pool));
}

/* Routes of captures are not asked for the host's memory, nor do routes to the host serve captures. */
TEST(locked, routes_to_the_host_leave_captures_alone)
{
    tarn_pool *pool = private_pool("routed", 0);
    tarn_route *route = NULL;
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_alloc(world.pool, 4096, world.stream);
    tarn_graph *graph;

    OK(tarn_free(block));
    expect_host_malloc_in(host_pool());
    OK(tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_thread, NULL, &route));
    expect_host_malloc_in(pool);
    OK(tarn_malloc(world.device, 4096, world.stream, &block));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    OK(tarn_free(block));
    OK(tarn_end_allocate_to_pool(route));
    graph = test_capture_end(capture);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

TEST(locked, no_stream_and_no_capture_leads_there)
{
    tarn_pool *pool = private_pool("host", 0);
    tarn_capture *capture = UNTOUCHED;
    tarn_route *route = UNTOUCHED;
    tarn_graph *graph = UNTOUCHED;
    size_t bytes = 7;
    tn_cu_graph raw;

    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "tarn_filter_thread",
        tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_capture, world.stream, &route));
    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "name no stream",
        tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_stream, world.stream, &route));
    REFUSE(TARN_ERR_WRONG_STATE, "without a route",
           tarn_capture_begin(pool, world.stream, NULL, &capture));
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    raw = test_end_capture(world.stream);
    REFUSE(TARN_ERR_WRONG_STATE, "of the host", tarn_graph_adopt(pool, raw, &graph));
    test_destroy_graph(raw);
    REFUSE(TARN_ERR_NOT_SUPPORTED, "of the host",
           tarn_device_largest(world.device, pool, world.stream, &bytes));
    ck_assert_untouched(capture);
    ck_assert_untouched(route);
    ck_assert_untouched(graph);
    ck_assert_uint_eq(bytes, 7);
    OK(tarn_pool_destroy(pool));
}

TEST(locked, a_host_without_memory_is_said_to_be_so)
{
    void *address = UNTOUCHED;
    uint32_t *words = host_malloc(4 * MIB);

    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_HOST_MEMORY, tarn_host_malloc(world.device, 64 * MIB, &address));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "the host has no 67108864 bytes"));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "pool 'host' maps"));
    ck_assert_untouched(address);
    (void)sim.clear_fault(NULL);
    OK(tarn_host_malloc(world.device, 64 * MIB, &address));
    OK(tarn_free(address));
    OK(tarn_free(words));
}

TEST(locked, requests_that_are_none_are_refused)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;
    void *address = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_host_malloc(NULL, 64, &address));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "address", tarn_host_malloc(world.device, 64, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "bytes", tarn_host_malloc(world.device, SIZE_MAX, &address));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_host_pool(NULL, &pool));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "pool", tarn_host_pool(world.device, NULL));
    options.location = 3;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "location", tarn_pool_create(world.device, &options, &pool));
    options.location = TARN_LOCATION_HOST;
    options.gpu_direct_rdma = true;
    REFUSE(TARN_ERR_NOT_SUPPORTED, "RDMA", tarn_pool_create(world.device, &options, &pool));
    ck_assert_untouched(address);
    ck_assert_untouched(pool);
    OK(tarn_host_malloc(world.device, 0, &address));
    ck_assert_ptr_null(address);
}

TEST(locked, contents_of_a_checkpoint_are_there_when_the_call_returns)
{
    static const tarn_contents kinds[] = {TARN_CONTENTS_DEVICE, TARN_CONTENTS_HOST};
    tarn_pool *pool = private_pool("state", 0);

    for (int i = 0; i < 2; i++) {
        tarn_checkpoint *checkpoint = NULL;
        tarn_delta *delta = NULL;
        void *address = NULL;
        uint32_t *words;

        OK(tarn_pool_malloc(pool, WORDS * sizeof *words, 0, NULL, &address));
        words = address;
        memset(words, 7, WORDS * sizeof *words);
        test_spin(world.stream, 20); /* the copies come behind this */
        OK(tarn_checkpoint_take(pool, kinds[i], world.stream, &checkpoint));
        memset(words, 8, WORDS * sizeof *words); /* at once */
        OK(tarn_free(words));
        test_spin(world.side, 20);
        OK(tarn_checkpoint_restore(checkpoint, world.side, &delta));
        ck_assert_uint_eq(delta->revived_count, 1);
        ck_assert_uint_eq(words[0], 0x07070707);
        ck_assert_uint_eq(words[WORDS - 1], 0x07070707);
        tarn_delta_destroy(delta);
        OK(tarn_free(words));
        OK(tarn_checkpoint_destroy(checkpoint));
    }
    OK(tarn_pool_destroy(pool));
}

TEST(locked, no_more_is_made_ready_than_a_pool_may_have)
{
    tarn_pool *pool = registered_pool(16 * MIB);

    STATUS(TARN_ERR_LIMIT, tarn_pool_reserve(pool, 64 * MIB, world.stream));
    ck_assert_uint_eq(host_stats().mapped_bytes, 0);
    OK(tarn_pool_reserve(pool, 16 * MIB, world.stream));
    OK(tarn_pool_destroy(pool));
}

TEST(locked, registered_memory_is_used_like_other_memory_of_the_host)
{
    tarn_pool *pool = registered_pool(0);
    tarn_segment segment = TARN_SEGMENT_INIT;
    uint32_t *blocks[24];
    void *memory = test_malloc(WORDS * sizeof(uint32_t));
    void *address = NULL;

    for (size_t i = 0; i < 24; i++) {
        OK(tarn_pool_malloc(pool, (i + 1) * 500 * 1024, 0, NULL, &address));
        blocks[i] = address;
        memset(blocks[i], (int)i, (i + 1) * 500 * 1024);
        OK(tarn_segment_at(address, &segment));
        ck_assert_int_eq(segment.location, TARN_LOCATION_REGISTERED);
        ck_assert_uint_eq(segment.bytes, 16 * MIB);
        ck_assert_uint_eq(segment.chunk_bytes, 16 * MIB);
    }
    OK(tarn_pool_validate(pool));
    for (size_t i = 0; i < 24; i++) {
        test_copy(world.stream, memory, blocks[i], WORDS * sizeof(uint32_t));
        test_expect_words(world.stream, memory, (uint32_t)i * 0x01010101, WORDS);
        OK(tarn_free_on(blocks[i], world.stream));
    }
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(test_stats(pool).mapped_bytes, 0);
    ck_assert_uint_eq(host_stats().cached_bytes, 0);
    OK(tarn_pool_validate(pool));
    OK(tarn_pool_destroy(pool));
    OK(tarn_free(memory));
}

TEST(locked, registered_pieces_pass_from_pool_to_pool)
{
    tarn_pool *first = registered_pool(0);
    tarn_pool *second = registered_pool(0);
    void *address = NULL;
    void *again = NULL;

    OK(tarn_pool_reserve(first, 40 * MIB, NULL));
    ck_assert_uint_eq(host_stats().cached_bytes, 48 * MIB);
    OK(tarn_pool_malloc(first, 10 * MIB, 0, NULL, &address));
    ck_assert_uint_eq(host_stats().cached_bytes, 32 * MIB);
    ck_assert_uint_eq(host_stats().mapped_bytes, 16 * MIB);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(first));
    ck_assert_uint_eq(host_stats().cached_bytes, 48 * MIB);
    OK(tarn_pool_malloc(second, 10 * MIB, 0, NULL, &again));
    ck_assert_ptr_eq(again, address); /* the piece that was given back last */
    OK(tarn_free(again));
    OK(tarn_pool_destroy(second));
}

static tarn_location location_at(const void *address)
{
    tarn_segment segment = TARN_SEGMENT_INIT;

    OK(tarn_segment_at(address, &segment));
    return segment.location;
}

static void open_registering(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.pinned_use_cuda_host_register = true;
    options.pinned_num_register_threads = 2;
    test_world_open_with(&options);
}

GROUP(chosen, open_registering, test_world_close, .name = "registration by choice")

TEST(chosen, blocks_of_up_to_a_piece_are_registered)
{
    uint32_t *small = host_malloc(4096);
    uint32_t *large = host_malloc(16 * MIB);
    uint32_t *larger = host_malloc(16 * MIB + 1);

    ck_assert_int_eq(location_at(small), TARN_LOCATION_REGISTERED);
    ck_assert_int_eq(location_at(large), TARN_LOCATION_REGISTERED);
    ck_assert_int_eq(location_at(larger), TARN_LOCATION_HOST);
    ck_assert_uint_eq(host_stats().live_bytes, 4096 + 32 * MIB + 512);
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
    OK(tarn_free(small));
    OK(tarn_free(large));
    OK(tarn_free(larger));
}

TEST(locked, what_registered_memory_cannot_do_is_refused)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = registered_pool(32 * MIB);
    tarn_checkpoint *checkpoint = UNTOUCHED;
    tarn_pool *none = UNTOUCHED;
    void *address = UNTOUCHED;

    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(pool, 17 * MIB, 0, NULL, &address));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "at most 16 MiB"));
    REFUSE(TARN_ERR_NOT_SUPPORTED, "checkpoint",
           tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    options.location = TARN_LOCATION_REGISTERED;
    options.exportable = true;
    REFUSE(TARN_ERR_NOT_SUPPORTED, "registered", tarn_pool_create(world.device, &options, &none));
    ck_assert_untouched(checkpoint);
    ck_assert_untouched(none);
    ck_assert_untouched(address);
    OK(tarn_pool_add_peer(pool, 0));
    OK(tarn_pool_destroy(pool));
}

TEST(locked, a_pool_that_lacks_registered_memory_tries_what_others_can_give)
{
    tarn_pool *first = registered_pool(0);
    tarn_pool *second = registered_pool(0);
    void *address = NULL;
    void *other = NULL;

    OK(tarn_pool_malloc(first, 10 * MIB, 0, NULL, &address));
    sim.plan_fault("cuMemHostRegister", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    other = UNTOUCHED;
    STATUS(TARN_ERR_HOST_MEMORY, tarn_pool_malloc(second, 10 * MIB, 0, NULL, &other));
    ck_assert_untouched(other);
    OK(tarn_free(address));
    OK(tarn_pool_malloc(second, 10 * MIB, 0, NULL, &other)); /* the first one's piece */
    ck_assert_ptr_eq(other, address);
    (void)sim.clear_fault(NULL);
    OK(tarn_free(other));
    OK(tarn_pool_destroy(first));
    OK(tarn_pool_destroy(second));
}

struct text {
    char bytes[1 << 16];
    size_t length;
};

static tarn_status take_text(const void *bytes, size_t count, void *user)
{
    struct text *text = user;

    ck_assert_uint_le(text->length + count, sizeof text->bytes);
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    return TARN_OK;
}

TEST(locked, snapshots_know_where_memory_is)
{
    static struct text with;
    static struct text without;
    uint32_t *words;
    tarn_snapshot *snapshot = NULL;
    size_t found = 0;

    OK(tarn_free(test_malloc(4096)));
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    OK(tarn_snapshot_write_pytorch(snapshot, take_text, &without));
    tarn_snapshot_destroy(snapshot);
    words = host_malloc(4096);
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    for (size_t i = 0; i < snapshot->segment_count; i++)
        found += snapshot->segments[i].pool->location == TARN_LOCATION_HOST;
    ck_assert_uint_eq(found, 1);
    OK(tarn_snapshot_write_pytorch(snapshot, take_text, &with));
    ck_assert_uint_eq(with.length, without.length); /* not in PyTorch's */
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(words));
}

TEST(locked, what_the_driver_refuses_is_told)
{
    tarn_stats wrong = {.size = 3};
    void *address = UNTOUCHED;
    tarn_pool *pool = UNTOUCHED;

    sim.plan_fault("cuDeviceGetAttribute", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_host_pool(world.device, &pool));
    STATUS(TARN_ERR_DRIVER, tarn_host_malloc(world.device, 64, &address));
    (void)sim.clear_fault(NULL);
    ck_assert_untouched(address);
    ck_assert_untouched(pool);
    OK(tarn_pool_set_limit(host_pool(), 4 * MIB));
    STATUS(TARN_ERR_LIMIT, tarn_host_malloc(world.device, 64 * MIB, &address));
    ck_assert_untouched(address);
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_host_stats(NULL, &wrong));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_host_stats(world.device, &wrong));
}
