// SPDX-License-Identifier: Apache-2.0
/* What may be handed out is judged when it has been: all that the oracle remembers of the memory
 * must then be past. Marks are events that the oracle records itself, so what it asks of a stream
 * does not come from the library.
 *
 * Within a capture no work runs; there each stream has a clock of the captured work that it comes
 * after, one tick for each touch, joined as events join streams (vector clocks).
 *
 * A capture and the bodies in it are sections that form a tree. What was used in one section alone may
 * serve that one again, and sections that exclude it once it has ended; everything else in the tree is
 * apart until the outermost capture ends.
 *
 * On a loaded machine a mark is passed some time after the work before it is done. So a mark proves
 * something only where it was recorded before the library could record its own; the marks behind
 * launches are not, and what they say counts only while work is held. */
#include "model/state.h"

struct range range_of(const struct block *block)
{
    uintptr_t low = (uintptr_t)block->address;

    return (struct range){low, low + block->block_bytes};
}

bool overlap(struct range one, struct range other)
{
    return one.low < other.high && other.low < one.high;
}

bool is_capturing(const struct model *m, int stream)
{
    return m->streams[stream].capture != NONE;
}

struct block *add_block(struct model *m, const struct block *block)
{
    struct range range = range_of(block);

    for (size_t i = 0; i < m->block_count; i++)
        EXPECT(m, !overlap(range, range_of(&m->blocks[i])),
               "block %llu at %p of %zu bytes overlaps block %llu at %p of %zu",
               (unsigned long long)block->serial, block->address, block->bytes,
               (unsigned long long)m->blocks[i].serial, m->blocks[i].address, m->blocks[i].bytes);
    EXPECT(m, m->block_count < BLOCKS, "the model holds too many blocks");
    shared_add(m, range);
    m->blocks[m->block_count] = *block;
    return &m->blocks[m->block_count++];
}

void remove_block(struct model *m, struct block *block)
{
    touch_forget(block->home_mark);
    for (int s = 0; s < PAST; s++)
        touch_forget(block->past[s]);
    m->block_count -= 1;
    *block = m->blocks[m->block_count];
}

/* Memory given back -------------------------------------------------------------------------- */

bool is_open_capture(const struct model *m, uint64_t serial)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        if (serial != 0 && m->captures[i].serial == serial)
            return true;
    }
    return false;
}

const struct section *find_section(const struct model *m, uint64_t serial)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        if (serial != 0 && m->sections[i].serial == serial)
            return &m->sections[i];
    }
    return NULL;
}

uint64_t root_of(const struct model *m, uint64_t serial)
{
    const struct section *section = find_section(m, serial);

    return section != NULL ? section->root : serial;
}

/* Whether the bodies that the two sections are, or are parts of, exclude each other, and that of the
 * first has ended. */
static bool is_left_to(const struct model *m, uint64_t first, uint64_t then)
{
    for (const struct section *one = find_section(m, first); one != NULL;
         one = find_section(m, one->outer)) {
        for (const struct section *other = find_section(m, then); other != NULL;
             other = find_section(m, other->outer)) {
            if (one == other)
                return false;
            if (one->outer == other->outer)
                return one->group == other->group && one->has_ended;
        }
    }
    return false;
}

static void drop_freed(struct model *m, struct freed *freed)
{
    touch_forget(freed->home);
    for (size_t i = 0; i < STREAMS; i++)
        touch_forget(freed->uses[i]);
    for (size_t i = 0; i < PAST; i++)
        touch_forget(freed->past[i]);
    m->freed_count -= 1;
    *freed = m->freed[m->freed_count];
}

static void pass(tn_cu_event *mark)
{
    if (*mark != NULL && touch_is_passed(*mark)) {
        touch_forget(*mark);
        *mark = NULL;
    }
}

void forget_passed(struct model *m)
{
    for (size_t i = m->freed_count; i-- > 0;) {
        struct freed *freed = &m->freed[i];
        bool is_past = !is_open_capture(m, freed->root);

        pass(&freed->home);
        is_past = is_past && freed->home == NULL;
        for (size_t s = 0; s < STREAMS; s++) {
            pass(&freed->uses[s]);
            is_past = is_past && freed->uses[s] == NULL;
        }
        for (size_t s = 0; s < PAST; s++) {
            pass(&freed->past[s]);
            is_past = is_past && freed->past[s] == NULL;
        }
        if (is_past)
            drop_freed(m, freed);
    }
    for (size_t i = 0; i < GRAPHS; i++) {
        struct graph *graph = &m->graphs[i];
        bool is_running = false;

        for (size_t s = 0; s < STREAMS; s++) {
            pass(&graph->launched[s]);
            is_running = is_running || graph->launched[s] != NULL;
        }
        if (!is_running && graph->handle == NULL && graph->raw == NULL && graph->clone == NULL)
            graph->serial = 0;
    }
}

