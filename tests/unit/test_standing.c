// SPDX-License-Identifier: Apache-2.0
#include "claims/import_block.h"
#include "inspect/standing.h"
#include "pools/free.h"
#include "support/bodies.h"
#include "support/nodes.h"
#include "unit/ordered.h"
#include "unit/unit.h"

enum { MOST = 600, BYTES = 8192 };

static tarn_device *device;
static tarn_pool *pool;
static tarn_pool *other;
static tn_cu_stream stream;
static struct tn_reference items[MOST];
static struct tn_references references;
static tarn_audit_node node = {.parent = TARN_NO_NODE}; /* that all are of */
static struct tn_standings standings;
static int64_t outstanding;

/* How often pools were locked; what happens before one is locked again. */
static size_t lock_count;
static bool by_segment; /* one is being locked by what lies in it */
static void (*_Atomic between)(void);

__typeof__(tn_pool_lock) __real_tn_pool_lock;
__typeof__(tn_pool_lock) __wrap_tn_pool_lock;
void __wrap_tn_pool_lock(tarn_pool *which)
{
    void (*first)(void) = by_segment ? NULL : atomic_exchange(&between, NULL);

    if (by_segment) {
        __real_tn_pool_lock(which);
        return;
    }
    if (first != NULL)
        first();
    lock_count += 1;
    __real_tn_pool_lock(which);
}

__typeof__(tn_pool_lock_segment) __real_tn_pool_lock_segment;
__typeof__(tn_pool_lock_segment) __wrap_tn_pool_lock_segment;
tarn_status __wrap_tn_pool_lock_segment(uint64_t address, tarn_pool **which,
                                        struct tn_segment **segment)
{
    tarn_status status;

    lock_count += 1;
    by_segment = true;
    status = __real_tn_pool_lock_segment(address, which, segment);
    by_segment = false;
    return status;
}

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool_of(device, "mine", 0);
    other = unit_pool_of(device, "other", 0);
    stream = test_stream();
    references = (struct tn_references){.items = items, .nodes = &node, .node_count = 1};
}

/* Another address to be looked up. */
static void ask(const void *address)
{
    ck_assert_uint_lt(references.count, MOST);
    items[references.count] = (struct tn_reference){.address = (uint64_t)(uintptr_t)address};
    references.count += 1;
}

static tarn_status search(tn_cu_graph graph, const tarn_pool *own)
{
    return tn_standings_find(&standings, &references, &device->regions, graph, own);
}

/* own: the graph's pool; NULL: none that is named. */
static void find_for(tn_cu_graph graph, const tarn_pool *own)
{
    tn_standings_drop(&standings);
    outstanding = tn_host_outstanding();
    OK(search(graph, own));
    ck_assert(tn_lock_none_held());
}

static void find(tn_cu_graph graph)
{
    find_for(graph, NULL);
}

/* What it has is the caller's, and goes as one. */
static void drop(void)
{
    tn_standings_drop(&standings);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
}

static const struct tn_found_pool *found_pool(size_t at)
{
    ck_assert_ptr_nonnull(standings.findings[at].pool);
    return standings.findings[at].pool;
}

static void expect(size_t at, enum tn_standing standing, const tarn_pool *whose)
{
    const struct tn_finding *finding = &standings.findings[at];

    ck_assert_int_eq(finding->standing, (int)standing);
    ck_assert_ptr_eq(finding->block.pool, whose);
    ck_assert_int_eq(finding->pool != NULL, whose != NULL);
    if (whose != NULL) {
        ck_assert_ptr_eq(found_pool(at)->pool, whose);
        ck_assert_str_eq(found_pool(at)->name, whose->name);
    }
    ck_assert(!finding->held);
}

static void expect_block(size_t at, tarn_pool *whose, const void *address, size_t bytes)
{
    expect(at, TN_STANDING_LIVE, whose);
    ck_assert_ptr_eq(standings.findings[at].block.address, address);
    ck_assert_uint_eq(standings.findings[at].block.bytes, bytes);
    ck_assert_ptr_eq(standings.findings[at].block.pool, whose);
    ck_assert_uint_gt(standings.findings[at].block.sequence, 0);
}

