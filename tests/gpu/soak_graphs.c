// SPDX-License-Identifier: Apache-2.0
/* The soak's captures, graphs and checkpoints.
 *
 * A section fills and verifies blocks of its own, on a stream and one forked from it, frees all but
 * one, and may fill, verify and free a block from before it. What it verifies is counted at each replay.
 *
 * What a section frees, later ones use: so a replay overwrites the kept blocks of the graphs captured
 * after it, until their own next replay. In the pool that threads share, kept blocks are not looked at.
 *
 * A restore ends the graphs that were captured, or updated, after the checkpoint: their memory is not
 * live any more, and a replay would write into what others capture there later. */
#include "gpu/soak.h"

enum { FORM_FORKS = 1, FORM_TAKES_OLDER = 2, FORMS = 4 };

/* A section that is being captured. */
struct section {
    struct thread *t;
    int graph; /* whose checks it uses */
    int origin;
    int fork;
    size_t check_count;
    struct block made[4]; /* address NULL: freed */
    size_t made_count;
    tarn_status status; /* not OK: the section is given up */
};

static void fill(struct section *section, struct block *block, int stream)
{
    struct thread *t = section->t;

    block->pattern = (uint32_t)soak_random(t);
    soak_remember_fill(t, block);
    DRIVER(pattern_fill(t->streams[stream], block->address, block->pattern, block->bytes / 4));
}

/* A block of the section, filled; NULL when there is no memory. */
static struct block *make(struct section *section, int stream)
{
    struct thread *t = section->t;
    struct block *block = &section->made[section->made_count];
    tarn_block described = {0};

    if (section->status != TARN_OK)
        return NULL;
    *block = (struct block){.bytes = soak_bytes(t),
                            .own = !t->shares,
                            .of_pool = true,
                            .captured = t->capture_count,
                            .home = NOWHERE,
                            .last = stream};
    section->status = tarn_malloc(soak.device, block->bytes, t->streams[stream], &block->address);
    if (soak_is_out_of_memory(t, section->status))
        return NULL;
    section->made_count += 1;
    TARN(tarn_block_at(block->address, &described));
    REQUIRE(described.pool == t->pool);
    block->sequence = described.sequence;
    soak_note(t, block, "allocated in a capture");
    fill(section, block, stream);
    return block;
}

static void verify(struct section *section, struct block *block, int stream, const char *what)
{
    struct thread *t = section->t;
    size_t slot = RING + (size_t)section->graph * GRAPH_CHECKS + section->check_count;

    REQUIRE(section->check_count < GRAPH_CHECKS);
    soak_note(t, block, what);
    t->graph_checks[section->graph][section->check_count].block = *block;
    section->check_count += 1;
    DRIVER(pattern_verify(t->streams[stream], block->address, block->pattern, block->bytes / 4,
                          t->results + slot * sizeof(struct pattern_result)));
}

static void release(struct section *section, struct block *block)
{
    struct thread *t = section->t;

    TARN(tarn_free(block->address));
    block->address = NULL;
}

static void capture_fork(struct section *section, struct block *shared)
{
    struct thread *t = section->t;
    struct block *block;

    soak_order(t, section->origin, section->fork);
    block = make(section, section->fork);
    if (block != NULL) {
        verify(section, block, section->fork, "verified on the forked stream of a graph");
        release(section, block);
    }
    verify(section, shared, section->fork, "verified on both streams of a graph, forked");
    TARN(tarn_record_stream(shared->address, t->streams[section->fork]));
    soak_order(t, section->fork, section->origin);
}

/* older: a block from before the section, which is freed in it, or NULL. The last block made is the one
 * that is kept. */
static void capture_section(struct section *section, int form, struct block *older)
{
    struct thread *t = section->t;
    struct block *block = make(section, section->origin);

    if (block == NULL)
        return;
    if ((form & FORM_FORKS) != 0)
        capture_fork(section, block);
    verify(section, block, section->origin, "verified in a graph");
    release(section, block);
    if (older != NULL) {
        fill(section, older, section->origin);
        verify(section, older, section->origin, "verified in a graph, from before it");
        TARN(tarn_record_stream(older->address, t->streams[section->origin]));
        release(section, older);
    }
    block = make(section, section->origin);
    if (block != NULL) {
        verify(section, block, section->origin, "verified in a graph, where others were");
        release(section, block);
    }
    (void)make(section, section->origin);
}

/* Frees what the section made and did not free; what was discarded takes a free, too. */
static void free_made(struct section *section)
{
    for (size_t i = 0; i < section->made_count; i++) {
        if (section->made[i].address != NULL)
            release(section, &section->made[i]);
    }
}

static void free_kept(struct thread *t, struct graph *graph)
{
    if (graph->kept.address == NULL)
        return;
    soak_free(t, &graph->kept, soak_below(t, STREAMS));
}

/* A block of the pool that a section may free: its index, or -1. */
static int find_older(struct thread *t)
{
    int start = t->block_count > 0 ? soak_below(t, (int)t->block_count) : 0;

    for (int i = 0; i < (int)t->block_count; i++) {
        int index = (start + i) % (int)t->block_count;

        if (t->blocks[index].of_pool)
            return index;
    }
    return -1;
}

