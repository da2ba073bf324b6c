// SPDX-License-Identifier: Apache-2.0
/* The page has the changes as columns of numbers, in base64: a browser makes arrays of them at once.
 *
 * Above a number the changes are divided into groups of equal length. Blocks that come and go within one are left
 * out, unless they are live at its peak: the sums are right at the peak of each group, and behind it.
 *
 * Trade-offs: the picture is drawn by the page's own script, without a library; Debian has none that is
 * small and draws areas on top of each other. */
#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "base/title.h"
#include "base64.h"
#include "find.h"
#include "frames.h"
#include "intern.h"
#include "json.h"
#include "notes.h"
#include "out.h"
#include "page.h"
#include "tale.h"

enum { CHANGES = 1 << 20, UNIT_BITS = 9, NOTE_BYTES = 256 };

/* A change of a block, as the page has it; or the sum of several. */
struct shown {
    const struct change *change; /* of a sum: its first one */
    int64_t units;               /* more, or less */
    bool is_sum;
    uint32_t stack; /* places in the lists below */
    uint32_t pool;
    uint32_t capture; /* from 1; 0: none */
    uint32_t other;   /* of an allocation: its free's place */
};

struct view {
    struct tale *tale;
    struct json json;
    struct shown *all;
    size_t count;
    size_t most; /* changes; above, some are left out */
    size_t left_out;
    size_t merged;
    uint32_t
        *stands_for; /* by the note's place: how many notes, itself included; 0: it is left out */
    size_t notes_left_out;
    struct intern stacks; /* numbers */
    struct intern pools;
    struct intern captures;
    struct intern graphs; /* of replays, where there are many notes */
    struct intern labels;
    char *text; /* room for a stack's frames */
};

static const char data_mark[] = "<!--data-->";
static const char script_mark[] = "<!--script-->";

static bool number_of(struct intern *intern, uint64_t key, uint32_t *number)
{
    char text[32];
    int64_t place;

    (void)snprintf(text, sizeof text, "%" PRIu64, key);
    place = intern_add(intern, text, NULL);
    *number = place == INTERN_NONE ? 0 : (uint32_t)place;
    return place != INTERN_NONE;
}

static bool list_change(struct view *view, const struct change *change)
{
    const struct owner *owner = owners_find(&view->tale->owners, change->writer);
    struct shown *shown = &view->all[view->count++];

    *shown = (struct shown){.change = change, .other = UINT32_MAX};
    shown->units = (int64_t)(change->bytes >> UNIT_BITS);
    if (change->kind == CHANGE_FREE)
        shown->units = -shown->units;
    if (!number_of(&view->stacks, change->stack, &shown->stack) ||
        !number_of(&view->pools, change->pool, &shown->pool))
        return false;
    if (owner == NULL || owner->capture == 0 || change->kind != CHANGE_ALLOC)
        return true;
    if (!number_of(&view->captures, owner->capture, &shown->capture))
        return false;
    shown->capture += 1;
    return true;
}

static int compare_blocks(const void *a, const void *b)
{
    const struct shown *left = *(const struct shown *const *)a;
    const struct shown *right = *(const struct shown *const *)b;

    if (left->change->block != right->change->block)
        return left->change->block < right->change->block ? -1 : 1;
    return (left > right) - (left < right);
}

/* Finds the free of each allocation. */
static bool link_changes(struct view *view)
{
    const struct shown **sorted = tn_host_alloc_unset(view->count + 1, sizeof(void *));

    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < view->count; i++)
        sorted[i] = &view->all[i];
    qsort(sorted, view->count, sizeof(void *), compare_blocks);
    for (size_t i = 0; i + 1 < view->count; i++) {
        const size_t at = (size_t)(sorted[i] - view->all);

        if (sorted[i]->change->kind != CHANGE_FREE &&
            sorted[i + 1]->change->block == sorted[i]->change->block)
            view->all[at].other = (uint32_t)(sorted[i + 1] - view->all);
    }
    tn_host_free(sorted);
    return true;
}

