// SPDX-License-Identifier: Apache-2.0
/* The books of blocks.
 *
 * A block's first words, and its last ones where it is large, have a pattern. They are read when the event behind
 * the work that wrote them has passed, on a stream that does nothing else. */
#include "pairs/pairs.h"
#include "support/pattern.h"

enum { WHOLE_WORDS = 1 << 16, HEAD_WORDS = 2048, TAIL_WORDS = 64 };

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
        status = tarn_pool_malloc(pool, bytes, 0, stream, &address);
    } while (pairs_is_stale(m, pool, status));
    if (!pairs_need(status, "tarn_pool_malloc(shared pool)"))
        return PAIRS_NONE;
    return note_block(address, bytes, home);
}

int pairs_alloc_default(size_t bytes, tn_cu_stream stream)
{
    void *address = NULL;

    return NEED(tarn_pool_malloc(pw.default_pool, bytes, 0, stream, &address))
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
    return result != TN_CUDA_SUCCESS ? result
                                     : pattern_fill(stream, (char *)address + tail * 4,
                                                    pattern + (uint32_t)tail, TAIL_WORDS);
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
void pairs_come_after(tn_cu_stream stream, int place)
{
    if (place != PAIRS_NONE && pw.blocks[place].mark != NULL && !pairs_is_capturing(stream))
        (void)DRIVE(cu.cuStreamWaitEvent(stream, pw.blocks[place].mark, 0));
}

void pairs_fill(int place, tn_cu_stream stream)
{
    uint32_t pattern = pairs_pattern();
    struct pairs_block *block;

    if (!pairs_is_there(place))
        return;
    block = &pw.blocks[place];
    pairs_come_after(stream, place);
    if (DRIVE(pairs_write(stream, block->address, block->bytes, pattern)))
        pairs_written(place, pattern, stream);
}

void pairs_spin(tn_cu_stream stream, uint32_t milliseconds)
{
    if (pairs_is_well())
        (void)DRIVE(test_try_spin(stream, milliseconds));
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
        EXPECT(
            words[i] == pattern_word(block->pattern, first + i),
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
