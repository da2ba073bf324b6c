// SPDX-License-Identifier: Apache-2.0
/* A writer appends events to a trace. Blocks have numbers in the order of allocation, and a block's
 * number is its slot. No slot is used again: an adversary can thus name blocks of one phase as a
 * range of numbers.
 *
 * Sizes of large blocks are parts of the peak. Sizes of small ones are absolute, as the
 * granularities of allocators are: a comb of 64 KiB is finer than any page of a GPU, whatever the
 * peak. */
#include "adversaries.h"

#include <stdio.h>
#include <stdlib.h>

#include "base.h"
#include "harness.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

enum { SIZE_STEP = 512 }; /* bytes between the sizes that may be drawn */

struct bench_adversary_writer {
    struct bench_trace *trace;
    uint64_t peak_bytes; /* no more are ever live */
    uint64_t live_bytes;
    uint64_t random;
    size_t event_room;
    size_t slot_room;
    uint64_t *bytes; /* by slot; 0: the block was freed */
    uint8_t *streams;
    uint8_t stream; /* of the next allocation */
};

/* Numbers of blocks, of which the last one can be removed, or any by taking its place. */
struct blocks {
    uint32_t *slots;
    size_t count;
    size_t room;
};

/* ---- events -------------------------------------------------------------------------------- */

static void *grow(void *array, size_t *room, size_t count, size_t each)
{
    if (count < *room)
        return array;
    *room = *room * 2 + 1024;
    array = realloc(array, *room * each);
    if (array == NULL)
        bench_fail("no host memory");
    return array;
}

static void add_event(struct bench_adversary_writer *writer, struct bench_trace_event event)
{
    struct bench_trace *trace = writer->trace;

    trace->events = grow(trace->events, &writer->event_room, trace->event_count, sizeof event);
    trace->events[trace->event_count++] = event;
}

static bool fits(const struct bench_adversary_writer *writer, uint64_t bytes)
{
    return writer->live_bytes + bytes <= writer->peak_bytes;
}

/* The block's number. */
static uint32_t allocate(struct bench_adversary_writer *writer, uint64_t bytes)
{
    struct bench_trace *trace = writer->trace;
    uint32_t slot = (uint32_t)trace->slot_count;
    size_t room = writer->slot_room;

    writer->bytes = grow(writer->bytes, &writer->slot_room, slot, sizeof *writer->bytes);
    writer->streams = grow(writer->streams, &room, slot, sizeof *writer->streams);
    writer->bytes[slot] = bytes;
    writer->streams[slot] = writer->stream;
    writer->live_bytes += bytes;
    if (writer->live_bytes > trace->live_peak_bytes)
        trace->live_peak_bytes = writer->live_bytes;
    if (writer->stream >= trace->stream_count)
        trace->stream_count = (size_t)writer->stream + 1;
    trace->slot_count += 1;
    add_event(writer, (struct bench_trace_event){.bytes = bytes,
                                                 .slot = slot,
                                                 .kind = BENCH_TRACE_ALLOCATE,
                                                 .stream = writer->stream});
    return slot;
}

static void free_block(struct bench_adversary_writer *writer, uint32_t slot)
{
    writer->live_bytes -= writer->bytes[slot];
    writer->bytes[slot] = 0;
    add_event(writer, (struct bench_trace_event){
                          .slot = slot, .kind = BENCH_TRACE_FREE, .stream = writer->streams[slot]});
}

/* The number that the next block gets. */
static uint32_t next_slot(const struct bench_adversary_writer *writer)
{
    return (uint32_t)writer->trace->slot_count;
}

static bool is_live(const struct bench_adversary_writer *writer, uint32_t slot)
{
    return writer->bytes[slot] != 0;
}

/* ---- sizes and blocks ---------------------------------------------------------------------- */

static uint64_t draw(struct bench_adversary_writer *writer, uint64_t count)
{
    return bench_random(&writer->random) % count;
}

/* Each size from least to most as likely as the next. */
static uint64_t draw_bytes(struct bench_adversary_writer *writer, uint64_t least, uint64_t most)
{
    return least + draw(writer, (most - least) / SIZE_STEP + 1) * SIZE_STEP;
}

