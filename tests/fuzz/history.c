// SPDX-License-Identifier: Apache-2.0
/* A history's file as another process left it: a good one, with words changed, and cut short. An input
 * is a list of changes, 12 bytes each: what is changed, which, where, and the word. Whatever the file
 * has, its readers end, and what they tell is in order and holds together. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/host.h"
#include "base/ring_file.h"
#include "fuzz/fuzz.h"
#include "heap/history.h"
#include "observe/retell.h"
#include "observe/titles.h"
#include "observe/told_ranges.h"
#include "pools/ranges.h"
#include "pools/stacking.h"

enum {
    CHANGE_BYTES = 12,
    PAGES = 3,
    PAGE_WORDS = TN_RING_PAGE_BYTES / 8,
    ENTRIES = 8,
    ENTRY_WORDS = TN_HISTORY_ENTRY_BYTES / 8,
    SCROLL_BYTES = TN_RING_PAGE_BYTES, /* of stacks and titles */
    RANGE_PAGES = 2,
    AREA_BYTES = SCROLL_BYTES + RANGE_PAGES * TN_RING_PAGE_BYTES,
    AREAS_AT = (PAGES + 1) * TN_RING_PAGE_BYTES,
    FILE_BYTES = AREAS_AT + AREA_BYTES + TN_RING_FIRST_PART_BYTES,
};

/* What a change changes. */
enum { IN_HEAD, IN_PAGE_HEAD, IN_PAGE, IN_ENTRY, EVENT, LENGTH, HOW, IN_AREAS, CHANGES };

const char *const fuzz_name = "history";

static uint64_t good[FILE_BYTES / 8];
static uint64_t *words; /* the file's, mapped */
static int file = -1;
static char path[] = "/dev/shm/fuzz-history-XXXXXX";

static void remove_file(void)
{
    (void)unlink(path);
}

static uint64_t *entry_of(uint64_t *all, size_t entry)
{
    return all + (AREAS_AT + AREA_BYTES) / 8 + entry * ENTRY_WORDS;
}

static void write_events(struct tn_ring_writer *writer, uint64_t number)
{
    const uint64_t old[] = {tn_ring_first(TN_HISTORY_ALLOC, 1, UINT64_C(2) << 26 | 24), 7};

    writer->base = number;
    tn_ring_put_two(writer, TN_HISTORY_ALLOC, UINT64_C(2) << 26 | 24, 1 << 20);
    tn_ring_put(writer, TN_HISTORY_AGAIN, number);
    tn_ring_put(writer, TN_HISTORY_FREE, number + 1);
    tn_ring_put_more(writer, TN_HISTORY_FREE, 3, old, 2);
    tn_ring_put(writer, TN_HISTORY_NUMBER, number + 9);
    tn_ring_put_two(writer, TN_HISTORY_ALLOC, UINT64_C(9) << 26, 2 << 20);
    tn_ring_put(writer, TN_HISTORY_NUMBER, 3);
    tn_ring_put_two(writer, TN_HISTORY_RESTORED, UINT64_C(2) << 26 | 24, 7);
    tn_ring_put_more(writer, TN_HISTORY_NOTE, TN_NOTE_ANNOTATED,
                     (const uint64_t[]){3, 1 << 20, TN_SCROLL_FIRST}, 3);
}

/* A title, which an annotation names, the stack of a labelled allocation, and a frame's name. */
static void write_stacks(void *memory)
{
    struct tn_stacks stacks;
    struct tn_stack stack = {.count = 2, .frames = {0, 0x1234}};
    struct tn_title title;
    bool is_new;

    FUZZ_EXPECT(tn_stacks_init(&stacks, memory, SCROLL_BYTES));
    FUZZ_EXPECT(tn_title_make(&title, "a label") == TN_TITLE_GOOD);
    stack.frames[0] = tn_stack_title(TN_STACK_LABEL, tn_title_enter(&stacks, &title));
    (void)tn_stacks_enter(&stacks, &stack, &is_new);
    tn_title_make_frame(&title, 77, "file.py:12 forward");
    (void)tn_title_enter(&stacks, &title);
    tn_stacks_drop(&stacks);
}

