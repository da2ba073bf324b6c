// SPDX-License-Identifier: Apache-2.0
/* Pieces of registered memory: made, ready, in pools, and given back to the system. */
#include "pools/opening.h"
#include "pools/pieces.h"
#include "unit/unit.h"

static tarn_device *device;

static void open_pieces(void)
{
    device = unit_device();
    OK(tn_device_open_pieces(device));
}

static uint64_t ready_bytes(void)
{
    return tn_memory_cache_bytes(&device->host.ready);
}

static uint64_t registered_bytes(void)
{
    return tn_registered_usage(&device->host.registered).registered_bytes;
}

SUITE("pieces of registered memory")
GROUP(pieces, open_pieces, NULL, .name = "pieces")

TEST(pieces, a_piece_is_a_registration_at_the_beginning_of_a_slot)
{
    struct tn_memory *pieces[3];

    OK(tn_pieces_provide(device, 2 * TN_PIECE_BYTES + 1));
    ck_assert_uint_eq(ready_bytes(), 3 * TN_PIECE_BYTES);
    ck_assert_uint_eq(registered_bytes(), 3 * TN_PIECE_BYTES);
    ck_assert_uint_eq(atomic_load(&device->host.budget.charged_bytes), 3 * TN_PIECE_BYTES);
    for (int i = 0; i < 3; i++) {
        pieces[i] = tn_piece_take(device);
        ck_assert_uint_eq(pieces[i]->address % TN_SLOT_BYTES, 0);
        ck_assert_uint_eq(tn_host_regions_end_of(&device->host.registered.regions,
                                                 pieces[i]->address + TN_PAGE_BYTES),
                          pieces[i]->address + TN_PIECE_BYTES);
        memset((void *)(uintptr_t)pieces[i]->address, 1, TN_PIECE_BYTES);
    }
    ck_assert_ptr_null(tn_piece_take(device));
    for (int i = 0; i < 3; i++)
        tn_piece_give(device, pieces[i]);
    OK(tn_pieces_provide(device, TN_PIECE_BYTES)); /* there are more already */
    ck_assert_uint_eq(registered_bytes(), 3 * TN_PIECE_BYTES);
    tn_pieces_trim(device, TN_PIECE_BYTES);
    ck_assert_uint_eq(registered_bytes(), TN_PIECE_BYTES);
    ck_assert_uint_eq(atomic_load(&device->host.budget.charged_bytes), TN_PIECE_BYTES);
    OK(tarn_device_close(device));
}

/* The first of two that are made together is refused, or the second. */
TEST_LOOP(pieces, a_piece_that_cannot_be_made_leaves_nothing, 1, 3)
{
    OK(tn_pieces_provide(device, TN_PIECE_BYTES));
    sim.plan_fault("cuMemHostRegister", (uint64_t)_i, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_ne(tn_pieces_provide(device, 3 * TN_PIECE_BYTES), TARN_OK);
    (void)sim.clear_fault(NULL);
    ck_assert_uint_eq(ready_bytes(), TN_PIECE_BYTES);
    ck_assert_uint_eq(registered_bytes(), TN_PIECE_BYTES);
    ck_assert_uint_eq(atomic_load(&device->host.budget.charged_bytes), TN_PIECE_BYTES);
    atomic_store(&device->host.budget.limit_bytes, TN_PIECE_BYTES);
    STATUS(TARN_ERR_LIMIT, tn_pieces_provide(device, 2 * TN_PIECE_BYTES));
    OK(tarn_device_close(device));
}

/* P41 */
TEST(pieces, a_segment_has_its_memory_aside_until_a_chunk_gets_it)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    struct tn_segment *segment;
    void *address = NULL;
    tarn_pool *pool;

    options.location = TARN_LOCATION_REGISTERED;
    OK(tarn_pool_create(device, &options, &pool));
    address = unit_alloc(pool, TN_PIECE_BYTES, NULL); /* all of a piece */
    segment = unit_segment(address);
    ck_assert_ptr_null(segment->aside);
    ck_assert_uint_eq(segment->bytes, TN_PIECE_BYTES);
    ck_assert_uint_eq(segment->chunk_count, 1);
    ck_assert_uint_eq(ready_bytes(), 0);
    OK(tarn_pool_validate(pool));
    segment->aside = tn_segment_chunk_at(segment, 0)->memory;
    unit_expect_corrupt(pool, "P41");
    segment->aside = NULL;
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool)); /* nothing is unregistered */
    ck_assert_uint_eq(ready_bytes(), TN_PIECE_BYTES);
    ck_assert_ptr_null(unit_segment(address));
    OK(tarn_device_close(device));
}
