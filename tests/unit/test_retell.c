// SPDX-License-Identifier: Apache-2.0
/* What a device's history tells is what its pools have: whatever was done. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "heap/history.h"
#include "observe/retell.h"
#include "unit/told.h"

SUITE("what a history tells")

enum { BLOCKS = 256, HISTORY_BYTES = 16 << 20, THREADS = 4 };

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = HISTORY_BYTES;
    test_world_open_with(&options);
    ck_assert_int_eq(world.device->history.file.error, 0);
}

GROUP(opening, NULL)

/* Files of rings in the folder. */
static size_t count_files(const char *folder)
{
    DIR *files = opendir(folder);
    size_t count = 0;

    ck_assert_ptr_nonnull(files);
    for (const struct dirent *file; (file = readdir(files)) != NULL;)
        count += strstr(file->d_name, ".ring") != NULL;
    ck_assert_int_eq(closedir(files), 0);
    return count;
}

TEST(opening, a_device_that_fails_to_open_leaves_no_file)
{
    char folder[] = "/tmp/tarn-open-XXXXXX";
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = NULL;
    tarn_status status = TARN_ERR_HOST_MEMORY;
    uint64_t fault = 0;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    options.history_bytes = HISTORY_BYTES;
    options.history_stacks = TARN_HISTORY_FRAMES;
    test_start();
    while (status == TARN_ERR_HOST_MEMORY && fault < 1000) {
        fault += 1;
        (void)tn_host_plan_fault(fault, false);
        status = tarn_device_open(0, &options, &device);
        (void)tn_host_plan_fault(0, false);
        ck_assert_uint_eq(count_files(folder), status == TARN_OK);
    }
    ck_assert_int_eq(status, TARN_OK);
    ck_assert_uint_gt(fault, 5);
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 1); /* no failure has left another */
    OK(tarn_device_close(device));
    ck_assert_uint_eq(count_files(folder), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* A source beside a thread that frees a block as soon as its words are read, and uses the record
 * again. */
static struct tn_history_entry *freed_meanwhile;

static bool from_changing(void *context, size_t offset, void *bytes, size_t count)
{
    bool done = tn_ring_from_own_file(context, offset, bytes, count);

    if (freed_meanwhile != NULL && count > sizeof(uint64_t) &&
        ((const uint64_t *)bytes)[0] == atomic_load(&freed_meanwhile->number))
        atomic_store(&freed_meanwhile->number, 0);
    return done;
}

/* Of two that compare equal, either may come first. */
void __wrap_qsort(void *array, size_t count, size_t bytes,
                  int (*order)(const void *, const void *));
void __real_qsort(void *array, size_t count, size_t bytes,
                  int (*order)(const void *, const void *));
void __wrap_qsort(void *array, size_t count, size_t bytes, int (*order)(const void *, const void *))
{
    char *at = array;
    char kept[256];

    ck_assert_uint_le(bytes, sizeof kept);
    __real_qsort(array, count, bytes, order);
    for (size_t i = 0; i + 1 < count; i++, at += bytes) {
        if (order(at, at + bytes) != 0)
            continue;
        memcpy(kept, at, bytes);
        memcpy(at, at + bytes, bytes);
        memcpy(at + bytes, kept, bytes);
        i++;
        at += bytes;
    }
}

GROUP(crafted, NULL)

/* A device's history without the device: a block, and another one in its memory. */
static struct {
    struct tn_ring_file file;
    struct tn_ring ring;
    struct tn_history_tables tables;
    struct tn_block_store store;
    struct tn_history_writer writer;
    struct tn_block *blocks[3];
    bool is_reused;
} crafted;

static void craft_block(size_t i, uint64_t offset)
{
    static struct tn_segment segment = {.base = UINT64_C(1) << 40};

    crafted.blocks[i] = tn_block_take(&crafted.store);
    crafted.blocks[i]->segment = &segment;
    crafted.blocks[i]->offset = offset;
    crafted.blocks[i]->sequence = 5 + i;
    crafted.blocks[i]->requested = 1000;
    crafted.blocks[i]->units = 2;
}

/* A source: behind the first page a guest frees the block, and its memory is allocated again. */
static bool from_crafted(void *context, size_t offset, void *bytes, size_t count)
{
    if (offset >= TN_RING_PAGE_BYTES && !crafted.is_reused) {
        crafted.is_reused = true;
        tn_history_free_by_guest(&crafted.ring, crafted.blocks[1]);
        tn_history_alloc(&crafted.writer, crafted.blocks[2]);
    }
    return tn_ring_from_own_file(context, offset, bytes, count);
}

TEST(crafted, memory_is_told_once_though_it_changes_hands_meanwhile)
{
    enum { PAGES = 4 };
    static const atomic_uint_fast64_t counter;
    struct tn_told_source source = {from_crafted, &crafted.file, PAGES, 0, 1};
    struct tn_told told;

    ck_assert(tn_ring_file_make(&crafted.file, NULL, &(struct tn_ring_plan){.page_count = PAGES}));
    ck_assert(tn_ring_init(&crafted.ring, tn_ring_file_pages(&crafted.file), PAGES, &counter));
    crafted.tables.file = &crafted.file;
    ck_assert(tn_blocks_add_tables(&crafted.store, &crafted.tables));
    crafted.store.tables->pool_serial = 1;
    ck_assert(tn_blocks_reserve(&crafted.store, 3));
    for (size_t i = 0; i < 3; i++)
        craft_block(i, i == 0 ? 1 << 20 : 0);
    crafted.writer = tn_history_new_writer(&crafted.ring);
    tn_history_alloc(&crafted.writer, crafted.blocks[0]);
    tn_history_leave(&crafted.writer); /* page 0 is given back, and pages 1 to 3 are next */
    for (size_t i = 0; i < 3; i++) {
        struct tn_history_writer other = tn_history_new_writer(&crafted.ring);

        tn_ring_put(&other.log, TN_HISTORY_NUMBER, 1);
        tn_history_leave(&other);
    }
    tn_history_free_by_guest(&crafted.ring, crafted.blocks[0]); /* the guests' page is page 0 */
    tn_history_alloc(&crafted.writer, crafted.blocks[1]);
    OK(tn_retell(&source, NULL, &told));
    ck_assert(crafted.is_reused);
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].sequence, crafted.blocks[2]->sequence);
    tn_told_free(&told);
    tn_history_leave(&crafted.writer);
    tn_ring_drop(&crafted.ring);
    tn_blocks_fini(&crafted.store);
    tn_ring_file_remove(&crafted.file);
}

