// SPDX-License-Identifier: Apache-2.0
/* Pools with properties, and memory that is limited, cached and trimmed: of the driver's two devices the
 * first is opened, and the second is a peer. */
#include "fault/fault.h"

enum { WORDS = 256 };

static void open_device(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.region_bytes = GIB;
    STEP(OPEN, tarn_device_open(0, &options, &DEVICE));
    STEP(0, tarn_device_default_pool(DEVICE, &fault.out.pools[0]));
}

#define CREATE (S(HOST_MEMORY) | S(NOT_SUPPORTED) | CALLED | LOST)

/* Memory that others may have mapped, and memory for a network card. */
static void make_special(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    void *block;

    options.exportable = true;
    STEP(CREATE, tarn_pool_create(DEVICE, &options, &POOL));
    options.exportable = false;
    options.gpu_direct_rdma = true;
    STEP(CREATE, tarn_pool_create(DEVICE, &options, &OTHER_POOL));
    for (size_t i = 1; i < 3; i++) {
        STEP(ROOM | LOST,
             tarn_pool_malloc(fault.out.pools[i], 3 * MIB, 0, MAIN, &fault.out.address));
        block = fault_taken(fault.out.pools[i], 3 * MIB);
        test_fill(MAIN, block, 1, WORDS);
        STEP(0, tarn_free(block));
        fault_dead(block);
    }
    STEP(CALLED, tarn_pool_destroy(OTHER_POOL));
    OTHER_POOL = UNTOUCHED;
    STEP(CALLED, tarn_pool_destroy(POOL));
    POOL = UNTOUCHED;
}

#define PEER (S(NOT_SUPPORTED) | CALLED | LOST)

/* A peer from the beginning, and one that comes when memory is mapped. */
static void share_with_peer(void)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    const int peers[] = {1};
    void *first;
    void *block;

    STEP(CREATE, tarn_pool_create(DEVICE, NULL, &POOL));
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 5 * MIB, 0, MAIN, &fault.out.address));
    first = fault_taken(POOL, 5 * MIB);
    test_fill(MAIN, first, 1, WORDS);
    STEP(PEER, tarn_pool_add_peer(POOL, 1));
    STEP(PEER, tarn_pool_add_peer(POOL, 1)); /* may already */
    STEP(ROOM | LOST, tarn_pool_malloc(POOL, 40 * MIB, 0, MAIN, &fault.out.address));
    block = fault_taken(POOL, 40 * MIB);
    test_fill(MAIN, block, 2, WORDS);
    STEP(PEER, tarn_device_add_peer(DEVICE, 1)); /* the default pool is left */
    options.peers = peers;
    options.peer_count = 1;
    STEP(CREATE, tarn_pool_create(DEVICE, &options, &OTHER_POOL));
    FREE(block);
    test_synchronize(MAIN);
    STEP(TRIM, tarn_pool_trim_to(POOL, 16 * MIB, &fault.out.freed_bytes));
    test_expect_words(MAIN, first, 1, WORDS);
    FREE(first);
    STEP(CALLED, tarn_pool_destroy(POOL)); /* its chunks are cached */
    POOL = UNTOUCHED;
    STEP(ROOM | LOST, tarn_pool_malloc(OTHER_POOL, 5 * MIB, 0, SIDE, &fault.out.address));
    block = fault_taken(OTHER_POOL, 5 * MIB);
    FREE(block);
    STEP(CALLED, tarn_pool_destroy(OTHER_POOL));
    OTHER_POOL = UNTOUCHED;
}

/* Growth that is limited by the pool, by the device in bytes and as a fraction, with cached memory. */
static void limit(void)
{
    void *block;

    STEP(CREATE, tarn_pool_create(DEVICE, NULL, &POOL));
    STEP(0, tarn_pool_set_limit(POOL, 24 * MIB));
    fault_expect(TARN_ERR_LIMIT);
    STEP(ROOM | S(LIMIT) | LOST, tarn_pool_malloc(POOL, 32 * MIB, 0, MAIN, &fault.out.address));
    STEP(0, tarn_pool_set_limit(POOL, 0));
    STEP(0, tarn_device_set_limit(DEVICE, 64 * MIB));
    STEP(ROOM | S(LIMIT) | LOST, tarn_pool_malloc(POOL, 48 * MIB, 0, MAIN, &fault.out.address));
    block = fault_taken(POOL, 48 * MIB);
    FREE(block);
    STEP(LOST, tarn_device_set_cache_limit(DEVICE, 8 * MIB));
    STEP(LOST, tarn_device_set_pinned_cache_limit(DEVICE, 8 * MIB));
    STEP(TRIM, tarn_device_trim(DEVICE, 32 * MIB, &fault.out.freed_bytes));
    STEP(LOST, tarn_device_collect(DEVICE));
    STEP(S(HOST_MEMORY) | CALLED | LOST,
         tarn_device_largest(DEVICE, POOL, MAIN, &fault.out.freed_bytes));
    STEP(0, tarn_device_set_memory_fraction(DEVICE, 0.5));
    STEP(0, tarn_device_set_limit(DEVICE, 0));
    STEP(TRIM, tarn_device_trim(DEVICE, 0, &fault.out.freed_bytes));
}

/* More than one region of addresses, and all of it given back. */
static void grow_regions(void)
{
    void *blocks[2];

    for (size_t i = 0; i < 2; i++) {
        STEP(ROOM | LOST, tarn_pool_malloc(POOL, 640 * MIB, 0, MAIN, &fault.out.address));
        blocks[i] = fault_taken(POOL, 640 * MIB);
    }
    for (size_t i = 0; i < 2; i++) {
        STEP(0, tarn_free(blocks[i]));
        fault_dead(blocks[i]);
    }
    STEP(TRIM, tarn_pool_trim(POOL, &fault.out.freed_bytes));
    fault_close(CALLED);
}

static void end_own(void)
{
}

int main(void)
{
    static const struct fault_scenario pools = {
        .name = "pools",
        .settings = {{"TARN_SIM_DEVICES", "2"}, {"TARN_SIM_POISON", "0"}},
        .parts = {open_device, make_special, share_with_peer, limit, grow_regions},
        .ends = end_own,
    };

    return fault_main(&pools);
}
