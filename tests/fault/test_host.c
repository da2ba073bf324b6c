// SPDX-License-Identifier: Apache-2.0
/* Page-locked memory: the default pool of the host, a private one, blocks that streams and captures
 * use, checkpoints with contents, and all of it given back. */
#include "fault/fault.h"

enum { WORDS = 256 };

#define BYTES (WORDS * sizeof(uint32_t))
#define HOST_POOL fault.out.pools[0]
#define MAKE (S(HOST_MEMORY) | S(NOT_SUPPORTED) | CALLED | LOST)
#define HOST_ROOM (S(NOT_SUPPORTED) | S(HOST_MEMORY) | S(ADDRESS_SPACE) | S(DRIVER) | LOST)

static uint32_t *output; /* of POOL */
static uint32_t *input;  /* of the host, in a graph; NULL: freed */
static bool routed;      /* to OTHER_POOL */

static void write_words(uint32_t *words, uint32_t value)
{
    for (size_t i = 0; i < WORDS; i++)
        words[i] = value;
}

static void open_pools(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    STEP(OPEN, tarn_device_open(0, NULL, &DEVICE));
    STEP(MAKE, tarn_host_pool(DEVICE, &HOST_POOL));
    STEP(MAKE, tarn_pool_create(DEVICE, NULL, &POOL));
    options.location = TARN_LOCATION_HOST;
    STEP(MAKE, tarn_pool_create(DEVICE, &options, &OTHER_POOL));
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, BYTES, 0, MAIN, &fault.out.address));
    output = fault_taken(POOL, BYTES);
}

/* Blocks of both pools, copied on two streams. */
static void copy(void)
{
    uint32_t *words;
    uint32_t *other;

    STEP(HOST_ROOM, tarn_host_malloc(DEVICE, 3 * MIB, &fault.out.address));
    words = fault_taken(HOST_POOL, 3 * MIB);
    write_words(words, 3);
    test_copy(MAIN, output, words, BYTES);
    test_expect_words(MAIN, output, 3, WORDS);
    test_copy(SIDE, output, words, BYTES);
    STEP(NOTE, tarn_record_stream(words + 1, SIDE));
    FREE(words);
    test_synchronize(SIDE);
    STEP(HOST_ROOM, tarn_pool_malloc(OTHER_POOL, 24 * MIB, 4096, NULL, &fault.out.address));
    other = fault_taken(OTHER_POOL, 24 * MIB);
    write_words(other, 4);
    test_copy(MAIN, output, other, BYTES);
    STEP(NOTE, tarn_free_on(other, MAIN));
    fault_dead(other);
    STEP(HOST_ROOM, tarn_pool_reserve(OTHER_POOL, 32 * MIB, MAIN));
}

/* A route leads allocations of the host to the private pool. */
static void follow_route(void)
{
    uint32_t *words;

    STEP(MAKE, tarn_begin_allocate_to_pool(DEVICE, OTHER_POOL, tarn_filter_thread, NULL,
                                           &fault.out.routes[0]));
    routed = true;
    STEP(HOST_ROOM, tarn_host_malloc(DEVICE, 2 * MIB, &fault.out.address));
    words = fault_taken(OTHER_POOL, 2 * MIB);
    write_words(words, 2);
    FREE(words);
    STEP(0, tarn_end_allocate_to_pool(fault.out.routes[0]));
    routed = false;
}

/* One input is freed in the capture, and one behind it. */
static void capture(void)
{
    uint32_t *freed;

    STEP(CAPTURE_BEGIN,
         tarn_capture_begin(POOL, MAIN, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &fault.out.capture));
    STEP(HOST_ROOM, tarn_host_malloc(DEVICE, 2 * MIB, &fault.out.address));
    freed = fault_taken(HOST_POOL, 2 * MIB);
    write_words(freed, 5);
    test_copy(MAIN, output, freed, BYTES);
    STEP(NOTE, tarn_free_on(freed, MAIN));
    fault_dead(freed);
    STEP(HOST_ROOM, tarn_host_malloc(DEVICE, 2 * MIB, &fault.out.address));
    input = fault_taken(HOST_POOL, 2 * MIB);
    write_words(input, 6);
    test_copy(MAIN, output + WORDS / 2, input, BYTES / 2);
    STEP(NOTE, tarn_record_stream(input, MAIN));
    STEP(CAPTURE_END, tarn_capture_end(fault.out.capture, &fault.out.graphs[0]));
    fault.out.capture = UNTOUCHED;
    FREE(input);
    STEP(REPLAY, tarn_graph_replay(fault.out.graphs[0], MAIN));
    test_expect_words(MAIN, output, 5, WORDS / 2);
    test_expect_words(MAIN, output + WORDS / 2, 6, WORDS / 2);
    STEP(0, tarn_graph_destroy(fault.out.graphs[0]));
    fault.out.graphs[0] = UNTOUCHED;
    fault_settle(0);
    STEP(LOST, tarn_device_collect(DEVICE));
}