GROUP(recorded, open_world, .end = test_world_close, .timeout = 120)

/* All live blocks of the pools, by their numbers. */
struct listed {
    tarn_block *blocks;
    size_t count;
};

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = ((const tarn_block *)a)->sequence;
    uint64_t right = ((const tarn_block *)b)->sequence;

    return (left > right) - (left < right);
}

static void list(struct listed *all, tarn_pool *pool)
{
    tarn_block_list *of_pool;

    OK(tarn_pool_blocks(pool, &of_pool));
    if (of_pool->count > 0) {
        all->blocks = realloc(all->blocks, (all->count + of_pool->count) * sizeof *all->blocks);
        ck_assert_ptr_nonnull(all->blocks);
        memcpy(all->blocks + all->count, of_pool->blocks, of_pool->count * sizeof *all->blocks);
        all->count += of_pool->count;
    }
    tarn_block_list_destroy(of_pool);
}

static struct listed list_all(tarn_pool *third)
{
    struct listed all = {NULL, 0};

    list(&all, world.default_pool);
    list(&all, world.pool);
    if (third != NULL)
        list(&all, third);
    if (all.count > 0)
        qsort(all.blocks, all.count, sizeof *all.blocks, compare_numbers);
    return all;
}

/* That the blocks are told, and no other. */
static void check_same(const struct tn_told *told, const struct listed *all)
{
    bool right = true;

    ck_assert_uint_eq(
        told->lost_blocks + told->lost_events + told->broken_pages + told->unread_parts, 0);
    ck_assert_uint_eq(told->count, all->count);
    for (size_t i = 0; i < all->count; i++)
        right = right && told->blocks[i].sequence == all->blocks[i].sequence &&
                told->blocks[i].address == (uint64_t)(uintptr_t)all->blocks[i].address &&
                told->blocks[i].bytes == all->blocks[i].block_bytes &&
                told->blocks[i].requested == all->blocks[i].bytes;
    ck_assert(right);
}

/* That each block of the pool is told as the pool's, and no other. */
static void check_pool(const struct tn_told *told, tarn_pool *pool)
{
    tarn_block_list *of_pool;
    size_t count = 0;

    OK(tarn_pool_blocks(pool, &of_pool));
    for (size_t i = 0; i < told->count; i++)
        count += told->blocks[i].pool == pool->holds.pool_serial;
    ck_assert_uint_eq(count, of_pool->count);
    tarn_block_list_destroy(of_pool);
}

