// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include "graphs/graph.h"
#include "inspect/audit.h"
#include "pools/sweep.h"
#include "support/bodies.h"
#include "support/nodes.h"
#include "unit/ordered.h"
#include "unit/unit.h"

enum { BYTES = 8192, WORDS = BYTES / 4 };

static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                          ".visible .entry unit_audit_map(.param .align 64 .b8 map[128],\n"
                          "    .param .u64 address)\n{ ret; }\n";

static tarn_device *device;
static tarn_pool *pool; /* the own one of most audits */
static tarn_pool *other;
static tn_cu_stream stream;
static struct tn_audit_subject subject;
static tarn_audit_options options;
static tarn_audit *audit;

/* Others destroy and replace a graph of Tarn's with that lock; one of the driver's is nobody's else. */
static void expect_lock(void)
{
    if (TARN_DEBUG_CHECKS)
        ck_assert(tn_lock_held(TN_RANK_GRAPHS) == subject.is_listed);
}

__typeof__(tn_references_open) __real_tn_references_open;
__typeof__(tn_references_open) __wrap_tn_references_open;
tarn_status __wrap_tn_references_open(struct tn_references *references, struct tn_regions *regions,
                                      tn_cu_graph graph, const tarn_audit_body *bodies,
                                      size_t body_count)
{
    expect_lock();
    return __real_tn_references_open(references, regions, graph, bodies, body_count);
}

__typeof__(tn_references_read) __real_tn_references_read;
__typeof__(tn_references_read) __wrap_tn_references_read;
tarn_status __wrap_tn_references_read(struct tn_references *references, size_t enough)
{
    expect_lock();
    return __real_tn_references_read(references, enough);
}

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool_of(device, "mine", 0);
    other = unit_pool_of(device, "other", 0);
    stream = test_stream();
    subject = (struct tn_audit_subject){.pool = pool};
    options = (tarn_audit_options)TARN_AUDIT_OPTIONS_INIT;
    audit = NULL;
}

static void close_device(void)
{
    if (audit != NULL)
        tn_audit_drop(audit);
}

static void begin(void)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
}

/* What is looked through is what was captured. */
static void end(void)
{
    subject.graph = test_end_capture(stream);
}

static void set(void *address, size_t bytes)
{
    test_set_words(stream, address, 1, bytes / 4);
}

/* G6 */
static void look(enum tn_audit_list list)
{
    size_t sum = 0;
    size_t mistakes = 0;
    uint32_t refused = options.refused | (subject.is_guarded ? 1u << TARN_POINTER_OVERWRITES : 0);

    if (audit != NULL)
        tn_audit_drop(audit);
    audit = NULL;
    OK(tn_audit(device, &subject, &options, list, &audit));
    ck_assert(tn_lock_none_held());
    for (size_t i = 0; i < TARN_POINTER_CLASSES; i++) {
        bool accepted = (options.accepted >> i & 1) != 0;

        sum += audit->counts[i];
        if ((tn_pointer_is_mistake((tarn_pointer_class)i) || (refused >> i & 1) != 0) && !accepted)
            mistakes += audit->counts[i];
    }
    ck_assert_uint_eq(sum, audit->pointer_count);
    ck_assert_uint_eq(mistakes, audit->mistake_count);
}

static const tarn_pointer *pointer_at(size_t at)
{
    ck_assert_uint_lt(at, tn_audit_listed(audit));
    return &audit->pointers[at];
}

static void expect(size_t at, tarn_pointer_class of, const void *address)
{
    ck_assert_str_eq(tn_pointer_class_name(pointer_at(at)->pointer_class),
                     tn_pointer_class_name(of));
    ck_assert_uint_eq(pointer_at(at)->address, (uint64_t)(uintptr_t)address);
}

/* All pointers are of these classes, in order. */
static void expect_classes(size_t count, const tarn_pointer_class *classes)
{
    look(TN_LIST_ALL);
    ck_assert_uint_eq(audit->pointer_count, count);
    ck_assert_uint_eq(tn_audit_listed(audit), count);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(pointer_at(i)->pointer_class == classes[i], "pointer %zu is %s, expected %s",
                      i, tn_pointer_class_name(pointer_at(i)->pointer_class),
                      tn_pointer_class_name(classes[i]));
}