/* Ends the capture as a new graph, or into the one that is there; false when it was aborted. */
static bool finish(struct thread *t, struct section *section, tarn_capture *capture, int form)
{
    struct graph *graph = &t->graphs[section->graph];
    bool update = graph->graph != NULL;
    tarn_status status = section->status;

    if (status == TARN_OK && soak_below(t, 10) != 0)
        status = update ? tarn_graph_update(graph->graph, capture)
                        : tarn_capture_end(capture, &graph->graph);
    else if (status == TARN_OK)
        status = TARN_ERR_LIMIT; /* aborted for no reason */
    if (status != TARN_OK) {
        REQUIRE(status == TARN_ERR_DEVICE_MEMORY || status == TARN_ERR_LIMIT);
        TARN(tarn_capture_abort(capture));
        free_made(section);
        t->counts[COUNT_ABORTS] += 1;
        return false;
    }
    if (update)
        free_kept(t, graph);
    t->saved_graphs &= ~(1U << section->graph);
    graph->number = t->capture_count;
    graph->form = form;
    graph->check_count = section->check_count;
    graph->replays = 0;
    graph->kept = section->made[section->made_count - 1];
    graph->kept.filled = false; /* until a replay */
    t->counts[update ? COUNT_UPDATES : COUNT_CAPTURES] += 1;
    return true;
}

void soak_capture(struct thread *t)
{
    struct section section = {.t = t, .graph = soak_below(t, GRAPHS)};
    struct graph *graph = &t->graphs[section.graph];
    int form = graph->graph != NULL ? graph->form : soak_below(t, FORMS);
    int index = (form & FORM_TAKES_OLDER) != 0 ? find_older(t) : -1;
    struct block older;
    tarn_capture *capture = NULL;

    section.origin = soak_below(t, STREAMS);
    section.fork = (section.origin + 1) % STREAMS;
    if (graph->graph != NULL &&
        (soak_below(t, 2) == 0 || ((form & FORM_TAKES_OLDER) != 0 && index < 0))) {
        soak_destroy_graph(t, section.graph);
        return;
    }
    if (index < 0)
        form &= ~FORM_TAKES_OLDER;
    else
        soak_verify(t, &t->blocks[index], section.origin, "verified before a capture frees it");
    soak_look(t); /* what the checks were of before */
    t->capture_count += 1;
    TARN(tarn_capture_begin(
        t->pool, t->streams[section.origin],
        CAPTURE_MODE(soak_below(t, 2) == 0 ? TARN_CAPTURE_THREAD_LOCAL : TARN_CAPTURE_RELAXED),
        &capture));
    if (index >= 0)
        older = t->blocks[index];
    capture_section(&section, form, index >= 0 ? &older : NULL);
    if (index >= 0 && older.address == NULL)
        soak_remove_block(t, (size_t)index);
    if (!finish(t, &section, capture, form))
        soak_make_room(t);
}

/* A replay of the graph of that number, on a stream that follows all others, has written where the blocks captured
 * after it lie: what fills one of them next, on whatever stream, comes behind it. */
static void overwrite_after(struct thread *t, uint64_t number, int stream)
{
    for (size_t i = 0; i < t->block_count; i++) {
        if (t->blocks[i].captured > number) {
            t->blocks[i].filled = false;
            t->blocks[i].last = stream;
        }
    }
    for (int i = 0; i < GRAPHS; i++) {
        if (t->graphs[i].number > number) {
            t->graphs[i].kept.filled = false;
            t->graphs[i].kept.last = stream;
        }
    }
}

void soak_replay(struct thread *t)
{
    int index = soak_below(t, GRAPHS);
    int stream = soak_below(t, STREAMS);
    struct graph *graph = &t->graphs[index];

    if (graph->graph == NULL)
        return;
    soak_order_all(t, stream);
    if (soak_is_out_of_memory(t, tarn_graph_replay(graph->graph, t->streams[stream])))
        return; /* the device could not be waited for */
    for (size_t i = 0; i < graph->check_count; i++)
        t->graph_checks[index][i].runs += 1;
    graph->replays += 1;
    t->counts[COUNT_REPLAYS] += 1;
    overwrite_after(t, graph->number, stream);
    graph->kept.filled = !t->shares;
    graph->kept.last = stream;
    soak_note(t, &graph->kept, "written by a replay");
    if (soak_below(t, 2) == 0)
        soak_verify(t, &graph->kept, soak_below(t, STREAMS), "verified after a replay");
}

void soak_destroy_graph(struct thread *t, int index)
{
    struct graph *graph = &t->graphs[index];
    bool kept_first = soak_below(t, 2) == 0;

    if (graph->graph == NULL)
        return;
    if (kept_first)
        free_kept(t, graph);
    TARN(tarn_graph_destroy(graph->graph));
    graph->graph = NULL;
    free_kept(t, graph);
    t->saved_graphs &= ~(1U << index);
}