/* A visit: counts down. */
static bool count_down(void *context, const struct tn_told_event *event)
{
    ck_assert_uint_ne(event->kind, 0);
    *(size_t *)context -= 1;
    return true;
}

/* That the blocks are the same without their events, which a walk shows one by one. */
static void check_apart(const struct tn_told *told)
{
    static unsigned calls;
    struct tn_told_source source = unit_told_source();
    size_t left = told->event_count;
    struct tn_told alone;
    uint64_t broken;

    if (calls++ % 8 != 0) /* it takes as long as all else */
        return;
    OK(tn_retell_blocks(&source, &alone));
    ck_assert_uint_eq(alone.event_count, 0);
    ck_assert_uint_eq(alone.count, told->count);
    if (told->count > 0)
        ck_assert_mem_eq(alone.blocks, told->blocks, told->count * sizeof *told->blocks);
    tn_told_free(&alone);
    ck_assert(tn_told_walk(&source, count_down, &left, &broken));
    ck_assert_uint_eq(left + broken, 0);
}

/* That the history tells of the blocks that the pools have, and of no other; nothing is lost. */
static void check_told(tarn_pool *third)
{
    struct listed all = list_all(third);
    struct tn_told told = unit_retell(NULL);

    check_same(&told, &all);
    check_apart(&told);
    check_pool(&told, world.pool);
    free(all.blocks);
    tn_told_free(&told);
}

/* Events of blocks: all that are no notes. */
static size_t count_events(const struct tn_told *told)
{
    size_t count = 0;

    for (size_t i = 0; i < told->event_count; i++)
        count += told->events[i].kind != TN_HISTORY_NOTE;
    return count;
}

TEST(recorded, a_device_without_blocks_has_no_events_of_blocks)
{
    struct tn_told told = unit_retell(NULL);

    ck_assert_uint_eq(told.count + count_events(&told), 0);
    ck_assert_uint_gt(told.event_count, 0);
    tn_told_free(&told);
}

TEST(recorded, an_event_takes_16_bytes_at_most)
{
    enum { PAIRS = 100000 };
    struct tn_ring *ring = &world.device->history.ring;
    uint64_t taken = ring->taken;
    struct tn_told told;

    for (int i = 0; i < PAIRS; i++)
        OK(tarn_free(test_malloc((size_t)(i % 7 + 1) * 1000)));
    taken = ring->taken - taken;
    check_told(NULL); /* and so the last free is in the log */
    ck_assert_uint_le(taken * TN_RING_PAGE_BYTES, UINT64_C(16) * 2 * PAIRS);
    told = unit_retell(NULL);
    ck_assert_uint_eq(count_events(&told), 2 * PAIRS);
    ck_assert_uint_eq(told.lost_pages, 0);
    tn_told_free(&told);
    check_told(NULL);
}

TEST(recorded, an_entry_that_changes_meanwhile_is_not_believed)
{
    struct tn_told_source source = unit_told_source();
    void *kept = test_malloc(1000);
    void *freed = test_malloc(2000);
    uint64_t number;
    struct tn_told told;

    source.read = from_changing;
    source.part_count = world.device->history.file.part_count;
    freed_meanwhile = tn_history_entry(unit_block(freed));
    number = atomic_load(&freed_meanwhile->number);
    OK(tn_retell(&source, NULL, &told));
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].address, (uint64_t)(uintptr_t)kept);
    tn_told_free(&told);
    atomic_store(&freed_meanwhile->number, number);
    OK(tarn_free(kept));
    OK(tarn_free(freed));
}

TEST(recorded, a_free_comes_before_the_next_allocation_of_the_same_block)
{
    enum { PAIRS = 100 };
    struct tn_told told;

    for (int i = 0; i < PAIRS; i++)
        OK(tarn_free(test_malloc(1000)));
    check_told(NULL);
    told = unit_retell(NULL);
    ck_assert_uint_eq(count_events(&told), 2 * PAIRS);
    for (size_t i = 0, seen = 0; i < told.event_count; i++) {
        const struct tn_told_event *event = &told.events[i];

        if (event->kind == TN_HISTORY_NOTE)
            continue;
        ck_assert_uint_eq(event->kind, seen % 2 == 0 ? TN_HISTORY_ALLOC : TN_HISTORY_FREE);
        ck_assert_uint_eq(event->block.sequence, event[seen % 2 == 0 ? 0 : -1].block.sequence);
        seen += 1;
    }
    tn_told_free(&told);
}