static void make_good(void)
{
    static const atomic_uint_fast64_t counter;
    struct tn_ring_file made;
    struct tn_ring ring;
    struct tn_ring_writer writers[2];
    struct tn_ranges ranges;

    FUZZ_EXPECT(tn_ring_file_make(
        &made, NULL,
        &(struct tn_ring_plan){.page_count = PAGES,
                               .area_bytes = {[TN_STACKING_STACKS] = SCROLL_BYTES,
                                              [TN_RANGES] = RANGE_PAGES * TN_RING_PAGE_BYTES}}));
    FUZZ_EXPECT(tn_ring_init(&ring, tn_ring_file_pages(&made), PAGES, &counter));
    FUZZ_EXPECT(tn_ring_file_add_part(&made) != NULL);
    FUZZ_EXPECT(tn_ranges_init(&ranges, &made));
    FUZZ_EXPECT(tn_range_end(&ranges, tn_range_begin(&ranges, TN_SCROLL_FIRST)));
    tn_ranges_fini(&ranges);
    write_stacks(tn_ring_file_area(&made, TN_STACKING_STACKS));
    for (size_t i = 0; i < 2; i++) {
        writers[i] = tn_ring_new_writer(&ring);
        write_events(&writers[i], 100 * (i + 1));
        tn_ring_leave(&writers[i]);
    }
    tn_ring_drop(&ring);
    atomic_store(&made.head->private_parts, 0);
    memcpy(good, made.head, made.bytes);
    tn_ring_file_remove(&made);
    for (size_t i = 0; i < ENTRIES; i++) {
        uint64_t *entry = entry_of(good, i);

        entry[0] = i == 0 ? 3 : 100 * i + 9;
        entry[1] = (i + 1) << 20;
        entry[2] = 1000;
        entry[3] = 2;
        entry[4] = TN_SCROLL_FIRST + 3; /* the stack behind the title */
        entry[5] = entry[0];
        entry[6] = TN_SCROLL_FIRST;
    }
}

void fuzz_begin(void)
{
    file = mkstemp(path);
    FUZZ_EXPECT(file >= 0 && ftruncate(file, FILE_BYTES) == 0);
    words = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    FUZZ_EXPECT(words != MAP_FAILED && atexit(remove_file) == 0);
    make_good();
}

struct run {
    size_t bytes; /* of the file */
    bool by_file; /* else by memory, which is faster */
};

static void change(struct run *run, const uint8_t *bytes)
{
    uint16_t at;
    uint64_t word;
    uint64_t *page = words + (size_t)(1 + bytes[1] % PAGES) * PAGE_WORDS;

    memcpy(&at, bytes + 2, sizeof at);
    memcpy(&word, bytes + 4, sizeof word);
    switch (bytes[0] % CHANGES) {
    case IN_HEAD:
        words[at % 8] = word;
        break;
    case IN_PAGE_HEAD:
        page[at % 8] = word;
        break;
    case IN_PAGE:
        page[8 + at % TN_RING_WORDS] = word;
        break;
    case IN_ENTRY:
        entry_of(words, bytes[1])[at % ENTRY_WORDS] = word;
        break;
    case EVENT: /* behind the page's last */
        if (page[1] < TN_RING_WORDS) {
            page[8 + page[1]] = word;
            page[1] += 1;
        }
        break;
    case LENGTH:
        run->bytes = ((size_t)bytes[1] << 16 | at) % (FILE_BYTES + 1);
        break;
    case HOW:
        run->by_file = true;
        break;
    default:
        words[AREAS_AT / 8 + at % (AREA_BYTES / 8)] = word;
        break;
    }
}