#define EXPECT_CLASSES(...)                                                                        \
    expect_classes(sizeof((tarn_pointer_class[]){__VA_ARGS__}) / sizeof(tarn_pointer_class),       \
                   (const tarn_pointer_class[]){__VA_ARGS__})

GROUP(classes, open_device, close_device)

TEST(classes, live_blocks_are_the_own_pools_or_external)
{
    char *own = unit_alloc(pool, BYTES, stream);
    char *its = unit_alloc(other, BYTES, stream);

    begin();
    set(own, BYTES);
    set(its + 64, 128);
    end();
    EXPECT_CLASSES(TARN_POINTER_LIVE, TARN_POINTER_EXTERNAL);
    ck_assert_uint_eq(audit->mistake_count, 0);
    expect(1, TARN_POINTER_EXTERNAL, its + 64);
    ck_assert_int_eq(pointer_at(1)->place, TARN_PLACE_DESTINATION);
    ck_assert_uint_eq(pointer_at(1)->node, 1);
    ck_assert_uint_eq(pointer_at(1)->bytes, 128);
    ck_assert_int_eq(pointer_at(1)->device, -1);
    ck_assert_str_eq(pointer_at(1)->pool, "other");
    ck_assert_ptr_eq(pointer_at(1)->block.pool, other);
    ck_assert_ptr_eq(pointer_at(1)->block.address, its);
    ck_assert_uint_eq(pointer_at(1)->block.bytes, BYTES);
    subject.pool = NULL;
    EXPECT_CLASSES(TARN_POINTER_EXTERNAL, TARN_POINTER_EXTERNAL);
}

TEST(classes, freed_blocks_are_mistakes_and_so_is_what_has_no_memory)
{
    char *own = unit_alloc(pool, BYTES, stream);
    char *its = unit_alloc(other, BYTES, stream);

    begin();
    set(own, BYTES);
    set(its, BYTES);
    end();
    OK(tarn_free(own));
    OK(tarn_free(its));
    EXPECT_CLASSES(TARN_POINTER_FREED, TARN_POINTER_FREED_EXTERNAL);
    ck_assert_ptr_eq(pointer_at(1)->block.pool, other);
    ck_assert_ptr_null(pointer_at(1)->block.address);
    ck_assert_str_eq(pointer_at(1)->pool, "other");
    unit_trim(device);
    EXPECT_CLASSES(TARN_POINTER_UNMAPPED, TARN_POINTER_UNMAPPED);
    ck_assert_ptr_null(pointer_at(1)->pool);
}

TEST(classes, what_the_graph_holds_is_reused_by_design)
{
    void *freed;
    tarn_graph *graph = unit_graph(pool, stream, BYTES, &freed);
    tarn_capture *capture;
    tarn_block block;

    subject.graph = graph->driver_graph;
    subject.is_listed = true;
    EXPECT_CLASSES(TARN_POINTER_REUSED);
    subject.pool = NULL; /* the pool is the graph's, whoever says so */
    EXPECT_CLASSES(TARN_POINTER_REUSED);
    capture = unit_begin(pool, stream);
    ck_assert_ptr_eq(unit_alloc(pool, BYTES, stream), freed);
    test_fill(stream, freed, 1, 16);
    OK(tarn_block_at(freed, &block));
    EXPECT_CLASSES(TARN_POINTER_LIVE);
    subject.mark = block.sequence + 1;
    EXPECT_CLASSES(TARN_POINTER_LIVE);
    subject.mark = block.sequence;
    EXPECT_CLASSES(TARN_POINTER_OVERWRITES);
    ck_assert_ptr_eq(pointer_at(0)->block.address, freed);
    ck_assert_uint_eq(audit->overwrite_count, 1);
    ck_assert_uint_eq(audit->mistake_count, 0);
    subject.is_guarded = true;
    EXPECT_CLASSES(TARN_POINTER_OVERWRITES);
    ck_assert_uint_eq(audit->mistake_count, 1);
    subject.is_guarded = false;
    OK(tarn_capture_abort(capture));
    OK(tarn_free(freed));
    OK(tarn_graph_destroy(graph));
}

