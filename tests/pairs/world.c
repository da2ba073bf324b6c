// SPDX-License-Identifier: Apache-2.0
/* The world that two modules share, its books of blocks, and what is judged by them.
 *
 * A block's first words, and its last ones where it is large, have a pattern. They are read when the event behind
 * the work that wrote them has passed, on a stream that does nothing else. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pairs/pairs.h"
#include "support/pattern.h"

enum { WHOLE_WORDS = 1 << 16, HEAD_WORDS = 2048, TAIL_WORDS = 64, OTHER_HOME = 1, FIRST_HOME = 10, HOMES = 16 };

struct pairs_world pw;

static tarn_pool *homes[HOMES]; /* by serial; NULL: released */
static _Atomic int captures[HOMES];
static _Thread_local uint64_t random_state;
static _Atomic uint32_t last_pattern = 1;

void pairs_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    _exit(1);
}

/* Check's own assertions, which the support has: the linker puts these in their place. */
void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...)
{
    char text[512] = "";
    va_list arguments;

    if (message != NULL) {
        va_start(arguments, message);
        (void)vsnprintf(text, sizeof text, message, arguments);
        va_end(arguments);
    }
    pairs_fail("%s:%d: %s %s", file, line, expression, text);
}

/* Statuses ------------------------------------------------------------------------------------- */

bool pairs_is_well(void)
{
    return pw.health == PAIRS_WELL;
}

bool pairs_is_concurrent(void)
{
    return pw.order == PAIRS_AMID || pw.order == PAIRS_BESIDE;
}

bool pairs_need(tarn_status status, const char *call)
{
    if (status == TARN_OK)
        return true;
    if (status == TARN_ERR_DEVICE_LOST && !pairs_is_well()) {
        pw.health = PAIRS_LOST;
        return false;
    }
    pairs_fail("%s: %s; %s", call, tarn_status_name(status), tarn_last_error());
}

void pairs_give(tarn_status status, const char *call)
{
    EXPECT(status == TARN_OK, "%s: %s; %s", call, tarn_status_name(status), tarn_last_error());
}

bool pairs_drive(tn_cu_result result, const char *call)
{
    if (result == TN_CUDA_SUCCESS)
        return true;
    EXPECT(!pairs_is_well(), "%s: the driver answers %d", call, (int)result);
    pw.health = PAIRS_LOST;
    return false;
}

void pairs_relax(bool relaxed)
{
    static _Thread_local tn_cu_capture_mode before;
    tn_cu_capture_mode mode = relaxed ? TN_CU_CAPTURE_MODE_RELAXED : before;

    if (DRIVE(cu.cuThreadExchangeStreamCaptureMode(&mode)) && relaxed)
        before = mode;
}

uint64_t pairs_random(uint64_t below)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15U; /* SplitMix64, by S. Vigna */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return (z ^ z >> 31) % below;
}

uint32_t pairs_pattern(void)
{
    return atomic_fetch_add(&last_pattern, 1) * 7919;
}

/* The world ------------------------------------------------------------------------------------ */

static tarn_pool *make_pool(const char *name)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;

    options.name = name;
    return NEED(tarn_pool_create(pw.device, &options, &pool)) ? pool : NULL;
}

void pairs_world_open(enum pairs_order order, uint64_t seed)
{
    test_start();
    pattern_start();
    pw.order = order;
    pw.seed = seed;
    random_state = seed;
    (void)pthread_mutex_init(&pw.lock, NULL);
    pw.context = test_context();
    for (size_t i = 0; i < sizeof pw.streams / sizeof pw.streams[0]; i++)
        pw.streams[i] = test_stream();
    pw.look = test_stream();
    pw.ledger = test_ledger();
    OK(tarn_device_open(0, NULL, &pw.device));
    OK(tarn_device_default_pool(pw.device, &pw.default_pool));
    pw.home = FIRST_HOME;
    pw.pool = make_pool("shared");
    pw.other = make_pool("other");
    homes[FIRST_HOME] = pw.pool;
    homes[OTHER_HOME] = pw.other;
    homes[0] = pw.default_pool;
}