GROUP(others, open_device)

TEST(others, nothing_is_asked_of_nothing)
{
    find(NULL);
    ck_assert_ptr_null(standings.findings);
    drop();
}

GROUP(pools, open_device)

TEST(pools, a_live_block_is_found_by_its_first_byte_and_its_last)
{
    char *block = unit_alloc(pool, BYTES - 100, stream);
    char *its = unit_alloc(other, 4 * MIB, stream);

    ask(block);
    ask(block + BYTES - 101);
    ask(block + BYTES - 1); /* what the rounding added */
    ask(its + 4 * MIB - 1);
    ask(its);
    find(NULL);
    for (size_t i = 0; i < 3; i++)
        expect_block(i, pool, block, BYTES - 100);
    expect_block(3, other, its, 4 * MIB);
    expect_block(4, other, its, 4 * MIB);
}

TEST(pools, freed_memory_is_its_pools)
{
    char *block = unit_alloc(pool, BYTES, stream);
    char *kept = unit_alloc(pool, BYTES, stream);

    OK(tarn_free(block));
    ask(block);
    ask(block + 77);
    ask(kept);
    find(NULL);
    expect(0, TN_STANDING_FREED, pool);
    expect(1, TN_STANDING_FREED, pool);
    expect_block(2, pool, kept, BYTES);
}

TEST(pools, a_block_whose_uses_go_on_is_freed)
{
    char *block = unit_alloc(pool, BYTES, stream);
    tn_cu_stream elsewhere = test_stream();

    sim.hold_work();
    test_fill(elsewhere, block, 1, 16);
    OK(tarn_record_stream(block, elsewhere));
    OK(tarn_free(block));
    ask(block);
    find(NULL);
    expect(0, TN_STANDING_FREED, pool);
    sim.resume_work();
    test_synchronize(elsewhere);
}

TEST(pools, addresses_without_memory_are_tarns)
{
    char *block = unit_alloc(pool, BYTES, stream);
    const struct tn_segment *segment = tn_address_table_find((uintptr_t)block);
    char *gone = unit_alloc(other, 64 * MIB, stream);

    ask((char *)(uintptr_t)(segment->base + segment->bytes - 1)); /* the segment is not full */
    ask(gone + 5);
    OK(tarn_free(gone));
    unit_trim(device);
    ck_assert_ptr_null(tn_address_table_find((uintptr_t)gone));
    find(NULL);
    expect(0, TN_STANDING_UNMAPPED, pool);
    expect(1, TN_STANDING_UNMAPPED, NULL);
}

TEST(others, what_is_not_tarns_the_driver_is_asked_for)
{
    char *linear = test_linear_alloc(BYTES);
    char *pinned = test_host_alloc(BYTES);
    int local = 0;

    ask(linear + 9);
    ask(pinned + 9);
    ask(&local);
    find(NULL);
    expect(0, TN_STANDING_DEVICE, NULL);
    ck_assert_ptr_eq(standings.findings[0].block.address, linear);
    ck_assert_uint_eq(standings.findings[0].block.bytes, BYTES);
    ck_assert_int_eq(standings.findings[0].device, 0);
    expect(1, TN_STANDING_PINNED, NULL);
    ck_assert_ptr_eq(standings.findings[1].block.address, pinned);
    expect(2, TN_STANDING_UNKNOWN, NULL);
}