/* That it is used again says more than where the new block ends. */
TEST(classes, a_later_block_where_one_was_is_used_again)
{
    char *own = unit_alloc(pool, BYTES, stream);
    char *its = unit_alloc(other, BYTES, stream);

    begin();
    set(own, BYTES + 4);
    set(its, BYTES);
    end();
    subject.mark = tn_device_mark(device);
    EXPECT_CLASSES(TARN_POINTER_BEYOND, TARN_POINTER_EXTERNAL);
    OK(tarn_free(own));
    OK(tarn_free(its));
    EXPECT_CLASSES(TARN_POINTER_FREED, TARN_POINTER_FREED_EXTERNAL);
    ck_assert_ptr_eq(unit_alloc(pool, BYTES, stream), own);
    ck_assert_ptr_eq(unit_alloc(other, BYTES, stream), its);
    EXPECT_CLASSES(TARN_POINTER_USED_AGAIN, TARN_POINTER_USED_AGAIN);
    ck_assert_ptr_eq(pointer_at(0)->block.address, own); /* the one that is there */
    ck_assert_uint_ge(pointer_at(0)->block.sequence, subject.mark);
    subject.mark = 0;
    EXPECT_CLASSES(TARN_POINTER_BEYOND, TARN_POINTER_EXTERNAL);
    subject.mark = tn_device_mark(device);
    EXPECT_CLASSES(TARN_POINTER_BEYOND, TARN_POINTER_EXTERNAL);
}

/* A word of a struct may be a small number beside a gap; a parameter that is one word is none. No guard watches its block. */
TEST(classes, a_word_that_may_be_two_numbers_is_doubtful)
{
    char *block = unit_alloc(other, 4 * MIB, stream);
    struct tn_heap *heap = unit_heap(other, stream, TN_HEAP_LARGE);
    uint64_t map[16] = {0};
    uint64_t address;
    void *values[] = {map, &address};
    uint64_t base;

    heap->segment_bytes = 8 * GIB;
    OK(tarn_free(block));
    block = unit_alloc(other, 256 * MIB, stream); /* in a segment that has a multiple of 4 GiB */
    base = tn_round_up((uintptr_t)block, (uint64_t)1 << 32);
    if (tn_address_table_find(base) == NULL)
        return; /* the driver has no such addresses */
    map[0] = base + 999;
    map[1] = (uint64_t)0x2e2e2e2e << 32; /* bytes, which may end in the driver's memory */
    map[2] = (uintptr_t)test_linear_alloc(BYTES) + 0x2e;
    address = base + 999;
    begin();
    test_launch_kernel(stream, test_kernel(ptx, "unit_audit_map"), values, NULL);
    end();
    EXPECT_CLASSES(TARN_POINTER_DOUBTFUL, TARN_POINTER_FOREIGN, TARN_POINTER_UNMAPPED);
    ck_assert_uint_eq(audit->mistake_count, 1);
}

TEST(classes, bytes_beyond_a_blocks_end_are_a_mistake)
{
    char *own = unit_alloc(pool, BYTES, stream);
    char *its = unit_alloc(other, BYTES - 4, stream);
    char *linear = test_linear_alloc(2 * BYTES);
    char *pinned = test_host_alloc(BYTES);

    begin();
    set(own + BYTES - 64, 64);
    set(own + BYTES - 64, 68);
    set(its, BYTES - 4);
    set(its, BYTES); /* what the rounding added is not the user's */
    test_copy(stream, linear, pinned, BYTES);
    test_fill(stream, own + BYTES - 4, 1, 1); /* a kernel: nobody knows how far */
    end();
    EXPECT_CLASSES(TARN_POINTER_LIVE, TARN_POINTER_BEYOND, TARN_POINTER_EXTERNAL,
                   TARN_POINTER_BEYOND, TARN_POINTER_PINNED, TARN_POINTER_FOREIGN,
                   TARN_POINTER_LIVE);
    ck_assert_ptr_eq(audit->mistakes[1].block.address, its);
    ck_assert_uint_eq(audit->mistakes[1].block.bytes, BYTES - 4);
    ck_assert_uint_eq(audit->mistakes[1].node, 3);
    ck_assert_int_eq(pointer_at(5)->device, 0);
    ck_assert_ptr_eq(pointer_at(5)->block.address, linear);
    ck_assert_ptr_null(pointer_at(5)->pool);
}