/* Threads on the world's stream and on its side: they free what others have allocated. */
static _Atomic(void *) exchanged[BLOCKS];

static void *exchange(void *context)
{
    const size_t own = *(const size_t *)context;

    for (size_t i = 0; i < 20 * (size_t)BLOCKS; i++) {
        void *address = NULL;

        OK(tarn_malloc(world.device, 512 * (1 + (i + own) % 50),
                       (i / BLOCKS) % 2 == 0 ? world.stream : world.side, &address));
        address = atomic_exchange(&exchanged[(i * 7 + own) % BLOCKS], address);
        if (address != NULL)
            OK(tarn_free(address));
    }
    return NULL;
}

TEST(recorded, what_threads_do_with_each_others_blocks_is_told)
{
    static const size_t numbers[THREADS] = {0, 1, 2, 3};
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, exchange, (void *)&numbers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    check_told(NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        OK(tarn_free(atomic_load(&exchanged[i])));
    check_told(NULL);
}

static void use_elsewhere(void *pool)
{
    for (int i = 0; i < 100; i++)
        OK(tarn_free(test_alloc(pool, 1000, world.stream)));
}

TEST(recorded, a_magazine_gives_its_page_back_with_its_arena)
{
    tarn_pool *pool = test_pool("divided");
    void *address = test_alloc(pool, 1000, world.stream);
    struct tn_arena *arena = unit_block(address)->heap->arena;
    const struct tn_magazine *magazine;

    ck_assert(tn_steady_divide(arena));
    test_elsewhere(use_elsewhere, pool);
    magazine = tn_magazine_any(tn_arena_magazines(arena));
    ck_assert_ptr_nonnull(magazine);
    ck_assert_ptr_nonnull(magazine->history.log.page);
    check_told(pool);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(pool));
    ck_assert_ptr_null(magazine->history.log.page); /* its record stays */
}

/* A visit: ends the walk at the second event. */
static bool see_two(void *context, const struct tn_told_event *event)
{
    (void)event;
    *(size_t *)context += 1;
    return *(size_t *)context < 2;
}

TEST(recorded, a_visit_ends_the_walk)
{
    struct tn_told_source source = unit_told_source();
    size_t seen = 0;
    uint64_t broken;

    OK(tarn_free(test_malloc(1000)));
    ck_assert(!tn_told_walk(&source, see_two, &seen, &broken));
    ck_assert_uint_eq(seen, 2);
}

static uint64_t state;

/* xorshift64*, S. Vigna, An experimental exploration of Marsaglia's xorshift generators (2016) */
static uint32_t chance(uint32_t below)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * 0x2545f4914f6cdd1d) >> 33) % below;
}

static tarn_pool *other;

static size_t random_bytes(void)
{
    unsigned shift = chance(23);

    return ((size_t)1 << shift) + chance((uint32_t)1 << shift);
}

/* A block of one of the pools, on one of the streams. */
static void *random_block(bool captured)
{
    tn_cu_stream stream = captured || chance(2) == 0 ? world.stream : world.side;
    void *address = NULL;

    if (captured || chance(3) > 0)
        OK(tarn_pool_malloc(captured || chance(2) == 0 ? world.pool : other, random_bytes(),
                            chance(4) == 0 ? 4096 : 0, stream, &address));
    else
        OK(tarn_malloc(world.device, random_bytes(), stream, &address));
    return address;
}

static void random_free(void *address)
{
    switch (chance(6)) {
    case 0:
        OK(tarn_free_on(address, world.side));
        break;
    case 1:
        OK(tarn_record_stream(address, world.side));
        OK(tarn_free(address));
        break;
    default:
        OK(tarn_free(address));
    }
}

/* A section of the world's pool, whose blocks are freed in it but for one. */
static tarn_graph *random_graph(void **kept)
{
    tarn_capture *capture = test_capture_on(world.pool, world.stream, TARN_CAPTURE_THREAD_LOCAL);

    *kept = random_block(true);
    for (uint32_t i = chance(20); i > 0; i--)
        OK(tarn_free(random_block(true)));
    return test_capture_end(capture);
}

