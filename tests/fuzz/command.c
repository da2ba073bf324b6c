// SPDX-License-Identifier: Apache-2.0
/* A history's file as another process left it, read by the command: a good one with words changed, and
 * cut short. An input is three words that are asked for (events, a pool, an address), and then a list of
 * changes, 12 bytes each: where, and the word. Whatever the file has, the command ends, and writes JSON,
 * text, and files of other tools of what holds together. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/host.h"
#include "base/ring_file.h"
#include "events.h"
#include "find.h"
#include "formats.h"
#include "fuzz/fuzz.h"
#include "groups.h"
#include "head.h"
#include "heap/history.h"
#include "history.h"
#include "json.h"
#include "live.h"
#include "owners.h"
#include "symbols.h"
#include "tale.h"
#include "telling.h"
#include "view.h"

enum {
    CHANGE_BYTES = 12,
    ASKED_BYTES = 12,
    PAGES = 3,
    AREA_BYTES = TN_RING_PAGE_BYTES,
    ENTRY_WORDS = TN_HISTORY_ENTRY_BYTES / 8,
    TABLE_BEGIN = (1 + PAGES) * TN_RING_PAGE_BYTES + 2 * AREA_BYTES,
    FILE_BYTES = TABLE_BEGIN + TN_RING_FIRST_PART_BYTES,
    LENGTH_AT = UINT16_MAX, /* a change there cuts the file short */
};

const char *const fuzz_name = "command";

static uint64_t good[FILE_BYTES / 8];
static uint64_t *words; /* the file's, mapped */
static int file = -1;
static char path[] = "/dev/shm/fuzz-command-XXXXXX";
static FILE *nowhere;

static void remove_file(void)
{
    (void)unlink(path);
}

static void write_events(struct tn_ring *ring, struct tn_ring_writer *writer, uint64_t number)
{
    tn_note_put(ring, TN_NOTE_ARENA_BEGUN, 3, TN_OPERANDS(writer->id, 5, 6));
    tn_note_put(ring, TN_NOTE_MAGAZINE_BEGUN, 3, TN_OPERANDS(writer->id + 7, writer->id));
    tn_note_put(ring, TN_NOTE_MAPPED, 3, TN_OPERANDS(1 << 20, 1 << 21, 8));
    writer->base = number;
    tn_ring_put_more(writer, TN_HISTORY_ALLOC, UINT64_C(2) << 26 | 24,
                     (const uint64_t[]){1 << 11, TN_SCROLL_FIRST}, 2);
    tn_ring_put(writer, TN_HISTORY_FREE, number);
    tn_note_put(ring, TN_NOTE_GRAPH_REPLAYED, 3, TN_OPERANDS(1, 5));
    tn_note_put(ring, TN_NOTE_STREAM_USED, 3, TN_OPERANDS(number, 5, 0));
}

/* A stack with a label that is none, and a module with its frames. */
static void write_areas(const struct tn_ring_file *made)
{
    const uint64_t frames[] = {tn_stack_title(TN_STACK_LABEL, TN_SCROLL_FIRST), 0x1234, 0x99999};
    uint64_t module[TN_MODULE_FIXED_WORDS + 3] = {0x1000, 0x2000, 0x1000, 1,
                                                  UINT64_C(8) << 32 | 16};
    struct tn_scroll scroll;

    memcpy(&module[TN_MODULE_FIXED_WORDS], "0123456789abcdef/bin/cat", 24);
    tn_scroll_init(&scroll, tn_ring_file_area(made, 0), AREA_BYTES);
    FUZZ_EXPECT(tn_scroll_add(&scroll, frames, 3) == TN_SCROLL_FIRST);
    tn_scroll_init(&scroll, tn_ring_file_area(made, 1), AREA_BYTES);
    FUZZ_EXPECT(tn_scroll_add(&scroll, module, sizeof module / 8) == TN_SCROLL_FIRST);
}

static void make_good(void)
{
    static const atomic_uint_fast64_t counter;
    const struct tn_ring_plan plan = {
        .page_count = PAGES, .area_bytes = {AREA_BYTES, AREA_BYTES}, .notes = {1 << 20, 0}};
    struct tn_ring_file made;
    struct tn_ring ring;
    struct tn_ring_writer writer;

    FUZZ_EXPECT(tn_ring_file_make(&made, NULL, &plan));
    FUZZ_EXPECT(tn_ring_init(&ring, tn_ring_file_pages(&made), PAGES, &counter));
    FUZZ_EXPECT(tn_ring_file_add_part(&made) != NULL);
    writer = tn_ring_new_writer(&ring);
    write_events(&ring, &writer, 100);
    tn_ring_leave(&writer);
    write_areas(&made);
    tn_ring_drop(&ring);
    atomic_store(&made.head->private_parts, 0);
    memcpy(good, made.head, made.bytes);
    tn_ring_file_remove(&made);
    for (size_t i = 0; i < 4; i++) {
        uint64_t *entry = good + TABLE_BEGIN / 8 + i * ENTRY_WORDS;

        entry[0] = 90 + i;
        entry[1] = (i + 1) << 20;
        entry[2] = 1000;
        entry[3] = 2;
        entry[4] = i % 2 * TN_SCROLL_FIRST;
    }
}