/* Each doubling of the size as likely as the next. */
static uint64_t draw_by_octave(struct bench_adversary_writer *writer, uint64_t least, uint64_t most)
{
    uint64_t octaves = 1;

    while (least << (octaves + 1) <= most)
        octaves++;
    least <<= draw(writer, octaves);
    return draw_bytes(writer, least, 2 * least);
}

static void fill_equal(struct bench_adversary_writer *writer, uint64_t bytes)
{
    while (fits(writer, bytes))
        (void)allocate(writer, bytes);
}

/* Blocks of sizes drawn by the function, until the next one would not fit. */
static void fill(struct bench_adversary_writer *writer, uint64_t least, uint64_t most,
                 uint64_t (*draw_size)(struct bench_adversary_writer *, uint64_t, uint64_t))
{
    for (;;) {
        uint64_t bytes = draw_size(writer, least, most);

        if (!fits(writer, bytes))
            return;
        (void)allocate(writer, bytes);
    }
}

static void add_block(struct blocks *blocks, uint32_t slot)
{
    blocks->slots = grow(blocks->slots, &blocks->room, blocks->count, sizeof *blocks->slots);
    blocks->slots[blocks->count++] = slot;
}

/* Removes a random one. */
static uint32_t take_block(struct bench_adversary_writer *writer, struct blocks *blocks)
{
    size_t place = draw(writer, blocks->count);
    uint32_t slot = blocks->slots[place];

    blocks->slots[place] = blocks->slots[--blocks->count];
    return slot;
}

/* Frees the live blocks from first on, in random order, but for the first of each keep of them; 0:
 * all. */
static void free_shuffled(struct bench_adversary_writer *writer, uint32_t first, size_t keep)
{
    struct blocks blocks = {.slots = NULL};
    size_t live_count = 0;

    for (uint32_t slot = first; slot < next_slot(writer); slot++) {
        if (is_live(writer, slot) && (keep == 0 || live_count++ % keep != 0))
            add_block(&blocks, slot);
    }
    while (blocks.count > 0)
        free_block(writer, take_block(writer, &blocks));
    free(blocks.slots);
}

/* Frees the live blocks from first to before end, the oldest first. */
static void free_range(struct bench_adversary_writer *writer, uint32_t first, uint32_t end)
{
    for (uint32_t slot = first; slot < end; slot++) {
        if (is_live(writer, slot))
            free_block(writer, slot);
    }
}

/* ---- combs --------------------------------------------------------------------------------- */

/* Frees every other live block. */
static void thin_out(struct bench_adversary_writer *writer)
{
    size_t live_count = 0;

    for (uint32_t slot = 0; slot < next_slot(writer); slot++) {
        if (is_live(writer, slot) && live_count++ % 2 != 0)
            free_block(writer, slot);
    }
}

/* Equal blocks, every other one freed; then blocks of twice the size. */
static void comb(struct bench_adversary_writer *writer, uint64_t bytes)
{
    fill_equal(writer, bytes);
    thin_out(writer);
    fill_equal(writer, 2 * bytes);
}

static void write_comb(struct bench_adversary_writer *writer)
{
    comb(writer, draw_bytes(writer, 32 * KIB, 96 * KIB));
}

/* Holes of whole pages, which memory can be moved out of. */
static void write_comb_large(struct bench_adversary_writer *writer)
{
    comb(writer, draw_bytes(writer, 2 * MIB + 512 * KIB, 6 * MIB));
}

/* Combs of combs: Robson, "Bounds for some functions concerning dynamic storage allocation", 1974,
 * but for the addresses, which a trace cannot know. */
static void write_doubling(struct bench_adversary_writer *writer)
{
    uint64_t bytes = draw_bytes(writer, 32 * KIB, 64 * KIB);

    fill_equal(writer, bytes);
    for (bytes *= 2; bytes <= writer->peak_bytes / 8; bytes *= 2) {
        thin_out(writer);
        fill_equal(writer, bytes);
    }
}

/* ---- saws ---------------------------------------------------------------------------------- */

/* Sizes rise and fall by fiftieths, again and again; the oldest blocks go where a new one does not
 * fit. */