void pairs_enter_thread(void)
{
    random_state = pw.seed * 31 + 7;
    test_set_context(pw.context);
}

void pairs_member_init(struct pairs_member *m, const struct pairs_module *module, int index)
{
    int first = pairs_is_concurrent() ? 2 * index : 0;

    memset(m, 0, sizeof *m);
    m->module = module;
    m->index = index;
    m->stream = pw.streams[first];
    m->side = pw.streams[first + 1];
    for (int i = 0; i < PAIRS_OWN; i++)
        m->blocks[i] = PAIRS_NONE;
    m->snapshot = calloc(1, sizeof *m->snapshot);
    EXPECT(m->snapshot != NULL, "no memory");
}

/* All is given back, and the driver's ledger is as it was. */
void pairs_world_close(void)
{
    for (int i = 0; i < pw.block_count; i++) {
        struct pairs_block *block = &pw.blocks[i];

        EXPECT(!block->is_live, "block %d at %p is left", i, (void *)block->address);
        if (block->mark != NULL)
            (void)cu.cuEventDestroy(block->mark);
    }
    if (pairs_is_well()) {
        test_wait_for_all();
        test_await_destructors(pw.ledger.user_objects);
    }
    GIVE(tarn_pool_destroy(pw.pool));
    GIVE(tarn_pool_destroy(pw.other));
    GIVE(tarn_device_close(pw.device));
    if (pairs_is_well())
        test_same_ledger(&pw.ledger);
}

/* Pools ---------------------------------------------------------------------------------------- */

/* Where one member is to have the pool to itself, the other one goes elsewhere. */
tarn_pool *pairs_pool(struct pairs_member *m)
{
    bool needs = m->module->needs_quiet;
    bool other_needs = m->other->module->needs_quiet;

    if (pairs_is_concurrent() && other_needs && (!needs || m->index == 1))
        return pw.other;
    return pw.pool;
}

int pairs_home_of(tarn_pool *pool)
{
    if (pool == pw.pool)
        return pw.home;
    for (int i = 0; i < HOMES; i++) {
        if (pool != NULL && homes[i] == pool)
            return i;
    }
    return -1;
}

void pairs_release_pool(void)
{
    tarn_pool *next = make_pool("next");
    tarn_pool *released;

    if (next == NULL)
        return;
    (void)pthread_mutex_lock(&pw.lock);
    released = pw.pool;
    homes[pw.home] = NULL;
    pw.home += 1;
    EXPECT(pw.home < HOMES, "too many pools");
    homes[pw.home] = next;
    pw.pool = next;
    (void)pthread_mutex_unlock(&pw.lock);
    GIVE(tarn_pool_release(released));
}

/* Whether the call was refused because the other member has released the pool just then. */
bool pairs_is_stale(struct pairs_member *m, tarn_pool *pool, tarn_status status)
{
    return status == TARN_ERR_INVALID_HANDLE && pairs_is_concurrent() && pool != pairs_pool(m);
}

void pairs_count_capture(int home, int change)
{
    if (home >= 0)
        captures[home] += change;
}

bool pairs_is_captured(int home)
{
    return home >= 0 && captures[home] > 0;
}

/* A capture of the program's own is in each pool that something was allocated from on its stream. */
bool pairs_may_be_captured(int home)
{
    return pairs_is_captured(home) || pw.loose > 0;
}

/* Blocks --------------------------------------------------------------------------------------- */

static int enter(const struct pairs_block *made)
{
    int place;

    (void)pthread_mutex_lock(&pw.lock);
    for (int i = 0; i < pw.block_count; i++) {
        const struct pairs_block *block = &pw.blocks[i];

        EXPECT(!block->is_live || block->address + block->block_bytes <= made->address ||
                   made->address + made->block_bytes <= block->address,
               "block %p of %zu bytes overlaps block %d at %p of %zu", (void *)made->address,
               made->block_bytes, i, (void *)block->address, block->block_bytes);
    }
    EXPECT(pw.block_count < PAIRS_BLOCKS, "too many blocks");
    place = pw.block_count++;
    pw.blocks[place] = *made;
    (void)pthread_mutex_unlock(&pw.lock);
    return place;
}