void soak_graphs_forget_stream(struct thread *t, int stream, int instead)
{
    for (int i = 0; i < GRAPHS; i++) {
        if (t->graphs[i].kept.last == stream)
            t->graphs[i].kept.last = instead;
    }
}

void soak_drop_checkpoint(struct thread *t)
{
    TARN(tarn_checkpoint_destroy(t->checkpoint));
    t->checkpoint = NULL;
    t->saved_count = 0;
}

void soak_checkpoint(struct thread *t)
{
    tarn_status status;

    if (t->shares || t->block_count + GRAPHS > BLOCKS)
        return;
    soak_drop_checkpoint(t);
    t->contents = (tarn_contents)soak_below(t, 3);
    if (t->contents != TARN_CONTENTS_NONE)
        soak_synchronize(t);
    status = tarn_checkpoint_take(t->pool, t->contents, t->streams[0], &t->checkpoint);
    if (soak_is_out_of_memory(t, status)) {
        soak_make_room(t);
        return;
    }
    soak_synchronize(t); /* what writes next may be on another stream */
    t->saved_graphs = 0;
    for (size_t i = 0; i < t->block_count; i++) {
        if (t->blocks[i].own)
            t->saved[t->saved_count++] = t->blocks[i];
    }
    for (int i = 0; i < GRAPHS; i++) {
        if (t->graphs[i].graph != NULL) {
            t->saved[t->saved_count++] = t->graphs[i].kept;
            t->saved_graphs |= 1U << i;
        }
    }
    t->counts[COUNT_CHECKPOINTS] += 1;
}

/* The thread's block with that sequence, of its list or of a graph; NULL when there is none. */
static struct block *find(struct thread *t, uint64_t sequence, bool *is_kept)
{
    *is_kept = false;
    for (size_t i = 0; i < t->block_count; i++) {
        if (t->blocks[i].sequence == sequence)
            return &t->blocks[i];
    }
    *is_kept = true;
    for (int i = 0; i < GRAPHS; i++) {
        if (t->graphs[i].kept.address != NULL && t->graphs[i].kept.sequence == sequence)
            return &t->graphs[i].kept;
    }
    return NULL;
}

static bool is_saved(const struct thread *t, uint64_t sequence)
{
    for (size_t i = 0; i < t->saved_count; i++) {
        if (t->saved[i].sequence == sequence)
            return true;
    }
    return false;
}

/* Forgets the blocks of the pool that the checkpoint does not have; how many they were. */
static size_t forget_unsaved(struct thread *t)
{
    size_t forgotten = 0;

    for (size_t i = 0; i < t->block_count;) {
        if (t->blocks[i].own && !is_saved(t, t->blocks[i].sequence)) {
            soak_remove_block(t, i);
            forgotten += 1;
        } else {
            i += 1;
        }
    }
    return forgotten;
}

/* Brings the thread's books to what the checkpoint has, and looks at the bytes; how many blocks came
 * back. */
static size_t follow_restore(struct thread *t, int stream)
{
    size_t revived = 0;

    for (size_t i = 0; i < t->saved_count; i++) {
        bool is_kept;
        struct block *block = find(t, t->saved[i].sequence, &is_kept);

        if (block == NULL) {
            struct block back = t->saved[i];

            back.home = NOWHERE;
            back.filled = back.filled && t->contents != TARN_CONTENTS_NONE;
            soak_add_block(t, &back);
            block = &t->blocks[t->block_count - 1];
            is_kept = false;
            revived += 1;
        } else if (t->contents != TARN_CONTENTS_NONE) {
            block->pattern = t->saved[i].pattern;
            block->filled = t->saved[i].filled;
        }
        block->last = stream;
        soak_note(t, block, "restored");
        if (block->filled)
            soak_verify(t, block, stream, "verified after a restore");
        else if (!is_kept)
            soak_fill(t, block, stream);
    }
    return revived;
}

void soak_restore(struct thread *t)
{
    int stream = soak_below(t, STREAMS);
    tarn_delta *delta = NULL;
    tarn_status status;

    if (t->checkpoint == NULL)
        return;
    for (int i = 0; i < GRAPHS; i++) {
        if ((t->saved_graphs & 1U << i) == 0)
            soak_destroy_graph(t, i);
    }
    while (t->block_count + t->saved_count > BLOCKS && t->block_count > 0) {
        soak_free(t, &t->blocks[0], stream);
        soak_remove_block(t, 0);
    }
    soak_look(t);
    if (t->contents != TARN_CONTENTS_NONE && soak_below(t, 3) == 0 &&
        soak_is_out_of_memory(t, tarn_checkpoint_verify(t->checkpoint, t->streams[stream])))
        return;
    status = tarn_checkpoint_restore(t->checkpoint, t->streams[stream], &delta);
    if (soak_is_out_of_memory(t, status)) {
        soak_make_room(t);
        return;
    }
    REQUIRE(delta->freed_count == forget_unsaved(t));
    REQUIRE(delta->revived_count == follow_restore(t, stream));
    tarn_delta_destroy(delta);
    t->counts[COUNT_RESTORES] += 1;
    if (soak_below(t, 3) == 0)
        soak_drop_checkpoint(t);
}