TEST(classes, bytes_beyond_the_drivers_memory_are_a_mistake)
{
    char *linear = test_linear_alloc(BYTES);
    char *pinned = test_host_alloc(BYTES);

    begin();
    set(linear, BYTES);
    set(linear + 4, BYTES);
    set(pinned, BYTES);
    set(pinned + 4, BYTES);
    end();
    EXPECT_CLASSES(TARN_POINTER_FOREIGN, TARN_POINTER_BEYOND, TARN_POINTER_PINNED,
                   TARN_POINTER_BEYOND);
    ck_assert_uint_eq(pointer_at(1)->block.bytes, BYTES);
    ck_assert_ptr_eq(pointer_at(3)->block.address, pinned);
    test_linear_free(linear);
    EXPECT_CLASSES(TARN_POINTER_UNKNOWN, TARN_POINTER_UNKNOWN, TARN_POINTER_PINNED,
                   TARN_POINTER_BEYOND);
}

/* A block that another pool's capture has: its graphs write it in no order with ours. */
TEST(classes, another_pools_captured_blocks_are_unordered)
{
    tarn_capture *capture = unit_begin(other, stream);
    char *its = unit_alloc(other, BYTES, stream);
    tarn_graph *graph;

    test_fill(stream, its, 1, 16);
    graph = unit_end(capture);
    begin();
    set(its, BYTES);
    set(its, BYTES + 4);
    end();
    EXPECT_CLASSES(TARN_POINTER_UNORDERED, TARN_POINTER_BEYOND);
    subject.mark = 1;
    EXPECT_CLASSES(TARN_POINTER_USED_AGAIN, TARN_POINTER_USED_AGAIN);
    subject.mark = 0;
    subject.pool = NULL; /* there is nothing to be in order with */
    EXPECT_CLASSES(TARN_POINTER_EXTERNAL, TARN_POINTER_BEYOND);
    subject.pool = other;
    EXPECT_CLASSES(TARN_POINTER_LIVE, TARN_POINTER_BEYOND);
    OK(tarn_free(its));
    OK(tarn_graph_destroy(graph));
}

/* In a child graph any hold may be its template's; but another pool's says nothing of what was freed there. */
TEST(classes, another_pools_hold_keeps_nothing_for_a_child_graph)
{
    tarn_capture *capture = unit_begin(other, stream);
    char *its = unit_alloc(other, BYTES, stream);
    tarn_graph *graph;
    tn_cu_graph inner;

    test_fill(stream, its, 1, 16);
    graph = unit_end(capture);
    begin();
    set(its, BYTES);
    inner = test_end_capture(stream);
    subject.graph = test_graph();
    test_add_child(subject.graph, inner);
    test_destroy_graph(inner);
    EXPECT_CLASSES(TARN_POINTER_UNORDERED);
    look(TN_LIST_NOT_HELD);
    ck_assert_uint_eq(tn_audit_listed(audit), 1);
    expect(0, TARN_POINTER_UNORDERED, its);
    subject.mark = 1;
    EXPECT_CLASSES(TARN_POINTER_USED_AGAIN);
    OK(tarn_free(its));
    EXPECT_CLASSES(TARN_POINTER_FREED_EXTERNAL);
    OK(tarn_graph_destroy(graph));
}