static void write_saw(struct bench_adversary_writer *writer)
{
    enum { FLANKS = 8, PARTS = 50 };
    uint64_t least = 32 * KIB;
    uint64_t most = writer->peak_bytes / 32;
    uint64_t bytes = least;
    uint32_t oldest = 0;

    for (int flank = 0; flank < FLANKS; flank++) {
        bool rises = flank % 2 == 0;

        while (rises ? bytes <= most : bytes >= least) {
            uint64_t asked = draw_bytes(writer, bytes, bytes + bytes / PARTS);

            while (!fits(writer, asked))
                free_block(writer, oldest++);
            (void)allocate(writer, asked);
            bytes = rises ? bytes + bytes / PARTS + 1 : bytes - bytes / PARTS;
        }
    }
}

/* ---- one block of each chunk --------------------------------------------------------------- */

/* Fills with small and middle blocks, frees all but one in each span of bytes, and asks for large
 * ones. */
static void keep_of_each(struct bench_adversary_writer *writer, uint64_t span)
{
    uint64_t passed = span; /* bytes since the last block that is kept */

    fill(writer, KIB, 2 * MIB, draw_by_octave);
    for (uint32_t slot = 0; slot < next_slot(writer); slot++) {
        bool kept = passed >= span;

        passed = (kept ? 0 : passed) + writer->bytes[slot];
        if (!kept)
            free_block(writer, slot);
    }
    fill(writer, writer->peak_bytes / 64, writer->peak_bytes / 16, draw_bytes);
}

static void write_kept_32(struct bench_adversary_writer *writer)
{
    keep_of_each(writer, 32 * MIB);
}

static void write_kept_256(struct bench_adversary_writer *writer)
{
    keep_of_each(writer, 256 * MIB);
}

/* ---- sizes that grow by one step ----------------------------------------------------------- */

/* Key-value caches of several layers: a token makes each anew, one row larger, before the old one
 * is freed. */
static void write_growing(struct bench_adversary_writer *writer)
{
    enum { CACHES = 64, ROWS = 512, ROWS_FIRST = 128 };
    uint64_t row_bytes[CACHES];
    uint32_t slots[CACHES];
    uint64_t mean = writer->peak_bytes / CACHES / ROWS;

    for (int i = 0; i < CACHES; i++) {
        row_bytes[i] = draw_bytes(writer, mean / 2, mean + mean / 2);
        slots[i] = allocate(writer, ROWS_FIRST * row_bytes[i]);
    }
    for (uint64_t rows = ROWS_FIRST + 1;; rows++) {
        for (int i = 0; i < CACHES; i++) {
            uint32_t old = slots[i];

            if (!fits(writer, rows * row_bytes[i]))
                return;
            slots[i] = allocate(writer, rows * row_bytes[i]);
            free_block(writer, old);
        }
    }
}

/* Equal blocks are replaced in random order by blocks a sixteenth larger, generation by generation:
 * none fits the hole of the one before it. */
static void write_outgrown(struct bench_adversary_writer *writer)
{
    enum { BLOCKS = 1024, GENERATIONS = 32, PARTS = 16 };
    uint64_t bytes = writer->peak_bytes / BLOCKS;
    uint32_t first = 0;

    fill_equal(writer, bytes);
    for (int generation = 0; generation < GENERATIONS; generation++) {
        struct blocks blocks = {.slots = NULL};
        uint32_t end = next_slot(writer);

        for (uint32_t slot = first; slot < end; slot++)
            add_block(&blocks, slot);
        bytes += bytes / PARTS;
        while (blocks.count > 0) {
            free_block(writer, take_block(writer, &blocks));
            if (fits(writer, bytes))
                (void)allocate(writer, bytes);
        }
        free(blocks.slots);
        first = end;
    }
}

/* ---- small and huge ones ------------------------------------------------------------------- */