/* The change of those from begin to end behind which most bytes are live. */
static size_t find_peak(const struct view *view, size_t begin, size_t end)
{
    int64_t total = 0;
    int64_t highest = INT64_MIN;
    size_t peak = begin;

    TN_ASSERT(begin < end && end <= view->count);
    for (size_t i = begin; i < end; i++) {
        total += view->all[i].units;
        if (total > highest) {
            highest = total;
            peak = i;
        }
    }
    return peak;
}

/* Marks the blocks that come and go within a group, and are not live at its peak. */
static void mark_short(const struct view *view, size_t begin, size_t end, uint32_t *places)
{
    const size_t peak = find_peak(view, begin, end);

    for (size_t i = begin; i < end; i++) {
        const size_t other = view->all[i].other;

        if (other < end && (i > peak || other <= peak))
            places[i] = places[other] = UINT32_MAX;
    }
}

/* Leaves out what is marked; places then count what is left. */
static bool leave_out(struct view *view)
{
    const size_t group = (view->count + view->most - 1) / view->most;
    uint32_t *places = tn_host_alloc_unset(view->count + 1, sizeof *places);
    size_t count = 0;

    if (places == NULL)
        return false;
    memset(places, 0, (view->count + 1) * sizeof *places);
    for (size_t i = 0; group > 1 && i < view->count; i += group)
        mark_short(view, i, i + group < view->count ? i + group : view->count, places);
    for (size_t i = 0; i < view->count; i++) {
        if (places[i] == UINT32_MAX)
            continue;
        places[i] = (uint32_t)count;
        view->all[count++] = view->all[i];
    }
    for (size_t i = 0; i < count; i++)
        view->all[i].other =
            view->all[i].other < view->count ? places[view->all[i].other] : (uint32_t)count;
    view->left_out = view->count - count;
    view->count = count;
    tn_host_free(places);
    return true;
}

/* Adds a change to the sum of its stack and pool, which is one of those from begin to end, or comes
 * behind them. Returns the new end. */
static size_t add_to_sum(struct view *view, size_t begin, size_t end, struct shown shown)
{
    size_t at = begin;

    while (at < end && (!view->all[at].is_sum || view->all[at].stack != shown.stack ||
                        view->all[at].pool != shown.pool))
        at += 1;
    if (at < end) {
        view->all[at].units += shown.units;
        return end;
    }
    shown.is_sum = true;
    view->all[end] = shown;
    return end + 1;
}

/* Of blocks that are gone at the end the page has sums alone, where they are too many for a browser. What is
 * written stands before what is read. */
static void merge_changes(struct view *view)
{
    const size_t most = view->most / 4 + 1;
    const size_t group = (view->count + most - 1) / most;
    size_t made = 0;

    if (view->count <= view->most)
        return;
    for (size_t begin = 0; begin < view->count; begin += group) {
        const size_t end = begin + group < view->count ? begin + group : view->count;
        const size_t sums = made;

        for (size_t i = begin; i < end; i++) {
            if (view->all[i].units > 0 && view->all[i].other >= view->count)
                view->all[made++] = view->all[i];
            else
                made = add_to_sum(view, sums, made, view->all[i]);
        }
        TN_ASSERT(made <= end);
    }
    for (size_t i = 0; i < made; i++)
        view->all[i].other = (uint32_t)made;
    view->merged = view->count - made;
    view->count = made;
}

static bool list_changes(struct view *view)
{
    const struct story *story = &view->tale->story;

    if (story->count >= UINT32_MAX)
        return false;
    view->all = tn_host_alloc_unset(story->count + 1, sizeof *view->all);
    if (view->all == NULL || intern_add(&view->labels, "no label", NULL) == INTERN_NONE)
        return false;
    for (size_t i = 0; i < story->count; i++) {
        if (story->all[i].kind != CHANGE_NOTE && !list_change(view, &story->all[i]))
            return false;
    }
    TN_ASSERT(view->count <= story->count);
    if (!link_changes(view) || !leave_out(view))
        return false;
    merge_changes(view);
    return true;
}