/* A source: the words, as far as the file goes; the context is a struct run. */
static bool from_words(void *context, size_t offset, void *bytes, size_t count)
{
    const struct run *run = context;

    offset += TN_RING_PAGE_BYTES;
    FUZZ_EXPECT(offset % 8 == 0 && count % 8 == 0);
    if (offset + count > run->bytes)
        return false;
    memcpy(bytes, words + offset / 8, count);
    return true;
}

static void expect_page(const struct tn_told_source *source, size_t page)
{
    struct tn_ring_copy copy;
    size_t at = 0;

    if (tn_ring_read(source->read, source->context, page, &copy) != TN_RING_READ)
        return;
    FUZZ_EXPECT(copy.serial != 0 && copy.word_count <= TN_RING_WORDS);
    while (at < copy.word_count) {
        FUZZ_EXPECT(tn_ring_kind(copy.words[at]) != 0);
        at += tn_ring_words(copy.words[at]);
    }
    FUZZ_EXPECT(at == copy.word_count);
}

static void expect_good(const struct tn_told_source *source, const struct tn_told *told)
{
    FUZZ_EXPECT(told->event_count <= 2 * source->page_count * TN_RING_WORDS);
    for (size_t i = 0; i < told->count; i++) {
        const struct tn_told_block *block = &told->blocks[i];

        FUZZ_EXPECT(block->bytes > 0 && block->requested <= block->bytes);
        FUZZ_EXPECT(i == 0 || block->sequence > block[-1].sequence);
    }
    for (size_t i = 0; i < told->event_count; i++) {
        const struct tn_told_event *event = &told->events[i];

        FUZZ_EXPECT(event->at < TN_RING_WORDS && event->block.requested <= event->block.bytes);
        FUZZ_EXPECT(event->kind == TN_HISTORY_NOTE ||
                    (event->kind >= TN_HISTORY_ALLOC && event->kind <= TN_HISTORY_RESTORED));
        FUZZ_EXPECT(event->kind == TN_HISTORY_FREE || event->kind == TN_HISTORY_NOTE ||
                    event->block.bytes > 0);
        FUZZ_EXPECT(i == 0 || event->writer >= event[-1].writer);
    }
    FUZZ_EXPECT(told->broken_pages <= source->page_count);
    FUZZ_EXPECT(told->unread_parts <= source->part_count);
}

/* Nobody writes: the end of all writers tells the same again. */
static void expect_same(const struct tn_told_source *source, const struct tn_told *told)
{
    struct tn_told again;

    FUZZ_EXPECT(tn_retell(source, &told->cut, &again) == TARN_OK);
    FUZZ_EXPECT(again.count == told->count && again.event_count == told->event_count);
    FUZZ_EXPECT(again.lost_blocks == told->lost_blocks);
    if (again.count > 0)
        FUZZ_EXPECT(memcmp(again.blocks, told->blocks, again.count * sizeof *again.blocks) == 0);
    tn_told_free(&again);
}

/* A visit: counts, and believes nothing that expect_good does not. */
static bool count_event(void *context, const struct tn_told_event *event)
{
    FUZZ_EXPECT(event->at < TN_RING_WORDS && event->block.requested <= event->block.bytes);
    *(size_t *)context += 1;
    return true;
}

/* A walk shows the same events one by one, and the blocks are the same without them. */
static void expect_apart(const struct tn_told_source *source, const struct tn_told *told)
{
    struct tn_told alone;
    size_t count = 0;
    uint64_t broken;

    FUZZ_EXPECT(tn_told_walk(source, count_event, &count, &broken));
    FUZZ_EXPECT(count == told->event_count && broken == told->broken_pages);
    FUZZ_EXPECT(tn_retell_blocks(source, &alone) == TARN_OK);
    FUZZ_EXPECT(alone.events == NULL && alone.event_count == 0);
    FUZZ_EXPECT(alone.broken_pages == told->broken_pages);
    FUZZ_EXPECT(alone.count <= told->count + told->lost_blocks);
    expect_good(source, &alone);
    tn_told_free(&alone);
}