static int note_block(void *address, size_t bytes, int home)
{
    struct pairs_block made = {.address = address, .bytes = bytes, .home = home, .is_live = true};
    tarn_block block;

    GIVE(tarn_block_at(address, &block));
    EXPECT(block.address == address && block.bytes == bytes, "block %p is described as %p, %zu",
           address, block.address, block.bytes);
    made.block_bytes = block.block_bytes;
    made.sequence = block.sequence;
    if (home < 0)
        made.home = pairs_home_of(block.pool);
    return enter(&made);
}

int pairs_alloc(struct pairs_member *m, size_t bytes, tn_cu_stream stream)
{
    void *address = NULL;
    tarn_status status;
    tarn_pool *pool;
    int home;

    do {
        (void)pthread_mutex_lock(&pw.lock);
        pool = pairs_pool(m);
        home = pairs_home_of(pool);
        (void)pthread_mutex_unlock(&pw.lock);
        if (pool == NULL)
            return PAIRS_NONE;
        status = tarn_alloc(pool, bytes, 0, stream, &address);
    } while (pairs_is_stale(m, pool, status));
    if (!pairs_need(status, "tarn_alloc(shared pool)"))
        return PAIRS_NONE;
    return note_block(address, bytes, home);
}

int pairs_alloc_default(size_t bytes, tn_cu_stream stream)
{
    void *address = NULL;

    return NEED(tarn_alloc(pw.default_pool, bytes, 0, stream, &address))
               ? note_block(address, bytes, 0)
               : PAIRS_NONE;
}

int pairs_malloc(size_t bytes, tn_cu_stream stream)
{
    void *address = NULL;

    return NEED(tarn_malloc(pw.device, bytes, stream, &address)) ? note_block(address, bytes, -1)
                                                                : PAIRS_NONE;
}

bool pairs_is_there(int block)
{
    return block != PAIRS_NONE && pw.blocks[block].is_live;
}

void pairs_discard(int block)
{
    if (pairs_is_there(block))
        pw.blocks[block].is_discarded = true;
}

char *pairs_address(int block)
{
    return pw.blocks[block].address;
}

static size_t head_words(const struct pairs_block *block)
{
    size_t words = block->bytes / 4;

    return words < HEAD_WORDS ? words : HEAD_WORDS;
}

/* Index of the first of the last words; 0: the block is too small to have such. */
static size_t tail_of(const struct pairs_block *block)
{
    size_t words = block->bytes / 4;

    return words >= HEAD_WORDS + TAIL_WORDS ? words - TAIL_WORDS : 0;
}

/* All of it, or of a large one the beginning and the end. */
tn_cu_result pairs_write(tn_cu_stream stream, void *address, size_t bytes, uint32_t pattern)
{
    size_t words = bytes / 4;
    size_t tail = words - TAIL_WORDS;
    tn_cu_result result;

    if (words <= WHOLE_WORDS)
        return pattern_fill(stream, address, pattern, words);
    result = pattern_fill(stream, address, pattern, HEAD_WORDS);
    return result != TN_CUDA_SUCCESS
               ? result
               : pattern_fill(stream, (char *)address + tail * 4, pattern + (uint32_t)tail,
                              TAIL_WORDS);
}

/* Work of the stream that is there has written the block, or, in a capture, will write it some time. */
void pairs_written(int place, uint32_t pattern, tn_cu_stream stream)
{
    struct pairs_block *block;

    if (!pairs_is_there(place))
        return;
    block = &pw.blocks[place];
    block->is_known = !pairs_is_capturing(stream) && pw.health != PAIRS_LOST;
    block->pattern = pattern;
    if (!block->is_known)
        return;
    if (block->mark == NULL)
        block->is_known = DRIVE(cu.cuEventCreate(&block->mark, TN_CU_EVENT_DISABLE_TIMING));
    block->is_known = block->is_known && DRIVE(cu.cuEventRecord(block->mark, stream));
}