/* Restores the pool, forgets the blocks that are live no more, and frees those that are again. */
static void restore(tarn_checkpoint *checkpoint, void **blocks)
{
    tarn_delta *delta = NULL;

    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    for (size_t i = 0; i < delta->freed_count; i++) {
        for (size_t j = 0; j < BLOCKS; j++) {
            if (blocks[j] == delta->freed[i].address)
                blocks[j] = NULL;
        }
    }
    check_told(other);
    for (size_t i = 0; i < delta->revived_count; i++)
        OK(tarn_free(delta->revived[i].block.address));
    tarn_delta_destroy(delta);
}

/* What was live at some moment of a program. */
struct moment {
    struct tn_told_cuts cut;
    struct listed all;
};

static struct moment remember(void)
{
    struct listed all = list_all(other); /* before: the pools' locks bring all frees into the log */
    struct tn_told told = unit_retell(NULL);
    struct moment moment = {told.cut, all};

    told.cut = (struct tn_told_cuts){.cuts = NULL};
    tn_told_free(&told);
    return moment;
}

/* The moment is told as it was, though the program has gone on. */
static void check_moment(struct moment *moment)
{
    struct listed now = list_all(other); /* and so all frees are in the log */
    struct tn_told told = unit_retell(&moment->cut);

    free(now.blocks);
    check_same(&told, &moment->all);
    tn_told_free(&told);
    free(moment->all.blocks);
    tn_host_free(moment->cut.cuts);
    *moment = (struct moment){.cut = {NULL, 0}};
}

enum { MOMENTS = 8 };

/* checked: how many steps of the program have a moment that is told later. */
static void run_randomly(int steps, int checked)
{
    struct moment moments[MOMENTS] = {{.cut = {NULL, 0}}};
    tarn_checkpoint *checkpoint = NULL;
    tarn_graph *graph = NULL;
    void *blocks[BLOCKS] = {NULL};

    other = test_pool("other");
    for (int step = 0; step < steps; step++) {
        void **block = &blocks[chance(BLOCKS)];

        if (*block == NULL) {
            *block = random_block(false);
        } else {
            random_free(*block);
            *block = NULL;
        }
        if (chance(200) == 0 && graph == NULL && *block == NULL) {
            graph = random_graph(block);
        } else if (chance(200) == 0 && graph != NULL) {
            OK(tarn_graph_replay(graph, world.stream));
            OK(tarn_graph_destroy(graph));
            graph = NULL;
        }
        if (chance(200) == 0 && checkpoint == NULL) {
            OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
        } else if (chance(200) == 0 && checkpoint != NULL) {
            restore(checkpoint, blocks);
            OK(tarn_checkpoint_destroy(checkpoint));
            checkpoint = NULL;
        }
        if (chance(300) == 0)
            OK(tarn_device_trim(world.device, 0, NULL));
        if (step % (steps / checked) == 0) {
            struct moment *moment = &moments[chance(MOMENTS)];

            check_told(other);
            if (moment->cut.cuts != NULL)
                check_moment(moment);
            else
                *moment = remember();
        }
    }
    for (size_t i = 0; i < MOMENTS; i++) {
        if (moments[i].cut.cuts != NULL)
            check_moment(&moments[i]);
    }
    if (graph != NULL)
        OK(tarn_graph_destroy(graph));
    if (checkpoint != NULL)
        OK(tarn_checkpoint_destroy(checkpoint));
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            OK(tarn_free(blocks[i]));
    }
    check_told(other);
    OK(tarn_pool_destroy(other));
    other = NULL;
}

TEST_LOOP(recorded, a_random_program_is_told_as_it_was, 0, 6)
{
    state = (uint64_t)_i + 1;
    run_randomly(4000, 50);
}

static void open_small_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 256 << 10;
    test_world_open_with(&options);
}

GROUP(forgetful, open_small_world, .end = test_world_close, .timeout = 120)

/* The log is overwritten. */
TEST_LOOP(forgetful, blocks_that_are_older_than_the_log_are_told, 0, 2)
{
    void *old[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++)
        old[i] = test_malloc((i + 1) * 777);
    state = (uint64_t)_i + 100;
    run_randomly(18000, 150);
    ck_assert_uint_gt(4 * world.device->history.ring.taken,
                      5 * world.device->history.ring.page_count);
    for (size_t i = 0; i < BLOCKS; i++) {
        struct moment moment;

        if (i % 16 != 0) {
            OK(tarn_free(old[i]));
            continue;
        }
        moment = remember();
        OK(tarn_free(old[i]));
        check_moment(&moment); /* known by its free, though its allocation is lost */
    }
}