/* Fences are many, and change nothing that the page shows. */
static bool is_shown(enum tn_note note)
{
    return note != TN_NOTE_FENCE_RECORDED && note != TN_NOTE_FENCE_DONE;
}

/* The pictures of memory and of graphs are made of these. */
static bool is_drawn(enum tn_note note)
{
    return note == TN_NOTE_SEGMENT_RESERVED || note == TN_NOTE_SEGMENT_DROPPED ||
           note == TN_NOTE_MAPPED || note == TN_NOTE_MOVED || note == TN_NOTE_UNMAPPED ||
           note == TN_NOTE_GRAPH_MADE || note == TN_NOTE_GRAPH_DESTROYED;
}

static size_t count_notes(const struct story *story)
{
    size_t count = 0;

    for (size_t i = 0; i < story->note_count; i++)
        count += is_shown(story->notes[i].note);
    return count;
}

/* A graph's last replay stands for all. Replays come from the last one on. *lasts: by the graph's
 * number. */
static bool add_replay(struct view *view, size_t place, void **lasts, size_t *capacity)
{
    const size_t known = view->graphs.count;
    const struct tn_note_words *note = &view->tale->story.notes[place];
    uint32_t number;

    if (!number_of(&view->graphs, note->operands[0], &number) ||
        !tn_host_grow(lasts, capacity, view->graphs.count, sizeof place))
        return false;
    TN_ASSERT(number <= known);
    if (number == known)
        ((size_t *)*lasts)[number] = place;
    else
        view->notes_left_out += 1;
    view->stands_for[((size_t *)*lasts)[number]] += 1;
    return true;
}

/* Above the most, the page has the newest of those that draw nothing, and counts replays. */
static bool choose_notes(struct view *view)
{
    const struct story *story = &view->tale->story;
    const bool all = count_notes(story) <= view->most;
    size_t room = view->most;
    void *lasts = NULL;
    size_t capacity = 0;
    bool done;

    view->stands_for = tn_host_alloc(story->note_count + 1, sizeof *view->stands_for);
    done = view->stands_for != NULL;
    for (size_t i = story->count; i > 0 && done; i--) {
        const size_t place = (size_t)story->all[i - 1].block;

        if (story->all[i - 1].kind != CHANGE_NOTE || !is_shown(story->notes[place].note))
            continue;
        if (all || is_drawn(story->notes[place].note)) {
            view->stands_for[place] = 1;
        } else if (story->notes[place].note == TN_NOTE_GRAPH_REPLAYED) {
            done = add_replay(view, place, &lasts, &capacity);
        } else {
            view->stands_for[place] = room > 0;
            view->notes_left_out += room == 0;
            room -= room > 0;
        }
    }
    tn_host_free(lasts);
    return done;
}

static void write_about(struct view *view)
{
    const struct history *history = &view->tale->history;
    struct json *json = &view->json;

    json_begin(json, "about", '{');
    json_text(json, "program", history->program);
    json_number(json, "process", history->reader.head.process);
    json_number(json, "begun_ms", view->tale->begin / 1000000);
    json_number(json, "lost_pages", view->tale->told.lost_pages);
    json_number(json, "left_out", view->left_out);
    json_number(json, "merged", view->merged);
    json_number(json, "notes_left_out", view->notes_left_out);
    json_end(json, '}');
}

/* The number of the label of a stack; *none: no memory. */
static uint64_t label_of(struct view *view, uint64_t stack, bool *none)
{
    struct history *history = &view->tale->history;
    struct tn_title_text title;
    struct tn_stack frames;
    int64_t number;

    if (stack > UINT32_MAX ||
        tn_stacks_read(&history->stacks, (uint32_t)stack, &frames) != TN_SCROLL_READ ||
        frames.count == 0 || (frames.frames[0] & TN_STACK_TITLE) == 0 ||
        tn_stack_title_of(frames.frames[0], TN_STACK_LABEL) == 0 ||
        tn_title_read(&history->stacks, (uint32_t)frames.frames[0], &title) != TN_SCROLL_READ)
        return 0;
    number = intern_add(&view->labels, title.text, NULL);
    *none = *none || number == INTERN_NONE;
    return number == INTERN_NONE ? 0 : (uint64_t)number;
}