/* In which section all captured use of the memory was, and whether that may use it again. */
static void note_scope(const struct model *m, const struct block *block, uint64_t freed_in,
                       struct freed *freed)
{
    uint64_t own = block->capture_of;

    freed->scope = own != 0 ? own : freed_in;
    freed->root = root_of(m, freed->scope);
    freed->is_apart = own != 0 && (block->section != own || block->used_in != 0);
}

/* Before the block is given back: what must be past when its memory is handed out again. */
void note_freed(struct model *m, struct block *block, uint64_t freed_in)
{
    struct freed freed = {
        .range = range_of(block),
        .pool = block->pool,
        .home_life = block->home_life,
        .capture_of = block->capture_of,
        .serial = block->serial,
    };
    const struct stream *home = &m->streams[block->home];

    if (m->freed_count == FREED)
        drain(m);
    EXPECT(m, m->freed_count < FREED, "the model remembers too much freed memory");
    note_scope(m, block, freed_in, &freed);
    memcpy(freed.ticks, block->ticks, sizeof freed.ticks);
    memcpy(freed.past, block->past, sizeof freed.past);
    memset(block->past, 0, sizeof block->past);
    if (block->home_mark != NULL) {
        freed.home = block->home_mark;
        block->home_mark = NULL;
    } else if (block->capture_of == 0 && home->life == block->home_life && home->handle != NULL &&
               home->capture == NONE) {
        freed.home = touch_mark(home->handle);
    }
    for (int s = 0; s < STREAMS; s++) {
        if ((block->recorded & (1U << s)) != 0 && !is_capturing(m, s))
            freed.uses[s] = touch_mark(m->streams[s].handle);
    }
    m->freed[m->freed_count++] = freed;
}

void retire_freed(struct model *m, uint64_t life)
{
    for (size_t i = 0; i < m->freed_count; i++) {
        struct freed *freed = &m->freed[i];

        freed->is_retired =
            freed->is_retired || (freed->home_life == life && freed->capture_of == 0);
    }
}

static bool is_pending(const tarn_layout *layout, struct range range)
{
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];
        uint64_t low = (uint64_t)(uintptr_t)extent->address;

        if (extent->state == TARN_EXTENT_PENDING &&
            overlap((struct range){low, low + extent->bytes}, range))
            return true;
    }
    return false;
}

void note_pending(struct model *m, int pool)
{
    tarn_layout *layout = NULL;

    WELL(m, tarn_pool_layout(m->pools[pool].handle, &layout));
    for (size_t i = 0; i < m->freed_count; i++)
        m->freed[i].was_pending = m->freed[i].pool == pool && is_pending(layout, m->freed[i].range);
    tarn_layout_destroy(layout);
}

/* A take: the stream is behind what used its own freed memory, that of captures and that of retired streams, and later
 * replays come behind the stream; unless it is captured, and cannot be used. Which of that memory the take has freed is
 * not looked at: where it goes to captures too early, wrong bytes show it. Another stream's memory that was pending
 * until the take is a graph's, too: a restore revived its block there, or a hold took the chunk along. */
void take_uses(struct model *m, int pool, int stream)
{
    tarn_layout *layout = NULL;

    if (is_capturing(m, stream))
        return;
    WELL(m, tarn_pool_layout(m->pools[pool].handle, &layout));
    for (size_t i = 0; i < m->freed_count; i++) {
        struct freed *freed = &m->freed[i];
        bool is_own = freed->home_life == m->streams[stream].life;

        if (freed->pool != pool)
            continue;
        freed->is_behind = freed->is_behind || freed->capture_of != 0 ||
                           (!is_own && freed->was_pending && !is_pending(layout, freed->range));
        freed->is_home_behind = freed->is_home_behind || freed->is_retired;
        if (freed->is_behind || !is_own)
            continue;
        for (size_t s = 0; s < STREAMS; s++) {
            touch_forget(freed->uses[s]);
            freed->uses[s] = NULL;
        }
    }
    tarn_layout_destroy(layout);
}

static bool is_of_another(const struct model *m, uint64_t life, int stream)
{
    bool found = false;

    for (int s = 0; s < STREAMS; s++)
        found =
            found || (s != stream && m->streams[s].handle != NULL && m->streams[s].life == life);
    return found;
}

/* What a restore on the stream has put behind it. In a pool that shares what graphs hold, a block's life on
 * a stream that is still there is the user's to order against replays, also where the restore ends it. */