/* Of another process: in a block that is open here, beside it, and in one that was let go. */
TEST(others, memory_of_other_processes_is_told_from_that_of_the_driver)
{
    const struct tn_memory_properties exportable = {.exportable = true};
    const uint64_t bytes = 2 * TN_MIB;
    struct tn_memory *made;
    struct tn_memory *memory;
    struct tn_import import;
    struct tn_import_block block;
    uint64_t base;

    OK(tn_memory_create(&device->gpu, bytes, exportable, &made));
    OK(tn_memory_import(test_import_handle(made->handle), bytes, exportable, &memory));
    tn_import_init(&import, &memory, 1);
    OK(tn_import_use(&device->imports, &import, &base));
    tn_import_block_enter(&block, &device->gpu, base + 512, 1024);
    ask((void *)(uintptr_t)(base + 600));
    ask((void *)(uintptr_t)base);
    ask((void *)(uintptr_t)(base + 1536));
    find(NULL);
    expect(0, TN_STANDING_IMPORTED, NULL);
    ck_assert_uint_eq((uintptr_t)standings.findings[0].block.address, base + 512);
    ck_assert_uint_eq(standings.findings[0].block.bytes, 1024);
    ck_assert_uint_eq(standings.findings[0].block.sequence, block.sequence);
    expect(1, TN_STANDING_LET_GO, NULL);
    ck_assert_ptr_null(standings.findings[1].block.address);
    expect(2, TN_STANDING_LET_GO, NULL);
    ck_assert(!tn_import_block_close(&block));
    tn_import_block_end(&block);
    find(NULL);
    expect(0, TN_STANDING_LET_GO, NULL);
    tn_import_leave(&device->imports, &import);
    tn_import_fini(&device->imports, &import);
    find(NULL);
    expect(0, TN_STANDING_UNKNOWN, NULL);
    tn_memory_destroy(&device->gpu, memory);
    tn_memory_destroy(&device->gpu, made);
}

/* What a capture freed is the graph's own as long as that is there; and no other graph's. */
TEST(pools, memory_that_the_graph_keeps_is_held)
{
    tarn_capture *capture;
    tarn_graph *graph;
    tn_cu_graph handle;
    tn_cu_graph without = test_graph();
    void *freed;

    OK(tarn_capture_begin(pool, stream, NULL, &capture));
    freed = unit_alloc(pool, BYTES, stream);
    test_fill(stream, freed, 1, 16);
    OK(tarn_free(freed));
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_driver_handles(graph, &handle, NULL));
    ask(freed);
    find(handle);
    ck_assert_int_eq(standings.findings[0].standing, TN_STANDING_FREED);
    ck_assert_ptr_eq(standings.findings[0].block.pool, pool);
    ck_assert(standings.findings[0].held);
    ck_assert(found_pool(0)->is_own); /* nobody said so */
    find(without);
    expect(0, TN_STANDING_FREED, pool);
    ck_assert(!found_pool(0)->is_own);
    find_for(without, pool);
    expect(0, TN_STANDING_FREED, pool);
    ck_assert(found_pool(0)->is_own);
    find(NULL);
    expect(0, TN_STANDING_FREED, pool);
    node.parent = 0; /* in a child graph: it may be that one's */
    find(without);
    ck_assert(standings.findings[0].held);
    drop();
    OK(tarn_graph_destroy(graph));
}

/* The graph's hold has room for 512 chunks; one that was mapped later is not in it. */
TEST(pools, memory_that_came_after_the_graph_is_not_held)
{
    tarn_graph *graph = unit_graph(pool, stream, BYTES, NULL);
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
    char *block;

    heap->segment_bytes = 2 * GIB;
    tn_pool_lock(pool);
    for (uint64_t i = 1; i <= 600; i++)
        OK(tn_heap_grow(pool, heap, i * 2 * MIB, true));
    tn_pool_unlock(pool);
    block = unit_alloc(pool, 1200 * MIB, stream);
    ck_assert_uint_ge(unit_chunk(block + 1198 * MIB)->id,
                      pool->holds.first->chunks.word_count * 64);
    OK(tarn_free(block));
    ask(block + 1198 * MIB);
    find(graph->driver_graph);
    expect(0, TN_STANDING_FREED, pool);
    OK(tarn_graph_destroy(graph));
}