TEST(classes, what_allocation_nodes_give_is_the_graphs)
{
    char *address;
    tn_cu_graphexec exec;

    begin();
    address = test_allocate_node(stream, BYTES);
    test_fill(stream, address, 1, 16);
    end();
    EXPECT_CLASSES(TARN_POINTER_NODE, TARN_POINTER_NODE);
    exec = test_instantiate(subject.graph);
    test_launch(exec, stream);
    test_synchronize(stream);
    EXPECT_CLASSES(TARN_POINTER_NODE, TARN_POINTER_NODE); /* the driver knows it by now */
    begin();
    test_free_node(stream, address);
    end();
    look(TN_LIST_ALL);
    ck_assert_int_eq(pointer_at(0)->place, TARN_PLACE_FREED);
    ck_assert_uint_eq(audit->mistake_count, 0);
    test_launch_once(subject.graph, stream);
    test_synchronize(stream);
    EXPECT_CLASSES(TARN_POINTER_NODE);
    test_destroy_exec(exec);
}

static void host_function(void *user)
{
    (void)user;
}

TEST(classes, an_argument_may_be_anything)
{
    char *own = unit_alloc(pool, BYTES, stream);
    char *pinned = test_host_alloc(BYTES);

    begin();
    test_call_host(stream, host_function, &audit);
    test_call_host(stream, host_function, (void *)(uintptr_t)3);
    test_call_host(stream, host_function, own);
    test_call_host(stream, host_function, pinned);
    end();
    EXPECT_CLASSES(TARN_POINTER_ARGUMENT, TARN_POINTER_ARGUMENT, TARN_POINTER_LIVE,
                   TARN_POINTER_PINNED);
    OK(tarn_free(own));
    EXPECT_CLASSES(TARN_POINTER_ARGUMENT, TARN_POINTER_ARGUMENT, TARN_POINTER_FREED,
                   TARN_POINTER_PINNED);
}

/* Both are the same to the driver. */
TEST(classes, pageable_memory_is_told_from_none_by_its_page)
{
    static char there[BYTES];
    char *linear = test_linear_alloc(BYTES);
    char *page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gone = test_linear_alloc(BYTES);

    ck_assert_ptr_ne(page, MAP_FAILED);
    page[0] = 1;
    begin();
    test_copy_down(stream, there, linear, 64);
    test_copy_down(stream, page, linear, 64);
    set(gone, 64);
    end();
    EXPECT_CLASSES(TARN_POINTER_FOREIGN, TARN_POINTER_PAGEABLE, TARN_POINTER_FOREIGN,
                   TARN_POINTER_PAGEABLE, TARN_POINTER_FOREIGN);
    ck_assert_int_eq(munmap(page, BYTES), 0);
    test_linear_free(gone);
    EXPECT_CLASSES(TARN_POINTER_FOREIGN, TARN_POINTER_PAGEABLE, TARN_POINTER_FOREIGN,
                   TARN_POINTER_UNKNOWN, TARN_POINTER_UNKNOWN);
    ck_assert_uint_eq(audit->mistake_count, 3);
}

GROUP(lists, open_device, close_device)

TEST(lists, accepted_classes_are_counted_and_are_no_mistakes)
{
    char *own = unit_alloc(pool, BYTES, stream);
    char *its = unit_alloc(other, BYTES, stream);

    begin();
    set(own, BYTES);
    set(its, BYTES);
    end();
    OK(tarn_free(own));
    OK(tarn_free(its));
    options.accepted = 1u << TARN_POINTER_FREED;
    look(TN_LIST_NONE);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_FREED], 1);
    ck_assert_uint_eq(audit->mistake_count, 1);
    ck_assert_int_eq(audit->mistakes[0].pointer_class, TARN_POINTER_FREED_EXTERNAL);
    ck_assert_ptr_null(audit->pointers);
    ck_assert_uint_eq(tn_audit_listed(audit), 0);
}