void forget_uses(struct model *m, int pool, int stream)
{
    for (size_t i = 0; i < m->freed_count; i++) {
        struct freed *freed = &m->freed[i];

        if (freed->pool != pool)
            continue;
        if (!m->pools[pool].shares_captured || !is_of_another(m, freed->home_life, stream)) {
            touch_forget(freed->home);
            freed->home = NULL;
        }
        for (size_t s = 0; s < STREAMS; s++) {
            touch_forget(freed->uses[s]);
            freed->uses[s] = NULL;
        }
        for (size_t s = 0; s < PAST; s++) {
            touch_forget(freed->past[s]);
            freed->past[s] = NULL;
        }
    }
}

/* The memory has a user again who is entitled to it: what is remembered of it is past. */
void withdraw_freed(struct model *m, struct range range)
{
    for (size_t i = m->freed_count; i-- > 0;) {
        struct range *freed = &m->freed[i].range;

        if (!overlap(*freed, range))
            continue;
        if (freed->high > range.high)
            freed->low = range.high;
        else if (freed->low < range.low)
            freed->high = range.low;
        else
            drop_freed(m, &m->freed[i]);
    }
}

/* Memory handed out -------------------------------------------------------------------------- */

/* Of memory that the block's capture, or another section of its tree, has used. */
static void expect_captured_order(struct model *m, const struct block *block,
                                  const struct freed *freed)
{
    const struct capture *capture = capture_of_stream(m, block->home);

    if (capture == NULL || freed->root == 0 || freed->root != root_of(m, capture->serial))
        return;
    if (freed->scope != capture->serial || freed->is_apart) {
        EXPECT(m, is_left_to(m, freed->scope, capture->serial),
               "block %llu at %p, captured in section %llu, got the memory of block %llu, which "
               "section %llu of the same capture has used",
               (unsigned long long)block->serial, block->address,
               (unsigned long long)capture->serial, (unsigned long long)freed->serial,
               (unsigned long long)freed->scope);
        return;
    }
    for (size_t s = 0; s < STREAMS; s++)
        EXPECT(
            m, freed->ticks[s] <= capture->clock[block->home][s],
            "block %llu at %p, captured on stream %d, got the memory of block %llu, whose use on "
            "stream %zu it does not come after",
            (unsigned long long)block->serial, block->address, block->home,
            (unsigned long long)freed->serial, s);
}

static void expect_order(struct model *m, const struct block *block, const struct freed *freed)
{
    bool is_own = freed->home_life == block->home_life && freed->capture_of == block->capture_of;
    bool is_behind = freed->is_behind && block->capture_of != 0;
    bool is_home_behind = is_own || (freed->is_home_behind && block->capture_of != 0);

    EXPECT(
        m, is_home_behind || freed->home == NULL || touch_is_passed(freed->home),
        "block %llu at %p on stream %d got the memory of block %llu while the work of that one's "
        "stream was not done",
        (unsigned long long)block->serial, block->address, block->home,
        (unsigned long long)freed->serial);
    for (int s = 0; s < STREAMS; s++) {
        bool is_ordered =
            is_behind || (s == block->home && block->capture_of == 0); /* behind the use */

        EXPECT(m, is_ordered || freed->uses[s] == NULL || touch_is_passed(freed->uses[s]),
               "block %llu at %p got the memory of block %llu while stream %d, recorded for that, "
               "was not done",
               (unsigned long long)block->serial, block->address, (unsigned long long)freed->serial,
               s);
    }
    for (size_t s = 0; s < PAST; s++)
        EXPECT(
            m, is_behind || freed->past[s] == NULL || touch_is_passed(freed->past[s]),
            "block %llu at %p got the memory of block %llu while a stream, recorded for that and "
            "retired since, was not done",
            (unsigned long long)block->serial, block->address, (unsigned long long)freed->serial);
    if (block->capture_of != 0)
        expect_captured_order(m, block, freed);
}

static void expect_outside(struct model *m, const struct block *block, const struct writes *writes,
                           uint64_t owner, bool is_graph)
{
    for (size_t i = 0; i < writes->count; i++) {
        const struct write *write = &writes->all[i];

        if (block->capture_of != 0 && write->pool == block->pool &&
            (block->pool != ADOPTED || block->capture_of == owner))
            continue;
        if (is_graph && write->pool == block->pool && m->pools[block->pool].shares_captured)
            continue;
        EXPECT(m, !overlap(range_of(block), write->range),
               "block %llu at %p of %zu bytes in pool %d lies in memory of block %llu, which %s of "
               "pool %d touches",
               (unsigned long long)block->serial, block->address, block->bytes, block->pool,
               (unsigned long long)write->serial, is_graph ? "a graph" : "a capture", write->pool);
    }
}