/* Where an area is, for a source of its own. */
struct area {
    const struct tn_told_source *source;
    size_t offset;
};

static bool from_area(void *context, size_t offset, void *bytes, size_t count)
{
    const struct area *area = context;

    return area->source->read(area->source->context, area->offset + offset, bytes, count);
}

/* Texts of whatever the blocks name are whole, and ranges end. */
static void expect_texts(const struct tn_told_source *source, const struct tn_told *told)
{
    const size_t pages = source->page_count * TN_RING_PAGE_BYTES;
    struct area stacks = {source, pages};
    struct area range_pages = {source, pages + SCROLL_BYTES};
    struct tn_titles titles =
        tn_titles_new(&(struct tn_scroll_reader){from_area, &stacks, SCROLL_BYTES});
    struct tn_told_ranges ranges;
    struct tn_title title;

    for (size_t i = 0; i < told->count; i++) {
        FUZZ_EXPECT(tn_title_make(&title, tn_titles_label(&titles, told->blocks[i].stack)) ==
                    TN_TITLE_GOOD);
        for (size_t at = 0; at < TN_HISTORY_ANNOTATIONS; at++)
            FUZZ_EXPECT(
                tn_title_make(&title, tn_titles_text(&titles, told->blocks[i].annotations[at])) ==
                TN_TITLE_GOOD);
    }
    FUZZ_EXPECT(tn_retell_ranges(from_area, &range_pages, RANGE_PAGES, &ranges) == TARN_OK);
    FUZZ_EXPECT(ranges.count <= RANGE_PAGES * TN_RING_WORDS / 2);
    for (size_t i = 0; i < ranges.count; i++)
        FUZZ_EXPECT(tn_title_make(&title, tn_titles_text(&titles, ranges.all[i].title)) ==
                    TN_TITLE_GOOD);
    FUZZ_EXPECT(!titles.short_of_memory);
    tn_told_ranges_free(&ranges);
    tn_titles_free(&titles);
}

static void read_all(const struct tn_told_source *source)
{
    const struct tn_told_cuts none = {.count = 0};
    struct tn_told told;

    for (size_t page = 0; page < source->page_count; page++)
        expect_page(source, page);
    FUZZ_EXPECT(tn_retell(source, NULL, &told) == TARN_OK);
    expect_good(source, &told);
    expect_same(source, &told);
    expect_apart(source, &told);
    if (source->area_bytes == AREA_BYTES)
        expect_texts(source, &told);
    tn_told_free(&told);
    FUZZ_EXPECT(tn_retell(source, &none, &told) == TARN_OK);
    expect_good(source, &told);
    tn_told_free(&told);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct run run = {.bytes = FILE_BYTES};
    struct tn_ring_reader reader;

    memcpy(words, good, sizeof good);
    for (; size >= CHANGE_BYTES; size -= CHANGE_BYTES, bytes += CHANGE_BYTES)
        change(&run, bytes);
    FUZZ_EXPECT(ftruncate(file, (off_t)run.bytes) == 0);
    if (tn_ring_reader_open(&reader, path) == TN_RING_OPENED) {
        struct tn_told_source source = {.read = run.by_file ? tn_ring_from_file : from_words,
                                        .context = run.by_file ? (void *)&reader : (void *)&run,
                                        .page_count = (size_t)reader.head.page_count,
                                        .area_bytes =
                                            tn_ring_area_offset(&reader.head, TN_RING_AREAS),
                                        .part_count = tn_ring_reader_parts(&reader)};

        FUZZ_EXPECT((source.page_count + 1) * TN_RING_PAGE_BYTES <= run.bytes);
        FUZZ_EXPECT(source.page_count > 0 && source.part_count <= TN_RING_PARTS);
        (void)tn_ring_reader_is_alive(&reader);
        read_all(&source);
        FUZZ_EXPECT(close(reader.fd) == 0);
    }
    FUZZ_EXPECT(ftruncate(file, FILE_BYTES) == 0);
    return 0;
}