/* Behind what wrote the block last. What is captured is not, as the captured work of others is not. */
static void come_after(tn_cu_stream stream, const struct pairs_block *block)
{
    if (block->mark != NULL && !pairs_is_capturing(stream))
        (void)DRIVE(cu.cuStreamWaitEvent(stream, block->mark, 0));
}

void pairs_fill(int place, tn_cu_stream stream)
{
    uint32_t pattern = pairs_pattern();
    struct pairs_block *block;

    if (!pairs_is_there(place))
        return;
    block = &pw.blocks[place];
    come_after(stream, block);
    if (DRIVE(pairs_write(stream, block->address, block->bytes, pattern)))
        pairs_written(place, pattern, stream);
}

void pairs_copy(int to, int from, tn_cu_stream stream)
{
    struct pairs_block *block;
    const struct pairs_block *source;

    if (!pairs_is_there(to) || !pairs_is_there(from))
        return;
    block = &pw.blocks[to];
    source = &pw.blocks[from];
    EXPECT(block->bytes == source->bytes, "blocks of other sizes");
    (void)DRIVE(cu.cuMemcpyAsync((tn_cu_deviceptr)(uintptr_t)block->address,
                                 (tn_cu_deviceptr)(uintptr_t)source->address, block->bytes,
                                 stream));
}

static void leave(int place)
{
    (void)pthread_mutex_lock(&pw.lock);
    pw.blocks[place].is_live = false;
    (void)pthread_mutex_unlock(&pw.lock);
}

void pairs_free(int *place)
{
    if (pairs_is_there(*place)) {
        leave(*place);
        GIVE(tarn_free(pairs_address(*place)));
    }
    *place = PAIRS_NONE;
}

void pairs_free_on(int *place, tn_cu_stream stream)
{
    if (pairs_is_there(*place)) {
        int block = *place;
        tarn_status status;

        leave(block);
        status = tarn_free_on(pairs_address(block), stream);
        if (!pairs_need(status, "tarn_free_on"))
            GIVE(tarn_free(pairs_address(block)));
    }
    *place = PAIRS_NONE;
}

void pairs_forget(int *place)
{
    if (pairs_is_there(*place))
        leave(*place);
    *place = PAIRS_NONE;
}

static void compare(int place, const uint32_t *words, size_t count, uint32_t first)
{
    const struct pairs_block *block = &pw.blocks[place];

    for (uint32_t i = 0; i < count; i++)
        EXPECT(words[i] == pattern_word(block->pattern, first + i),
               "word %u of block %d at %p (%zu bytes of pool %d) is %#x, expected %#x of pattern %u",
               first + i, place, (void *)block->address, block->bytes, block->home, words[i],
               pattern_word(block->pattern, first + i), block->pattern);
}

void pairs_look_at(int place)
{
    static _Thread_local uint32_t words[HEAD_WORDS + TAIL_WORDS];
    const struct pairs_block *block;
    size_t tail;
    bool is_read;

    if (!pairs_is_there(place) || !pw.blocks[place].is_known || pw.health == PAIRS_LOST)
        return;
    block = &pw.blocks[place];
    tail = tail_of(block);
    pairs_relax(true);
    is_read = DRIVE(cu.cuEventSynchronize(block->mark)) &&
              DRIVE(cu.cuMemcpyDtoHAsync(words, (tn_cu_deviceptr)(uintptr_t)block->address,
                                         head_words(block) * 4, pw.look)) &&
              (tail == 0 ||
               DRIVE(cu.cuMemcpyDtoHAsync(words + HEAD_WORDS,
                                          (tn_cu_deviceptr)(uintptr_t)(block->address + tail * 4),
                                          TAIL_WORDS * sizeof words[0], pw.look))) &&
              DRIVE(cu.cuStreamSynchronize(pw.look));
    pairs_relax(false);
    if (!is_read)
        return;
    compare(place, words, head_words(block), 0);
    if (tail != 0)
        compare(place, words + HEAD_WORDS, TAIL_WORDS, (uint32_t)tail);
}