/* Each line of the frames' text is an item. */
static void write_frames(struct view *view, uint64_t stack)
{
    FILE *file = fmemopen(view->text, FRAMES_KEY_BYTES, "w");

    view->text[0] = '\0';
    if (file == NULL)
        return;
    frames_print(&view->tale->history, view->tale->symbols, stack, file, 0);
    (void)fclose(file);
    view->text[FRAMES_KEY_BYTES - 1] = '\0';
    for (char *line = view->text, *end; *line != '\0'; line = end) {
        end = strchrnul(line, '\n');
        if (*end == '\n')
            *end++ = '\0';
        json_text(&view->json, NULL, line);
    }
}

static bool write_stacks(struct view *view)
{
    struct json *json = &view->json;
    bool none = false;

    json_begin(json, "stacks", '[');
    for (size_t i = 0; i < view->stacks.count; i++) {
        const uint64_t stack = strtoull(view->stacks.all[i], NULL, 10);

        json_begin(json, NULL, '{');
        json_number(json, "label", label_of(view, stack, &none));
        json_begin(json, "frames", '[');
        write_frames(view, stack);
        json_end(json, ']');
        json_end(json, '}');
    }
    json_end(json, ']');
    return !none;
}

static void write_numbers(struct view *view, const char *key, const struct intern *numbers)
{
    json_begin(&view->json, key, '[');
    for (size_t i = 0; i < numbers->count; i++)
        json_raw(&view->json, NULL, numbers->all[i]);
    json_end(&view->json, ']');
}

static void write_labels(struct view *view)
{
    json_begin(&view->json, "labels", '[');
    for (size_t i = 0; i < view->labels.count; i++)
        json_text(&view->json, NULL, view->labels.all[i]);
    json_end(&view->json, ']');
}

static void write_note(struct view *view, const struct change *change)
{
    const struct tn_note_words *note = &view->tale->story.notes[change->block];
    struct json *json = &view->json;
    char text[NOTE_BYTES] = "";
    FILE *file = fmemopen(text, sizeof text, "w");

    if (file != NULL) {
        note_print(note, file);
        (void)fclose(file);
    }
    text[sizeof text - 1] = '\0';
    json_begin(json, NULL, '{');
    json_number(json, "time", change->time - view->tale->begin);
    json_text(json, "kind", note_name(note->note));
    json_number(json, "pool", note->pool);
    json_text(json, "text", text[0] == ',' ? text + 2 : text);
    if (view->stands_for[change->block] > 1)
        json_number(json, "replays", view->stands_for[change->block]);
    for (size_t i = 0; i < tn_note_operand_count(note->note); i++)
        json_number(json, note_operand(note->note, i), note->operands[i]);
    json_end(json, '}');
}

static void write_notes(struct view *view)
{
    const struct story *story = &view->tale->story;

    json_begin(&view->json, "notes", '[');
    for (size_t i = 0; i < story->count; i++) {
        const struct change *change = &story->all[i];

        if (change->kind == CHANGE_NOTE && view->stands_for[change->block] > 0)
            write_note(view, change);
    }
    json_end(&view->json, ']');
}

enum column { TIME, UNITS, STACK, POOL, BLOCK, ADDRESS, CAPTURED, OTHER, COLUMNS };

static const char *const column_names[COLUMNS] = {"time",  "units",   "stack",    "pool",
                                                  "block", "address", "captured", "other"};

static void put_double(struct base64 *base64, uint64_t value, FILE *file)
{
    const double number = (double)value;

    base64_put(base64, &number, sizeof number, file);
}

/* Numbers are the machine's own, which are those of browsers: the lowest byte first. */
static void put_value(struct view *view, const struct shown *shown, enum column column,
                      struct base64 *base64)
{
    const struct change *change = shown->change;
    const int64_t most = INT32_MAX;
    const int32_t units = (int32_t)(shown->units > most    ? most
                                    : shown->units < -most ? -most
                                                           : shown->units);
    const uint16_t capture = shown->capture <= UINT16_MAX ? (uint16_t)shown->capture : 0;
    FILE *file = view->json.file;

