// SPDX-License-Identifier: Apache-2.0
/* How the soak sees that a block keeps its pattern, and tells whose words are there instead.
 *
 * Trade-offs: of each thread the last fills alone are remembered, so what another thread wrote, or a graph that was
 * captured long ago, is told by its words only. */
#include <unistd.h>

#include "gpu/soak.h"

void soak_note(struct thread *t, struct block *block, const char *what)
{
    block->what_before = block->what;
    block->step_before = block->step;
    block->what = what;
    block->step = t->step;
}

void soak_remember_fill(struct thread *t, const struct block *block)
{
    t->fills[t->fill_count % FILLS] =
        (struct fill){(uint64_t)(uintptr_t)block->address, block->bytes, block->pattern, t->step};
    t->fill_count += 1;
}

/* The last fill of the thread that wrote that word at the address; NULL: another thread's, or one long ago. */
static const struct fill *find_fill(const struct thread *t, uint64_t address, uint32_t word)
{
    for (uint64_t i = t->fill_count; i-- > 0 && t->fill_count - i <= FILLS;) {
        const struct fill *fill = &t->fills[i % FILLS];

        if (address >= fill->address && address - fill->address < fill->bytes &&
            word == pattern_word(fill->pattern, (uint32_t)((address - fill->address) / 4)))
            return fill;
    }
    return NULL;
}

/* The stream is about to use the block. */
static void use(struct thread *t, struct block *block, int stream)
{
    soak_order(t, block->last, stream);
    block->last = stream;
    if (stream != block->home)
        TARN(tarn_record_stream(block->address, t->streams[stream]));
}

void soak_fill(struct thread *t, struct block *block, int stream)
{
    use(t, block, stream);
    block->pattern = (uint32_t)soak_random(t);
    block->filled = true;
    soak_remember_fill(t, block);
    DRIVER(pattern_fill(t->streams[stream], block->address, block->pattern, block->bytes / 4));
    soak_note(t, block, "filled");
}

void soak_verify(struct thread *t, struct block *block, int stream, const char *what)
{
    tn_cu_deviceptr result;

    if (!block->filled)
        return;
    if (t->ring_count == RING)
        soak_look(t);
    use(t, block, stream);
    result = t->results + t->ring_count * sizeof(struct pattern_result);
    DRIVER(pattern_verify(t->streams[stream], block->address, block->pattern, block->bytes / 4,
                          result));
    soak_note(t, block, what);
    t->ring[t->ring_count] = (struct check){*block, 1};
    t->ring_count += 1;
    t->counts[COUNT_VERIFICATIONS] += 1;
}

/* Whose word was found, where the thread that looked wrote it. */
static void tell_writer(const struct thread *t, const struct block *block,
                        const struct pattern_result *result)
{
    uint64_t address = (uint64_t)(uintptr_t)block->address + (uint64_t)result->index * 4;
    const struct fill *fill = find_fill(t, address, result->found);

    if (fill != NULL)
        (void)printf(
            "The word found is that of %zu bytes at 0x%llx, filled, or captured to be filled, at "
            "step %llu\n",
            fill->bytes, (unsigned long long)fill->address, (unsigned long long)fill->step);
}

static void look_at(struct thread *t, const struct check *check,
                    const struct pattern_result *result)
{
    const struct block *block = &check->block;

    if (result->bad == 0 && result->runs == check->runs)
        return;
    soak_silence_others();
    if (result->bad != 0)
        (void)printf(
            "MISMATCH: seed %llu, thread %d, block %llu at %p of %zu bytes, own pool %d: word "
            "%u at %p is %08x, expected %08x; last, at step %llu of %llu: %s; before, at step %llu: %s\n",
            (unsigned long long)soak.seed, t->number, (unsigned long long)block->sequence,
            block->address, block->bytes, block->own, result->index,
            (void *)((char *)block->address + (size_t)result->index * 4), result->found,
            pattern_word(block->pattern, result->index), (unsigned long long)block->step,
            (unsigned long long)t->step, block->what, (unsigned long long)block->step_before,
            block->what_before != NULL ? block->what_before : "allocated");
    else
        (void)printf(
            "NOT RUN: seed %llu, thread %d: a verification of block %llu ran %u times instead "
            "of %llu; last, at step %llu of %llu: %s\n",
            (unsigned long long)soak.seed, t->number, (unsigned long long)block->sequence,
            result->runs, (unsigned long long)check->runs, (unsigned long long)block->step,
            (unsigned long long)t->step, block->what);
    if (result->bad != 0)
        tell_writer(t, block, result);
    (void)fflush(stdout);
    _exit(1);
}

void soak_look(struct thread *t)
{
    static _Thread_local struct pattern_result results[RING + GRAPHS * GRAPH_CHECKS];

    soak_synchronize(t);
    DRIVER(cu.cuMemcpyDtoHAsync(results, t->results, sizeof results, t->streams[0]));
    DRIVER(cu.cuStreamSynchronize(t->streams[0]));
    for (size_t i = 0; i < t->ring_count; i++)
        look_at(t, &t->ring[i], &results[i]);
    for (int i = 0; i < GRAPHS * GRAPH_CHECKS; i++)
        look_at(t, &t->graph_checks[i / GRAPH_CHECKS][i % GRAPH_CHECKS], &results[RING + i]);
    t->ring_count = 0;
    DRIVER(cu.cuMemsetD32Async(t->results, 0, RING * sizeof(struct pattern_result) / 4,
                               t->streams[0]));
    DRIVER(cu.cuStreamSynchronize(t->streams[0]));
}