void fuzz_begin(void)
{
    file = mkstemp(path);
    FUZZ_EXPECT(file >= 0 && ftruncate(file, FILE_BYTES) == 0);
    words = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    FUZZ_EXPECT(words != MAP_FAILED && atexit(remove_file) == 0);
    nowhere = fopen("/dev/null", "we");
    FUZZ_EXPECT(nowhere != NULL);
    make_good();
}

static void expect_events(const struct events *events, const struct wanted *wanted)
{
    FUZZ_EXPECT(events->count <= wanted->most && events->count <= events->matching);
    for (size_t i = 1; i < events->count; i++)
        FUZZ_EXPECT(events->all[i].since >= events->all[i - 1].since);
}

static void write_report(struct history *history, struct tn_told *told, const struct owners *owners,
                         const struct events *events)
{
    struct symbols *symbols = symbols_open(history, NULL);
    const struct telling telling = {history, symbols, owners};
    struct json json = {.file = nowhere};
    struct live_groups groups;

    FUZZ_EXPECT(symbols != NULL);
    FUZZ_EXPECT(
        live_group(&groups, told, LIVE_BY_STACK, NULL, head_sample_bytes(history), history));
    FUZZ_EXPECT(groups.total.blocks == told->count);
    json_begin(&json, NULL, '{');
    head_print(history, told, NULL, nowhere);
    head_to_json(history, told, NULL, &json);
    groups_print_stacks(&groups, history, symbols, SIZE_MAX, nowhere);
    groups_stacks_to_json(&groups, history, symbols, SIZE_MAX, &json);
    json_begin(&json, "events", '[');
    for (size_t i = 0; i < events->count; i++) {
        telling_print_event(&telling, &events->all[i], true, nowhere);
        telling_event_to_json(&telling, &events->all[i], &json);
    }
    json_end(&json, ']');
    json_end(&json, '}');
    FUZZ_EXPECT(json.depth == 0);
    live_free(&groups);
    symbols_close(symbols);
}

static void read_all(struct history *history, const struct wanted *wanted)
{
    struct tn_told told;
    struct owners owners;
    struct events events;
    uint64_t count;
    uint64_t broken;

    FUZZ_EXPECT(tn_retell_blocks(&history->source, &told) == TARN_OK);
    FUZZ_EXPECT(owners_read(&owners, history, &count, &broken));
    FUZZ_EXPECT(events_read(&events, history, &owners, wanted, &told));
    FUZZ_EXPECT(events.matching <= count);
    expect_events(&events, wanted);
    write_report(history, &told, &owners, &events);
    events_free(&events);
    owners_free(&owners);
    tn_told_free(&told);
}

/* Behind each change the sums are those of the blocks that are live: nothing is freed that is not. */
static void expect_story(const struct story *story)
{
    uint64_t live = 0;

    for (size_t i = 0; i < story->count; i++) {
        const struct change *change = &story->all[i];

        FUZZ_EXPECT(i == 0 || change->time >= story->all[i - 1].time);
        FUZZ_EXPECT(change->kind != CHANGE_FREE || live > 0);
        if (change->kind == CHANGE_NOTE)
            FUZZ_EXPECT(change->block < story->note_count);
        else
            live += change->kind == CHANGE_FREE ? (uint64_t)-1 : 1;
    }
}

/* A database is not made: SQLite has fuzzers of its own, and would take most of the time. */
static void convert(void)
{
    const struct options options = {.what = path};
    char found[FIND_PATH_BYTES];
    struct tale tale;

    if (tale_open(&tale, &options, found) != ANSWER_FOUND)
        return;
    expect_story(&tale.story);
    FUZZ_EXPECT(format_chrome(&tale, nowhere));
    FUZZ_EXPECT(format_perfetto(&tale, nowhere));
    FUZZ_EXPECT(format_pprof(&tale, nowhere));
    FUZZ_EXPECT(format_pytorch(&tale, nowhere));
    FUZZ_EXPECT(view_write(&tale, SIZE_MAX, nowhere) && view_write(&tale, 4, nowhere));
    tale_close(&tale);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    size_t length = FILE_BYTES;
    uint32_t asked[ASKED_BYTES / 4] = {20, 0, 0};
    struct history history;
    struct wanted wanted;

    if (size >= ASKED_BYTES) {
        memcpy(asked, bytes, ASKED_BYTES);
        bytes += ASKED_BYTES;
        size -= ASKED_BYTES;
    }
    wanted = (struct wanted){.most = asked[0] % 64,
                             .by_pool = (asked[1] & 0xff) != 0,
                             .pool = asked[1] & 0xff,
                             .by_address = asked[2] != 0,
                             .address = asked[2]};
    memcpy(words, good, sizeof good);
    for (; size >= CHANGE_BYTES; size -= CHANGE_BYTES, bytes += CHANGE_BYTES) {
        uint32_t at;
        uint64_t word;

        memcpy(&at, bytes, sizeof at);
        memcpy(&word, bytes + sizeof at, sizeof word);
        /* Mostly where something is: the head, the pages, the areas, the first entries. */
        if ((at & UINT16_MAX) == LENGTH_AT)
            length = word % (FILE_BYTES + 1);
        else
            words[at % (TABLE_BEGIN / 8 + 8 * ENTRY_WORDS)] = word;
    }
    FUZZ_EXPECT(ftruncate(file, (off_t)length) == 0);
    if (history_try(&history, path) == TN_RING_OPENED) {
        read_all(&history, &wanted);
        history_close(&history);
        convert();
    }
    FUZZ_EXPECT(ftruncate(file, FILE_BYTES) == 0);
    return 0;
}