    switch (column) {
    case TIME:
        put_double(base64, change->time - view->tale->begin, file);
        break;
    case UNITS:
        base64_put(base64, &units, sizeof units, file);
        break;
    case STACK:
        base64_put(base64, &shown->stack, sizeof shown->stack, file);
        break;
    case POOL:
        base64_put(base64, &shown->pool, sizeof shown->pool, file);
        break;
    case BLOCK:
        put_double(base64, shown->is_sum ? 0 : change->block, file);
        break;
    case ADDRESS:
        put_double(base64, shown->is_sum ? 0 : change->address, file);
        break;
    case CAPTURED:
        base64_put(base64, &capture, sizeof capture, file);
        break;
    default:
        base64_put(base64, &shown->other, sizeof shown->other, file);
        break;
    }
}

static void write_columns(struct view *view)
{
    json_begin(&view->json, "columns", '{');
    for (int column = TIME; column < COLUMNS; column++) {
        struct base64 base64 = {.count = 0};

        json_raw(&view->json, column_names[column], "\"");
        for (size_t i = 0; i < view->count; i++)
            put_value(view, &view->all[i], (enum column)column, &base64);
        base64_end(&base64, view->json.file);
        (void)fputc('"', view->json.file);
    }
    json_end(&view->json, '}');
}

static bool write_data(struct view *view)
{
    bool done;

    json_begin(&view->json, NULL, '{');
    write_about(view);
    done = write_stacks(view);
    write_numbers(view, "pools", &view->pools);
    write_numbers(view, "captures", &view->captures);
    write_labels(view);
    write_notes(view);
    write_columns(view);
    json_end(&view->json, '}');
    return done;
}

/* The page, with data and script in the places of their marks. */
static bool write_page(struct view *view)
{
    FILE *file = view->json.file;
    const char *data = strstr(page_html, data_mark);
    const char *script = strstr(page_html, script_mark);
    bool done;

    TN_ASSERT(data != NULL && script != NULL && data < script);
    (void)fwrite(page_html, 1, (size_t)(data - page_html), file);
    done = write_data(view);
    data += sizeof data_mark - 1;
    (void)fwrite(data, 1, (size_t)(script - data), file);
    (void)fputs(page_script, file);
    (void)fputs(script + sizeof script_mark - 1, file);
    return done;
}

bool view_write(struct tale *tale, size_t most, FILE *file)
{
    struct view view = {.tale = tale, .json = {.file = file, .packed_depth = 2, .is_html = true}};
    bool done;

    view.most = tn_max(most, 1);
    view.text = tn_host_alloc(FRAMES_KEY_BYTES, 1);
    done = view.text != NULL && list_changes(&view) && choose_notes(&view) && write_page(&view);
    tn_host_free(view.text);
    tn_host_free(view.all);
    tn_host_free(view.stands_for);
    intern_free(&view.graphs);
    intern_free(&view.stacks);
    intern_free(&view.pools);
    intern_free(&view.captures);
    intern_free(&view.labels);
    return done;
}

enum answer view_run(const struct options *options)
{
    char path[FIND_PATH_BYTES];
    struct tale tale;
    struct out out;
    enum answer answer = tale_open(&tale, options, path);

    if (answer != ANSWER_FOUND)
        return answer;
    if (!out_open(&out, options->out)) {
        answer = ANSWER_WRONG;
    } else if (!view_write(&tale, options->has_events ? options->events : CHANGES, out.file)) {
        out_abandon(&out);
        answer = say(ANSWER_WRONG, "no memory to show %s", path);
    } else if (!out_close(&out)) {
        answer = ANSWER_WRONG;
    } else if (tale.story.count == 0) {
        answer = ANSWER_NOTHING;
    }
    tale_close(&tale);
    return answer;
}
