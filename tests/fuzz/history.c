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

enum {
    CHANGE_BYTES = 12,
    PAGES = 3,
    PAGE_WORDS = TN_RING_PAGE_BYTES / 8,
    ENTRIES = 8,
    ENTRY_WORDS = TN_HISTORY_ENTRY_BYTES / 8,
    FILE_BYTES = (PAGES + 1) * TN_RING_PAGE_BYTES + TN_RING_FIRST_PART_BYTES,
};

/* What a change changes. */
enum { IN_HEAD, IN_PAGE_HEAD, IN_PAGE, IN_ENTRY, EVENT, LENGTH, HOW, CHANGES };

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
    return all + (PAGES + 1) * PAGE_WORDS + entry * ENTRY_WORDS;
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
}

static void make_good(void)
{
    static const atomic_uint_fast64_t counter;
    struct tn_ring_file made;
    struct tn_ring ring;
    struct tn_ring_writer writers[2];

    FUZZ_EXPECT(tn_ring_file_make(&made, NULL, &(struct tn_ring_plan){.page_count = PAGES}));
    FUZZ_EXPECT(tn_ring_init(&ring, tn_ring_file_pages(&made), PAGES, &counter));
    FUZZ_EXPECT(tn_ring_file_add_part(&made) != NULL);
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
        entry_of(words, bytes[1])[at % 4] = word;
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
    default:
        run->by_file = true;
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
        FUZZ_EXPECT(event->kind >= TN_HISTORY_ALLOC && event->kind <= TN_HISTORY_RESTORED);
        FUZZ_EXPECT(event->kind == TN_HISTORY_FREE || event->block.bytes > 0);
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