TEST(lists, what_is_not_held_is_listed_once)
{
    char *own = unit_alloc(pool, 4 * MIB, stream);
    char *its = unit_alloc(other, BYTES, stream);
    char *freed = unit_alloc(other, BYTES, stream);
    char *again = unit_alloc(other, BYTES, stream);
    char *linear = test_linear_alloc(BYTES);
    tarn_capture *capture = unit_begin(pool, stream);
    char *held = unit_alloc(pool, BYTES, stream);
    tarn_graph *graph;

    set(held, BYTES);
    set(its + 512, BYTES); /* beyond its end: a mistake, and live all the same */
    set(linear, BYTES);
    set(own + 4, 4);
    set(freed, BYTES);
    set(again, BYTES);
    set(its, BYTES);
    set(own, 4);
    graph = unit_end(capture);
    subject.graph = graph->driver_graph;
    subject.mark = tn_device_mark(device);
    OK(tarn_free(freed));
    OK(tarn_free(again));
    ck_assert_ptr_eq(unit_alloc(other, BYTES, stream), again);
    look(TN_LIST_NOT_HELD);
    ck_assert_uint_eq(tn_audit_listed(audit), 2);
    expect(0, TARN_POINTER_BEYOND, its + 512);
    expect(1, TARN_POINTER_LIVE, own + 4);
    ck_assert_uint_eq(audit->mistake_count, 3);
    options.accepted = 1u << TARN_POINTER_USED_AGAIN | 1u << TARN_POINTER_FREED_EXTERNAL;
    look(TN_LIST_NOT_HELD);
    ck_assert_uint_eq(tn_audit_listed(audit), 3);
    expect(2, TARN_POINTER_USED_AGAIN, again);
    ck_assert_uint_eq(audit->mistake_count, 1);
    OK(tarn_free(held));
    OK(tarn_graph_destroy(graph));
}

/* More references than are looked at together, and more blocks than the first table has room for. */
TEST(lists, a_graph_of_many_batches_is_one_list)
{
    enum { BLOCKS = 700, NODES = 2900 };
    static char *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(i % 2 == 0 ? pool : other, BYTES, stream);
    begin();
    for (size_t i = 0; i < NODES; i++)
        set(blocks[i % BLOCKS] + 4 * (i / BLOCKS), 4);
    end();
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[BLOCKS - 1]));
    look(TN_LIST_ALL);
    ck_assert_uint_eq(audit->node_count, NODES);
    ck_assert_uint_eq(audit->pointer_count, NODES);
    ck_assert_uint_eq(tn_audit_listed(audit), NODES);
    for (size_t i = 0; i < NODES; i++) {
        ck_assert_uint_eq(pointer_at(i)->node, i);
        ck_assert_uint_eq(pointer_at(i)->address,
                          (uint64_t)(uintptr_t)(blocks[i % BLOCKS] + 4 * (i / BLOCKS)));
    }
    ck_assert_uint_eq(audit->counts[TARN_POINTER_FREED], 5);
    ck_assert_uint_eq(audit->counts[TARN_POINTER_FREED_EXTERNAL], 4);
    for (size_t i = 0; i < 9; i++)
        ck_assert_uint_eq(audit->mistakes[i].node, (i + 1) / 2 * BLOCKS - i % 2);
    look(TN_LIST_NOT_HELD);
    ck_assert_uint_eq(tn_audit_listed(audit), BLOCKS - 2);
    for (size_t i = 0; i < BLOCKS - 2; i++)
        expect(i, i % 2 == 0 ? TARN_POINTER_EXTERNAL : TARN_POINTER_LIVE, blocks[i + 1]);
}

TEST(lists, nodes_are_counted)
{
    _Alignas(64) uint64_t map[16] = {0};
    char *own = unit_alloc(pool, BYTES, stream);
    uint64_t address = (uint64_t)(uintptr_t)own;
    void *values[] = {map, &address};
    struct test_node conditional;
    tarn_audit_body body;

    map[3] = address;
    begin();
    test_launch_kernel(stream, test_kernel(ptx, "unit_audit_map"), values, NULL);
    conditional = test_add_conditional(stream, TN_CU_GRAPH_COND_IF, 1, 1);
    set(own, 4);
    end();
    EXPECT_CLASSES(TARN_POINTER_LIVE, TARN_POINTER_LIVE, TARN_POINTER_LIVE);
    ck_assert_uint_eq(audit->node_count, 3);
    ck_assert_uint_eq(audit->kernel_count, 1);
    ck_assert_uint_eq(audit->tensor_map_count, 1);
    ck_assert_uint_eq(audit->uninspected_count, 1);
    ck_assert_uint_eq(audit->scanned_bytes, 0);
    ck_assert_str_eq(audit->nodes[0].kernel, "unit_audit_map");
    ck_assert_uint_eq(pointer_at(0)->index, 0);
    ck_assert_uint_eq(pointer_at(0)->offset, 24);
    ck_assert_int_eq(audit->nodes[1].inspection, TARN_INSPECTION_NO_BODIES);
    body = (tarn_audit_body){audit->nodes[1].handle, conditional.bodies[0]};
    options.bodies = &body;
    options.body_count = 1;
    look(TN_LIST_NONE);
    ck_assert_uint_eq(audit->uninspected_count, 0);
    body.node = audit->nodes[0].handle;
    tn_audit_drop(audit);
    audit = NULL;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_audit(device, &subject, &options, TN_LIST_NONE, &audit));
    unit_expect_sentence("body 0 names a node that is no conditional node of the graph");
    ck_assert_ptr_null(audit);
}

