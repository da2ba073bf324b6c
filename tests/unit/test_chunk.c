// SPDX-License-Identifier: Apache-2.0
#include "driver/mapping.h"
#include "driver/open.h"
#include "unit/unit.h"

static const struct tn_memory_properties plain = {.exportable = false};
static const struct tn_memory_properties exportable = {.exportable = true};

static struct tn_gpu gpu;
static struct tn_regions regions;
static struct tn_segment *segment;
static tn_cu_stream stream;
static tarn_sim_ledger before;
static int64_t host_before;
static int owner;

static void open_segment(void)
{
    const struct tn_driver *driver;

    test_start();
    OK(tn_driver_load(&driver));
    OK(tn_address_table_init());
    OK(tn_gpu_open(&gpu, driver, 0));
    OK(tn_regions_init(&regions, &gpu, 64 * TN_GIB));
    OK(tn_segment_create(&regions, TN_SLOT_BYTES, &owner, 4, &segment));
    stream = test_stream();
    before = test_ledger();
    host_before = tn_host_outstanding();
}

static struct tn_memory *memory_of(uint64_t bytes)
{
    struct tn_memory *memory;

    OK(tn_memory_create(&gpu, bytes, plain, &memory));
    return memory;
}

static struct tn_chunk *chunk_at(uint64_t offset, uint64_t bytes)
{
    struct tn_chunk *chunk;

    OK(tn_chunk_create(segment, offset, bytes, &chunk));
    return chunk;
}

static struct tn_chunk *map_at(uint64_t offset, struct tn_memory *memory)
{
    struct tn_chunk *chunk = chunk_at(offset, memory->bytes);

    OK(tn_chunk_map(chunk, memory, 0));
    return chunk;
}

static void remove_chunk(struct tn_chunk *chunk)
{
    tn_memory_destroy(&gpu, tn_chunk_unmap(chunk));
    tn_chunk_destroy(chunk);
    ck_assert_ptr_null(chunk->segment); /* a stale pointer still shows a record */
}

static void *address_of(const struct tn_chunk *chunk)
{
    return (void *)(uintptr_t)tn_chunk_address(chunk);
}

/* V4, V5: after each step. */
static void expect_chunks(struct tn_chunk *const *chunks, size_t count)
{
    uint64_t mapped = 0;

    for (uint64_t page = 0; page < segment->bytes / TN_PAGE_BYTES; page++) {
        const struct tn_chunk *expected = NULL;

        for (size_t i = 0; i < count; i++) {
            if (page * TN_PAGE_BYTES >= chunks[i]->offset &&
                page * TN_PAGE_BYTES < chunks[i]->offset + chunks[i]->bytes)
                expected = chunks[i];
        }
        ck_assert_ptr_eq(tn_segment_chunk_at(segment, page * TN_PAGE_BYTES), expected);
        ck_assert_ptr_eq(tn_segment_chunk_at(segment, page * TN_PAGE_BYTES + 12345), expected);
        mapped += expected != NULL && expected->memory != NULL ? TN_PAGE_BYTES : 0;
    }
    ck_assert_uint_eq(segment->chunk_count, count);
    ck_assert_uint_eq(segment->mapped_bytes, mapped);
}

GROUP(chunks, open_segment)

TEST(chunks, chunks_come_and_go_at_their_pages)
{
    struct tn_chunk *chunks[3];

    chunks[0] = map_at(0, memory_of(8 * TN_MIB));
    expect_chunks(chunks, 1);
    chunks[1] = map_at(30 * TN_MIB, memory_of(2 * TN_MIB));
    expect_chunks(chunks, 2);
    chunks[2] = map_at(8 * TN_MIB, memory_of(4 * TN_MIB));
    expect_chunks(chunks, 3);
    ck_assert_uint_eq(tn_chunk_end(chunks[2]), 12 * TN_MIB);
    ck_assert_uint_eq(test_ledger().mapped_bytes, before.mapped_bytes + 14 * TN_MIB);
    remove_chunk(chunks[2]);
    expect_chunks(chunks, 2);
    remove_chunk(chunks[1]);
    remove_chunk(chunks[0]);
    expect_chunks(NULL, 0);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    test_same_ledger(&before);
}