/* Many small blocks, a quarter of the peak, and few huge ones; each goes at random. */
static void write_bimodal(struct bench_adversary_writer *writer)
{
    enum { STEPS = 20000, HUGE_EVERY = 16 };
    struct blocks small = {.slots = NULL};
    struct blocks huge = {.slots = NULL};
    uint64_t small_bytes = 0;

    for (int step = 0; step < STEPS; step++) {
        bool of_huge = draw(writer, HUGE_EVERY) == 0;
        struct blocks *blocks = of_huge ? &huge : &small;
        uint64_t bytes = of_huge
                             ? draw_bytes(writer, writer->peak_bytes / 32, writer->peak_bytes / 8)
                             : draw_bytes(writer, 4 * KIB, 256 * KIB);
        bool full = !of_huge && small_bytes > writer->peak_bytes / 4;

        if (!full && fits(writer, bytes)) {
            add_block(blocks, allocate(writer, bytes));
            small_bytes += of_huge ? 0 : bytes;
        } else if (blocks->count > 0) {
            uint32_t slot = take_block(writer, blocks);

            small_bytes -= of_huge ? 0 : writer->bytes[slot];
            free_block(writer, slot);
        }
    }
    free(small.slots);
    free(huge.slots);
}

/* ---- phases and streams -------------------------------------------------------------------- */

/* Small blocks, all freed, then large ones, all freed, and small ones again. */
static void write_phases(struct bench_adversary_writer *writer)
{
    enum { PHASES = 5 };

    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t first = next_slot(writer);

        if (phase % 2 == 0)
            fill(writer, KIB, 256 * KIB, draw_bytes);
        else
            fill(writer, writer->peak_bytes / 64, writer->peak_bytes / 16, draw_bytes);
        free_shuffled(writer, first, 0);
    }
}

/* Two streams reach the peak by turns. keep: one block of as many stays until its stream's next
 * turn; 0: none does. */
static void take_turns(struct bench_adversary_writer *writer, size_t keep)
{
    enum { TURNS = 6, STREAMS = 2 };
    uint32_t firsts[TURNS];

    for (int turn = 0; turn < TURNS; turn++) {
        firsts[turn] = next_slot(writer);
        writer->stream = (uint8_t)(turn % STREAMS);
        if (turn >= STREAMS)
            free_range(writer, firsts[turn - STREAMS], firsts[turn - STREAMS + 1]);
        fill(writer, 16 * KIB, writer->peak_bytes / 64, draw_by_octave);
        free_shuffled(writer, firsts[turn], keep);
    }
}

static void write_streams(struct bench_adversary_writer *writer)
{
    take_turns(writer, 0);
}

static void write_streams_kept(struct bench_adversary_writer *writer)
{
    take_turns(writer, 64);
}

/* ---- all ----------------------------------------------------------------------------------- */

const struct bench_adversary bench_adversaries[] = {
    {"comb", write_comb},         {"comb_large", write_comb_large},
    {"doubling", write_doubling}, {"saw", write_saw},
    {"kept_32", write_kept_32},   {"kept_256", write_kept_256},
    {"growing", write_growing},   {"outgrown", write_outgrown},
    {"bimodal", write_bimodal},   {"phases", write_phases},
    {"streams", write_streams},   {"streams_kept", write_streams_kept},
};
const size_t bench_adversary_count = sizeof bench_adversaries / sizeof bench_adversaries[0];

static void write_texts(const struct bench_adversary *adversary, size_t peak_mib, uint64_t seed,
                        struct bench_trace *trace)
{
    char suffix[16] = "";
    int length;

    if (seed != 1)
        (void)snprintf(suffix, sizeof suffix, " seed %u", (unsigned)seed);
    length = snprintf(trace->name, sizeof trace->name, "%s %zu MiB%s", adversary->name, peak_mib,
                      suffix);
    if (length < 0 || (size_t)length >= sizeof trace->name)
        bench_fail("the name of adversary %s is too long", adversary->name);
    (void)snprintf(trace->source, sizeof trace->source, "an adversary");
    (void)snprintf(trace->device, sizeof trace->device, "none");
}

void bench_adversary_create(const struct bench_adversary *adversary, size_t peak_mib, uint64_t seed,
                            struct bench_trace *trace)
{
    struct bench_adversary_writer writer = {
        .trace = trace,
        .peak_bytes = peak_mib * MIB,
        .random = BENCH_RANDOM_SEED + seed,
    };

    *trace = (struct bench_trace){.thread_count = 1};
    write_texts(adversary, peak_mib, seed, trace);
    adversary->write(&writer);
    free(writer.bytes);
    free(writer.streams);
}
