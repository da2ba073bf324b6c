// SPDX-License-Identifier: Apache-2.0
#include "inspect/scan.h"
#include "pools/staging.h"
#include "support/world.h"
#include "unit/unit.h"

enum { BYTES = 8192 };

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static struct tn_scan scan;
static struct tn_references references;

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
}

static uint64_t word_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

static void put(char *at, uint64_t word)
{
    test_write(stream, at, &word, sizeof word);
}

/* A block whose bytes are all the same. */
static char *block_of(size_t bytes, uint32_t value)
{
    char *block = unit_alloc(pool, bytes, stream);

    test_fill(stream, block, value, bytes / 4);
    test_synchronize(stream);
    return block;
}

static void begin(void)
{
    OK(tn_scan_begin(&scan, pool, stream));
}

/* Ends it, and all that was found with it. */
static void end(void)
{
    ck_assert(!tn_scan_goes_on(&scan));
    tn_scan_end(&scan);
    tn_references_drop(&references);
    ck_assert(tn_lock_none_held());
}

static void expect(size_t at, const char *where, uint64_t address)
{
    ck_assert_uint_lt(at, references.count);
    ck_assert_uint_eq(references.items[at].at, word_of(where));
    ck_assert_uint_eq(references.items[at].address, address);
    ck_assert_int_eq(references.items[at].place, TARN_PLACE_MEMORY);
    ck_assert_uint_eq(references.items[at].node, TARN_NO_NODE);
}

GROUP(scan, open_device)

TEST(scan, an_empty_pool_has_nothing)
{
    begin();
    ck_assert_uint_eq(scan.scanned_bytes, 0);
    end();
}

TEST(scan, words_that_are_addresses_are_found)
{
    char *first = block_of(BYTES, 0x11111111);
    char *second = block_of(BYTES - 4, 0);

    put(first, word_of(second));
    put(first + BYTES - 8, word_of(first) + 77);
    put(second + 64, word_of(second) + BYTES * 4); /* free, and mapped */
    put(second + 100, word_of(first));             /* at no multiple of a word */
    begin();
    OK(tn_scan_read(&scan, &references));
    ck_assert_uint_eq(references.count, 3);
    expect(0, first, word_of(second));
    expect(1, first + BYTES - 8, word_of(first) + 77);
    expect(2, second + 64, word_of(second) + BYTES * 4);
    ck_assert_uint_eq(scan.scanned_bytes, 2 * BYTES - 4);
    end();
}

/* A block that is larger than what is copied at a time, and many small ones. */
TEST(scan, all_bytes_are_looked_through)
{
    enum { SMALL = 300 };
    char *large = block_of(9 * MIB, 0);
    char *small[SMALL];
    size_t found = 0;

    for (size_t i = 0; i < SMALL; i++) {
        small[i] = block_of(512, 0);
        put(small[i] + 8, word_of(large) + i);
    }
    put(large + 4 * MIB - 8, word_of(small[0]));
    put(large + 4 * MIB, word_of(small[1]));
    put(large + 9 * MIB - 8, word_of(small[2]));
    begin();
    while (tn_scan_goes_on(&scan)) {
        OK(tn_scan_read(&scan, &references));
        found += references.count;
    }
    ck_assert_uint_eq(found, SMALL + 3);
    ck_assert_uint_eq(scan.scanned_bytes, 9 * MIB + SMALL * 512);
    end();
}

TEST(scan, what_was_freed_meanwhile_is_left_out)
{
    char *first = block_of(BYTES, 0);
    char *second = block_of(BYTES, 0);

    put(first, word_of(second));
    put(second, word_of(second));
    begin();
    OK(tarn_free(first));
    OK(tn_scan_read(&scan, &references));
    ck_assert_uint_eq(references.count, 1);
    expect(0, second, word_of(second));
    ck_assert_uint_eq(scan.scanned_bytes, BYTES);
    end();
}

TEST(scan, a_stream_in_a_capture_is_refused)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tn_scan_begin(&scan, pool, stream));
    tn_scan_end(&scan);
    test_destroy_graph(test_end_capture(stream));
}

/* Each allocation, and each call of the driver, made to fail: what has begun can be ended. */
TEST(scan, what_fails_leaves_nothing)
{
    static const char *const calls[] = {"cuEventCreate", "cuMemCreate", "cuMemcpyDtoHAsync",
                                        "cuEventRecord", "cuEventSynchronize"};
    char *block = block_of(BYTES, 0);
    int64_t outstanding;
    tarn_status status;
    uint64_t nth = 0;

    put(block, word_of(block));
    begin();
    OK(tn_scan_read(&scan, &references));
    end();
    tn_staging_trim(device, 0);
    outstanding = tn_host_outstanding();
    do {
        nth += 1;
        (void)tn_host_plan_fault(nth, false);
        status = tn_scan_begin(&scan, pool, stream);
        if (status == TARN_OK)
            status = tn_scan_read(&scan, &references);
        (void)tn_host_plan_fault(0, false);
        tn_scan_end(&scan);
        tn_references_drop(&references);
        tn_staging_trim(device, 0);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
    } while (status == TARN_ERR_HOST_MEMORY);
    OK(status);
    ck_assert_uint_gt(nth, 2);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        status = tn_scan_begin(&scan, pool, stream);
        if (status == TARN_OK)
            status = tn_scan_read(&scan, &references);
        ck_assert_msg(status == TARN_ERR_DRIVER, "%s: %s", calls[i], tarn_status_name(status));
        (void)sim.clear_fault(NULL);
        tn_scan_end(&scan);
        tn_references_drop(&references);
        tn_staging_trim(device, 0);
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
    }
}