TEST(chunks, mapped_memory_can_be_written_at_its_addresses)
{
    struct tn_chunk *chunk = map_at(4 * TN_MIB, memory_of(4 * TN_MIB));

    ck_assert_uint_eq(tn_chunk_address(chunk), segment->base + 4 * TN_MIB);
    test_fill(stream, address_of(chunk), 5, TN_MIB);
    test_expect_words(stream, address_of(chunk), 5, TN_MIB);
}

TEST(chunks, unmapped_memory_keeps_its_bytes_and_is_mapped_elsewhere)
{
    struct tn_chunk *chunk = map_at(0, memory_of(4 * TN_MIB));
    struct tn_memory *memory;

    test_fill(stream, address_of(chunk), 5, TN_MIB);
    test_synchronize(stream);
    memory = tn_chunk_unmap(chunk);
    tn_chunk_destroy(chunk);
    chunk = map_at(16 * TN_MIB, memory);
    expect_chunks(&chunk, 1);
    test_expect_words(stream, address_of(chunk), 5, TN_MIB);
}

/* A pause: the bytes are elsewhere, or nowhere, and the place waits for them. */
TEST(chunks, a_chunk_whose_memory_is_away_keeps_its_place)
{
    struct tn_chunk *chunk = map_at(4 * TN_MIB, memory_of(4 * TN_MIB));
    struct tn_memory *memory;

    test_fill(stream, address_of(chunk), 5, TN_MIB);
    test_synchronize(stream);
    memory = tn_chunk_unmap(chunk);
    ck_assert_ptr_null(chunk->memory);
    ck_assert(!tn_memory_is_mapped(memory));
    ck_assert_ptr_eq(chunk->segment, segment);
    expect_chunks(&chunk, 1);
    ck_assert_uint_eq(test_ledger().mapped_bytes, before.mapped_bytes);
    ck_assert_ptr_eq(tn_address_table_chunk(tn_chunk_address(chunk)), chunk);
    OK(tn_chunk_map(chunk, memory, 0));
    expect_chunks(&chunk, 1);
    test_expect_words(stream, address_of(chunk), 5, TN_MIB);
    tn_memory_destroy(&gpu, tn_chunk_unmap(chunk));
    OK(tn_chunk_map(chunk, memory_of(4 * TN_MIB), 0)); /* other memory */
    expect_chunks(&chunk, 1);
    remove_chunk(chunk);
    expect_chunks(NULL, 0);
    test_same_ledger(&before);
}

/* An overlay: two places, one memory. V6. */
TEST(chunks, memory_may_be_mapped_by_several_chunks)
{
    struct tn_memory *memory = memory_of(2 * TN_MIB);
    struct tn_chunk *chunks[2] = {map_at(0, memory), map_at(8 * TN_MIB, memory)};

    expect_chunks(chunks, 2);
    ck_assert_uint_eq(atomic_load(&memory->chunk_count), 2);
    ck_assert_uint_eq(test_ledger().handle_bytes, before.handle_bytes + 2 * TN_MIB);
    test_fill(stream, address_of(chunks[0]), 5, TN_MIB / 4);
    test_expect_words(stream, address_of(chunks[1]), 5, TN_MIB / 4);
    test_synchronize(stream);
    ck_assert_ptr_eq(tn_chunk_unmap(chunks[0]), memory);
    tn_chunk_destroy(chunks[0]);
    ck_assert(tn_memory_is_mapped(memory));
    expect_chunks(&chunks[1], 1);
    test_expect_words(stream, address_of(chunks[1]), 5, TN_MIB / 4);
    remove_chunk(chunks[1]);
    test_same_ledger(&before);
}