TEST(lists, an_empty_graph_has_nothing)
{
    subject.graph = test_graph();
    look(TN_LIST_ALL);
    ck_assert_uint_eq(audit->node_count, 0);
    ck_assert_uint_eq(audit->pointer_count, 0);
    look(TN_LIST_NOT_HELD);
    ck_assert_uint_eq(tn_audit_listed(audit), 0);
}

/* One of each kind. */
static void capture_all(void)
{
    char *own = unit_alloc(pool, BYTES, stream);
    char *its = unit_alloc(other, BYTES, stream);
    char *linear = test_linear_alloc(BYTES);

    begin();
    test_fill(stream, own, 1, 16);
    set(its + 512, 4);
    test_copy(stream, linear, own, BYTES);
    test_free_node(stream, test_allocate_node(stream, BYTES));
    end();
}

TEST(lists, without_host_memory_nothing_is_left)
{
    static const enum tn_audit_list lists[] = {TN_LIST_NONE, TN_LIST_ALL, TN_LIST_NOT_HELD};
    int64_t outstanding;

    capture_all();
    subject.is_listed = true;
    options.accepted = 1u << TARN_POINTER_UNKNOWN;
    outstanding = tn_host_outstanding();
    for (size_t i = 0; i < 3; i++) {
        tarn_status status = TARN_ERR_HOST_MEMORY;
        uint64_t failures = 0;

        while (status != TARN_OK) {
            failures += 1;
            (void)tn_host_plan_fault(failures, false);
            status = tn_audit(device, &subject, &options, lists[i], &audit);
            ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
            ck_assert_uint_eq(tn_host_plan_fault(0, false), status == TARN_OK ? 0 : 1);
            ck_assert(tn_lock_none_held());
            if (status == TARN_OK)
                tn_audit_drop(audit);
            else
                ck_assert_ptr_null(audit);
            ck_assert_int_eq(tn_host_outstanding(), outstanding);
        }
        audit = NULL;
        ck_assert_uint_gt(failures, 8);
    }
}

TEST(lists, what_the_driver_refuses_leaves_nothing)
{
    uint64_t refused = 0;
    int64_t outstanding;
    bool struck = true;

    capture_all();
    subject.is_listed = true;
    outstanding = tn_host_outstanding();
    for (uint64_t nth = 1; struck; nth++) {
        tarn_status status;

        sim.plan_fault(NULL, nth, 0, TN_CUDA_ERROR_UNKNOWN);
        status = tn_audit(device, &subject, &options, TN_LIST_ALL, &audit);
        struck = sim.clear_fault(NULL) > 0;
        ck_assert(tn_lock_none_held());
        if (status == TARN_OK) {
            tn_audit_drop(audit); /* of some calls only a name is missing */
        } else {
            ck_assert(struck);
            ck_assert_msg(status == TARN_ERR_DRIVER, "%s", tarn_status_name(status));
            ck_assert_ptr_null(audit);
            refused += 1;
        }
        audit = NULL;
        ck_assert_int_eq(tn_host_outstanding(), outstanding);
    }
    ck_assert_uint_gt(refused, 10);
}