#define CONTENTS (TAKE | S(NOT_SUPPORTED))

/* Memory of the host in a checkpoint, whose bytes lie on the host or on the device. */
static void take_and_restore(void)
{
    uint32_t *words;

    STEP(HOST_ROOM, tarn_pool_malloc(OTHER_POOL, BYTES, 0, MAIN, &fault.out.address));
    words = fault_taken(OTHER_POOL, BYTES);
    write_words(words, 7);
    STEP(CONTENTS,
         tarn_checkpoint_take(OTHER_POOL, TARN_CONTENTS_DEVICE, MAIN, &fault.out.checkpoints[0]));
    STEP(CONTENTS,
         tarn_checkpoint_take(OTHER_POOL, TARN_CONTENTS_HOST, SIDE, &fault.out.checkpoints[1]));
    test_synchronize(MAIN);
    test_synchronize(SIDE);
    for (size_t i = 0; i < 2; i++) {
        write_words(words, 8);
        STEP(RESTORE | ROOM | S(NOT_SUPPORTED),
             tarn_checkpoint_restore(fault.out.checkpoints[i], MAIN, &fault.out.delta));
        tarn_delta_destroy(fault.out.delta);
        fault.out.delta = UNTOUCHED;
        test_synchronize(MAIN);
        ck_assert_uint_eq(words[0], 7);
        ck_assert_uint_eq(words[WORDS - 1], 7);
    }
    for (size_t i = 0; i < 2; i++) {
        STEP(0, tarn_checkpoint_destroy(fault.out.checkpoints[i]));
        fault.out.checkpoints[i] = UNTOUCHED;
    }
    FREE(words);
}

/* Registered memory, which two pools take in turn. */
static void register_some(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    uint32_t *words;

    STEP(TRIM, tarn_pool_trim(OTHER_POOL, &fault.out.freed_bytes));
    STEP(CALLED, tarn_pool_destroy(OTHER_POOL));
    OTHER_POOL = UNTOUCHED;
    options.location = TARN_LOCATION_REGISTERED;
    STEP(MAKE, tarn_pool_create(DEVICE, &options, &OTHER_POOL));
    STEP(HOST_ROOM, tarn_pool_malloc(OTHER_POOL, 3 * MIB, 0, NULL, &fault.out.address));
    words = fault_taken(OTHER_POOL, 3 * MIB);
    write_words(words, 9);
    test_copy(MAIN, output, words, BYTES);
    STEP(NOTE, tarn_free_on(words, MAIN));
    fault_dead(words);
}

static void give_back(void)
{
    STEP(TRIM, tarn_pool_trim(HOST_POOL, &fault.out.freed_bytes));
    STEP(TRIM, tarn_pool_trim(OTHER_POOL, &fault.out.freed_bytes));
    STEP(CALLED, tarn_pool_destroy(OTHER_POOL));
    OTHER_POOL = UNTOUCHED;
    FREE(output);
    fault_close(CALLED);
}

static void end_own(void)
{
    if (routed)
        END(tarn_end_allocate_to_pool(fault.out.routes[0]));
    routed = false;
    fault_abort(&fault.out.capture);
}

int main(void)
{
    static const struct fault_scenario host = {
        .name = "page-locked memory",
        .settings = {{"TARN_SIM_DEVICES", "2"}, {"TARN_SIM_POISON", "0"}},
        .parts = {open_pools, copy, follow_route, capture, take_and_restore, register_some,
                  give_back},
        .ends = end_own,
    };

    return fault_main(&host);
}
