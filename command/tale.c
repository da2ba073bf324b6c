// SPDX-License-Identifier: Apache-2.0
#include "tale.h"

#include "find.h"
#include "tarn/status.h"

enum { RANGES = 2 }; /* the area of a ring's file: pools/ranges.h */

static bool read_area(void *context, size_t offset, void *bytes, size_t count)
{
    const struct history *history = context;
    const size_t base =
        history_log_bytes(history) + tn_ring_area_offset(&history->reader.head, RANGES);

    if (offset + count > history->reader.head.area_bytes[RANGES])
        return false; /* a history without ranges */
    return history->source.read(history->source.context, base + offset, bytes, count);
}

static bool read_all(struct tale *tale, const struct options *options)
{
    struct history *history = &tale->history;
    const size_t pages = (size_t)history->reader.head.area_bytes[RANGES] / TN_RING_PAGE_BYTES;
    uint64_t events;
    uint64_t broken;

    tale->symbols = symbols_open(history, options->debug);
    if (tale->symbols == NULL || tn_retell_blocks(&history->source, &tale->told) != TARN_OK ||
        !owners_read(&tale->owners, history, &events, &broken) ||
        !story_read(&tale->story, history, &tale->owners, &tale->told) ||
        tn_retell_ranges(read_area, history, pages, &tale->ranges) != TARN_OK)
        return false;
    tale->begin = tale->story.count > 0 ? tale->story.all[0].time : history->reader.head.began;
    return true;
}

enum answer tale_open(struct tale *tale, const struct options *options, char *path)
{
    const enum answer answer = find_file(options->what, path);

    *tale = (struct tale){.symbols = NULL};
    if (answer != ANSWER_FOUND)
        return answer;
    if (!history_open(&tale->history, path))
        return ANSWER_WRONG;
    if (read_all(tale, options))
        return ANSWER_FOUND;
    tale_close(tale);
    return say(ANSWER_WRONG, "no memory to read %s", path);
}

void tale_close(struct tale *tale)
{
    tn_told_ranges_free(&tale->ranges);
    story_free(&tale->story);
    owners_free(&tale->owners);
    tn_told_free(&tale->told);
    if (tale->symbols != NULL)
        symbols_close(tale->symbols);
    history_close(&tale->history);
}