/* As from another process: the driver gives a handle of its own for what was exported. */
TEST(chunks, imported_memory_is_mapped_like_any_other)
{
    struct tn_memory *made;
    struct tn_memory *imported;
    struct tn_chunk *chunks[2];

    OK(tn_memory_create(&gpu, 2 * TN_MIB, exportable, &made));
    OK(tn_memory_import(test_import_handle(made->handle), 2 * TN_MIB, exportable, &imported));
    chunks[0] = map_at(0, made);
    chunks[1] = map_at(2 * TN_MIB, imported);
    expect_chunks(chunks, 2);
    test_fill(stream, address_of(chunks[0]), 5, TN_MIB / 4);
    test_expect_words(stream, address_of(chunks[1]), 5, TN_MIB / 4);
    test_synchronize(stream);
    remove_chunk(chunks[0]); /* its maker's end */
    test_expect_words(stream, address_of(chunks[1]), 5, TN_MIB / 4);
    test_synchronize(stream);
    remove_chunk(chunks[1]);
    test_same_ledger(&before);
}

GROUP(failures, open_segment)

TEST(failures, a_map_that_fails_changes_nothing)
{
    struct tn_memory *memory = memory_of(8 * TN_MIB);
    struct tn_chunk *chunk = chunk_at(0, 8 * TN_MIB);
    tarn_sim_ledger made = test_ledger();

    sim.plan_fault("cuMemSetAccess", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_chunk_map(chunk, memory, 6));
    ck_assert_ptr_null(tn_segment_chunk_at(segment, 0));
    ck_assert_ptr_null(chunk->memory);
    ck_assert_uint_eq(chunk->peer_mask, 0);
    ck_assert_uint_eq(segment->mapped_bytes, 0);
    ck_assert(!tn_memory_is_mapped(memory));
    test_same_ledger(&made);
    tn_chunk_destroy(chunk);
    tn_memory_destroy(&gpu, memory);
    expect_chunks(NULL, 0);
    test_same_ledger(&before);
}

TEST(failures, a_chunk_that_cannot_be_made_leaves_nothing)
{
    struct tn_chunk *chunk = NULL;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_chunk_create(segment, 0, 2 * TN_MIB, &chunk));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(chunk);
    expect_chunks(NULL, 0);
}

GROUP(wrong, open_segment)

/* V4: a page has one chunk. */
CONTRACT_TEST(wrong, mapping_where_another_chunk_is_is_a_broken_contract)
{
    struct tn_chunk *chunk = map_at(0, memory_of(8 * TN_MIB));

    /* the driver does not know of this one */
    tn_address_table_set_pages(segment->base + 8 * TN_MIB, TN_PAGE_BYTES, chunk);
    (void)map_at(8 * TN_MIB, memory_of(2 * TN_MIB));
}

CONTRACT_TEST(wrong, a_chunk_past_the_end_is_a_broken_contract)
{
    (void)chunk_at(30 * TN_MIB, 4 * TN_MIB);
}

CONTRACT_TEST(wrong, mapping_over_the_memory_of_a_chunk_is_a_broken_contract)
{
    struct tn_chunk *chunk = map_at(0, memory_of(2 * TN_MIB));

    OK(tn_chunk_map(chunk, memory_of(2 * TN_MIB), 0));
}

/* V7 */
CONTRACT_TEST(wrong, memory_of_another_size_is_a_broken_contract)
{
    OK(tn_chunk_map(chunk_at(0, 4 * TN_MIB), memory_of(2 * TN_MIB), 0));
}

/* V6 */
CONTRACT_TEST(wrong, destroying_mapped_memory_is_a_broken_contract)
{
    tn_memory_destroy(&gpu, map_at(0, memory_of(2 * TN_MIB))->memory);
}

CONTRACT_TEST(wrong, destroying_a_chunk_with_memory_is_a_broken_contract)
{
    tn_chunk_destroy(map_at(0, memory_of(2 * TN_MIB)));
}