void pairs_look(void)
{
    for (int i = 0; i < pw.block_count; i++)
        pairs_look_at(i);
}

/* Streams -------------------------------------------------------------------------------------- */

bool pairs_is_capturing(tn_cu_stream stream)
{
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;

    return DRIVE(cu.cuStreamIsCapturing(stream, &status)) &&
           status != TN_CU_CAPTURE_STATUS_NONE;
}

tn_cu_stream pairs_free_stream(struct pairs_member *m)
{
    if (!pairs_is_capturing(m->stream))
        return m->stream;
    return !pairs_is_capturing(m->side) ? m->side : pw.streams[4 + m->index];
}

/* Checkpoints ---------------------------------------------------------------------------------- */

void pairs_snapshot(struct pairs_snapshot *snapshot, int home, bool has_contents)
{
    snapshot->home = home;
    snapshot->has_contents = has_contents;
    snapshot->count = 0;
    for (int i = 0; i < pw.block_count; i++) {
        if (!pw.blocks[i].is_live || pw.blocks[i].home != home)
            continue;
        snapshot->blocks[snapshot->count] = i;
        snapshot->then[snapshot->count] = pw.blocks[i];
        snapshot->count += 1;
    }
}

static bool has_sequence(const tarn_block *blocks, size_t count, uint64_t sequence)
{
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].sequence == sequence)
            return true;
    }
    return false;
}

static bool is_in(const struct pairs_snapshot *snapshot, int block)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->blocks[i] == block)
            return true;
    }
    return false;
}

/* Where others use the pool meanwhile, it is not this one that is restored. */
void pairs_restored(const struct pairs_snapshot *snapshot, const tarn_delta *delta,
                    tn_cu_stream stream)
{
    size_t freed = 0;
    size_t revived = 0;

    for (int i = 0; i < pw.block_count; i++) {
        struct pairs_block *block = &pw.blocks[i];

        if (!block->is_live || block->home != snapshot->home || is_in(snapshot, i))
            continue;
        EXPECT(has_sequence(delta->freed, delta->freed_count, block->sequence),
               "block %d was allocated behind the checkpoint, and the restore says nothing", i);
        block->is_live = false;
        freed += 1;
    }
    for (size_t i = 0; i < snapshot->count; i++) {
        struct pairs_block *block = &pw.blocks[snapshot->blocks[i]];
        const struct pairs_block *then = &snapshot->then[i];

        revived += !block->is_live;
        if (!block->is_live)
            block->is_known = false;
        block->is_live = true;
        if (snapshot->has_contents && then->is_known)
            pairs_written(snapshot->blocks[i], then->pattern, stream);
        else if (snapshot->has_contents)
            block->is_known = false;
    }
    EXPECT(freed == delta->freed_count && revived == delta->revived_count,
           "the restore says that it freed %zu and revived %zu blocks, not %zu and %zu",
           delta->freed_count, delta->revived_count, freed, revived);
}

/* Waits for all work on blocks. */
void pairs_settle(void)
{
    pairs_relax(true);
    for (int i = 0; i < pw.block_count; i++) {
        if (pw.blocks[i].mark != NULL)
            (void)DRIVE(cu.cuEventSynchronize(pw.blocks[i].mark));
    }
    pairs_relax(false);
}

/* Judging -------------------------------------------------------------------------------------- */

void pairs_validate(void)
{
    tarn_pool *pool = pw.pool;

    if (pool != NULL) {
        tarn_status status = tarn_pool_validate(pool);

        if (status != TARN_ERR_INVALID_HANDLE || !pairs_is_concurrent())
            pairs_give(status, "tarn_pool_validate(shared pool)");
    }
    GIVE(tarn_pool_validate(pw.other));
    GIVE(tarn_pool_validate(pw.default_pool));
}