/* G5: many blocks of several segments, some freed, and addresses in no order: each as its block is. */
TEST(pools, each_of_many_addresses_stands_as_its_block_does)
{
    enum { BLOCKS = 150 };
    static char *blocks[BLOCKS];
    static size_t sizes[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        sizes[i] = i % 3 == 0 ? 3 * MIB : 512 * (1 + i % 7);
        blocks[i] = unit_alloc(i % 2 == 0 ? pool : other, sizes[i], stream);
    }
    for (size_t i = 0; i < BLOCKS; i += 5)
        OK(tarn_free(blocks[i]));
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t at = (i * 67 + k * 31) % BLOCKS;

            ask(blocks[at] + (k == 0 ? 0 : k == 1 ? sizes[at] - 1 : k == 2 ? 1 : sizes[at] / 2));
        }
    }
    lock_count = 0;
    find(NULL);
    ck_assert_uint_eq(lock_count, 4); /* of two pools */
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t at = (i * 67 + k * 31) % BLOCKS;
            tarn_pool *whose = at % 2 == 0 ? pool : other;

            if (at % 5 == 0)
                expect(k * BLOCKS + i, TN_STANDING_FREED, whose);
            else
                expect_block(k * BLOCKS + i, whose, blocks[at], sizes[at]);
        }
    }
}

static char *passing;

static void let_go(void)
{
    OK(tarn_free(passing));
    unit_trim(device);
    ck_assert_ptr_null(tn_address_table_find((uintptr_t)passing));
}

TEST(pools, what_goes_between_two_looks_has_no_memory)
{
    passing = unit_alloc(pool, 64 * MIB, stream);
    ask(passing + 1);
    between = let_go;
    find(NULL);
    ck_assert(between == NULL);
    expect(0, TN_STANDING_UNMAPPED, NULL);
}

/* A pool's graphs are replayed in an order of their own, but for the default pool, which has none. */
TEST(pools, pools_in_one_order_are_told_from_others)
{
    ask(unit_alloc(pool, BYTES, stream));
    ask(unit_alloc(other, BYTES, stream));
    ask(unit_alloc(device->default_pool, BYTES, stream));
    find_for(NULL, pool);
    ck_assert(found_pool(0)->is_own && found_pool(0)->shares_replays);
    ck_assert(!found_pool(1)->is_own && !found_pool(1)->shares_replays);
    ck_assert(!found_pool(2)->is_own && found_pool(2)->shares_replays);
    find(NULL);
    ck_assert(!found_pool(0)->is_own && found_pool(0)->shares_replays);
    drop();
}

TEST(others, without_memory_nothing_is_looked_up)
{
    static const char *const sentences[] = {"1 addresses", "1 addresses", "names of pools"};

    ask(unit_alloc(pool, BYTES, stream));
    for (uint64_t nth = 1; nth <= 3; nth++) {
        outstanding = tn_host_outstanding();
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, search(NULL, NULL));
        unit_expect_sentence(sentences[nth - 1]);
        drop();
    }
}

TEST(others, a_refusal_of_the_drivers_is_named)
{
    ask(unit_alloc(pool, BYTES, stream));
    ask(test_linear_alloc(BYTES));
    outstanding = tn_host_outstanding();
    sim.plan_fault("cuPointerGetAttributes", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, search(NULL, NULL));
    unit_expect_sentence("cuPointerGetAttributes");
    drop();
    ck_assert(tn_lock_none_held());
}

TEST(others, captures_are_not_disturbed)
{
    tarn_capture *capture;
    tarn_graph *graph;
    void *captured;

    OK(tarn_capture_begin(pool, stream, NULL, &capture));
    captured = unit_alloc(pool, BYTES, stream);
    test_fill(stream, captured, 1, 16);
    ask(captured);
    ask(test_graph_of_capture(stream)); /* the driver's own, whatever that is */
    find(test_graph_of_capture(stream));
    ck_assert_ptr_eq(standings.findings[0].block.address, captured);
    ck_assert(standings.findings[0].held); /* as far as it has come */
    ck_assert(standings.findings[0].captured);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_destroy(graph));
}