void expect_rightly_handed_out(struct model *m, const struct block *block)
{
    struct range range = range_of(block);

    for (size_t i = 0; i < m->freed_count; i++) {
        if (overlap(range, m->freed[i].range))
            expect_order(m, block, &m->freed[i]);
    }
    forget_passed(m);
    for (size_t i = 0; i < GRAPHS; i++) {
        const struct graph *graph = &m->graphs[i];
        bool only_runs = graph->handle == NULL && graph->raw == NULL && graph->clone == NULL;

        if (graph->serial != 0 && (!only_runs || m->is_held))
            expect_outside(m, block, &graph->writes, graph->serial, true);
    }
    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial != 0 && !m->captures[i].is_broken) /* which leaves no graph */
            expect_outside(m, block, &m->captures[i].writes, m->captures[i].serial, false);
    }
}

/* Work --------------------------------------------------------------------------------------- */

/* Makes the second stream come after what is on the first. Both are in one capture, or in none. */
void order(struct model *m, int first, int then)
{
    struct capture *capture = capture_of_stream(m, first);

    if (first == then)
        return;
    test_order(m->streams[first].handle, m->streams[then].handle);
    if (capture == NULL)
        return;
    for (size_t s = 0; s < STREAMS; s++) {
        if (capture->clock[then][s] < capture->clock[first][s])
            capture->clock[then][s] = capture->clock[first][s];
    }
}

/* Captured work does not run now: what it writes is known of each replay, and of nothing before. */
static void captured_touch(struct model *m, struct block *block, struct capture *capture,
                           int stream, struct touch *what)
{
    struct writes *writes = &top_of(capture)->writes;
    struct write *write = &writes->all[writes->count];
    uint32_t *clock = capture->clock[stream];
    bool runs = true;

    EXPECT(m, writes->count < RANGES, "the model captures too much");
    for (const struct capture *body = capture; body->outer != NULL; body = body->outer)
        runs = runs && body->runs;
    what->known = false;
    what->writes = true;
    what->value = block->captured_value;
    for (int s = 0; s < STREAMS; s++) {
        what->known = what->known || block->ticks[s] != 0;
        if (block->ticks[s] > clock[s] && capture->has_lane[s])
            order(m, s, stream);
    }
    what->known = what->known && !block->is_unsure;
    clock[stream] += 1;
    block->ticks[stream] = clock[stream];
    if (block->capture_of == capture->serial || capture->runs || block->capture_of == 0) {
        block->captured_value = what->next;
        block->is_unsure = false;
    }
    *write = (struct write){range_of(block), block->pool, block->serial, what->next, runs};
    writes->count += 1;
}

/* A block of a capture may get memory that graphs write just now: who uses it first outside graphs comes
 * after those launches by their own doing. */
static void come_after_launches(struct model *m, struct range range, int stream)
{
    for (size_t i = 0; i < GRAPHS; i++) {
        const struct graph *graph = &m->graphs[i];
        bool writes = false;

        for (size_t w = 0; w < graph->writes.count && !writes; w++)
            writes = overlap(graph->writes.all[w].range, range);
        for (int s = 0; s < STREAMS && writes; s++)
            touch_come_after(m->streams[stream].handle, graph->launched[s]);
    }
}

static void eager_touch(struct model *m, struct block *block, int stream, struct touch *what)
{
    const struct stream *on = &m->streams[stream];

    if (block->last == NONE && block->is_exposed)
        come_after_launches(m, range_of(block), stream);
    if (block->last != NONE && block->last != stream && !is_capturing(m, block->last))
        order(m, block->last, stream);
    block->last = stream;
    block->is_replayed = false;
    if (what->writes) {
        block->is_known = true;
        block->value = what->next;
    }
    if (stream != block->home || block->capture_of != 0 || on->life != block->home_life)
        block->dirty |= 1U << stream;
}

/* Enqueues a look at the block, and a write, behind what was enqueued on it before. */
void touch_block(struct model *m, struct block *block, int stream, bool writes)
{
    struct capture *capture = capture_of_stream(m, stream);
    struct touch what = {
        .address = block->address,
        .bytes = block->bytes,
        .serial = block->serial,
        .value = block->value,
        .next = (uint32_t)block->serial * 40503U + (uint32_t)m->step,
        .known = block->is_known,
        .writes = writes,
    };

    if (capture != NULL)
        captured_touch(m, block, capture, stream, &what);
    else
        eager_touch(m, block, stream, &what);
    touch(m->streams[stream].handle, &what);
}