struct sums {
    uint64_t count;
    uint64_t bytes;
    uint64_t block_bytes;
};

static struct sums sums_of(int home)
{
    struct sums sums = {0};

    for (int i = 0; i < pw.block_count; i++) {
        const struct pairs_block *block = &pw.blocks[i];

        if (!block->is_live || block->is_discarded || (home >= 0 && block->home != home))
            continue;
        sums.count += 1;
        sums.bytes += block->bytes;
        sums.block_bytes += block->block_bytes;
    }
    return sums;
}

static void judge_pool(tarn_pool *pool, int home)
{
    tarn_pool_stats stats = {.size = sizeof stats};
    tarn_memory_stats memory = {.size = sizeof memory};
    struct sums sums = sums_of(home);

    GIVE(tarn_pool_get_stats(pool, &stats));
    GIVE(tarn_pool_get_memory_stats(pool, &memory));
    EXPECT(stats.live_count == sums.count && stats.live_bytes == sums.block_bytes &&
               stats.requested_bytes == sums.bytes,
           "pool %d has %llu live blocks of %llu bytes, %llu requested; expected %llu, %llu, %llu",
           home, (unsigned long long)stats.live_count, (unsigned long long)stats.live_bytes,
           (unsigned long long)stats.requested_bytes, (unsigned long long)sums.count,
           (unsigned long long)sums.block_bytes, (unsigned long long)sums.bytes);
    EXPECT(memory.live_blocks.all.current == stats.live_count &&
               memory.live_blocks.all.allocated - memory.live_blocks.all.freed == stats.live_count,
           "pool %d counts %llu live blocks, %llu allocated less %llu freed", home,
           (unsigned long long)memory.live_blocks.all.current,
           (unsigned long long)memory.live_blocks.all.allocated,
           (unsigned long long)memory.live_blocks.all.freed);
    EXPECT(memory.active_bytes.all.current == memory.live_bytes.all.current +
                                                  memory.pending_bytes.all.current +
                                                  memory.discarded_bytes.all.current,
           "pool %d has active bytes that are neither live, pending nor discarded", home);
    EXPECT(memory.mapped_bytes.all.current >= memory.active_bytes.all.current &&
               memory.chunks.all.current == stats.chunk_count,
           "pool %d has fewer bytes mapped than active", home);
}

void pairs_step(void)
{
    tarn_device_stats stats = {.size = sizeof stats};
    tarn_memory_stats memory = {.size = sizeof memory};
    struct sums all = sums_of(-1);
    struct sums ordinary = sums_of(0);
    tarn_sim_ledger ledger;

    pairs_validate();
    if (pw.pool != NULL)
        judge_pool(pw.pool, pw.home);
    judge_pool(pw.other, OTHER_HOME);
    GIVE(tarn_device_get_memory_stats(pw.device, &memory));
    GIVE(tarn_device_get_stats(pw.device, &stats));
    EXPECT(stats.live_bytes == all.block_bytes + memory.contents_bytes,
           "the device has %llu bytes live; expected %llu, and %llu of contents",
           (unsigned long long)stats.live_bytes, (unsigned long long)all.block_bytes,
           (unsigned long long)memory.contents_bytes);
    EXPECT(test_stats(pw.default_pool).live_bytes == ordinary.block_bytes + memory.contents_bytes,
           "the default pool has %llu bytes live; expected %llu, and %llu of contents",
           (unsigned long long)test_stats(pw.default_pool).live_bytes,
           (unsigned long long)ordinary.block_bytes, (unsigned long long)memory.contents_bytes);
    EXPECT(memory.live_bytes.all.current == stats.live_bytes, "two sums of live bytes");
    ledger = test_ledger();
    EXPECT(ledger.handle_bytes == stats.mapped_bytes + stats.cached_bytes,
           "the driver has given %llu bytes; %llu are mapped and %llu cached",
           (unsigned long long)ledger.handle_bytes, (unsigned long long)stats.mapped_bytes,
           (unsigned long long)stats.cached_bytes);
}
