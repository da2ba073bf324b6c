// SPDX-License-Identifier: Apache-2.0
/* Titles and stacks are records of one scroll, with different ids: a table with open addressing has
 * copies of both. The copy of a stack is the text of its label. */
#include "observe/titles.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"

enum { PLACES_MIN = 64 };

struct tn_title_copy {
    uint64_t id;
    char text[]; /* ends with 0 */
};

struct tn_titles tn_titles_new(const struct tn_scroll_reader *reader)
{
    return (struct tn_titles){.reader = *reader};
}

void tn_titles_free(struct tn_titles *titles)
{
    for (size_t i = 0; i < titles->place_count; i++)
        tn_host_free(titles->places[i]);
    tn_host_free(titles->places);
    *titles = (struct tn_titles){.places = NULL};
}

/* The place of the id's copy. The table has a free place. */
static struct tn_title_copy **place_of(struct tn_title_copy **places, size_t count, uint64_t id)
{
    size_t at = (size_t)(id * TN_GOLDEN >> 32) & (count - 1);

    TN_ASSERT(tn_is_power_of_two(count));
    while (places[at] != NULL && places[at]->id != id)
        at = (at + 1) & (count - 1);
    return &places[at];
}

/* Makes room for another copy. False: no memory. */
static bool make_room(struct tn_titles *titles)
{
    const size_t count = tn_max(2 * titles->place_count, PLACES_MIN);
    struct tn_title_copy **places;

    if (2 * (titles->count + 1) <= titles->place_count)
        return true;
    places = tn_host_alloc(count, sizeof(struct tn_title_copy *));
    if (places == NULL)
        return false;
    for (size_t i = 0; i < titles->place_count; i++) {
        if (titles->places[i] != NULL)
            *place_of(places, count, titles->places[i]->id) = titles->places[i];
    }
    tn_host_free(titles->places);
    titles->places = places;
    titles->place_count = count;
    return true;
}

static const char *find(const struct tn_titles *titles, uint64_t id)
{
    struct tn_title_copy *copy = NULL;

    if (titles->place_count > 0)
        copy = *place_of(titles->places, titles->place_count, id);
    return copy != NULL ? copy->text : NULL;
}

static const char *keep(struct tn_titles *titles, uint64_t id, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    struct tn_title_copy *copy = NULL;

    if (make_room(titles))
        copy = tn_host_alloc(1, sizeof *copy + bytes);
    if (copy == NULL) {
        titles->short_of_memory = true;
        return "";
    }
    copy->id = id;
    memcpy(copy->text, text, bytes);
    *place_of(titles->places, titles->place_count, id) = copy;
    titles->count += 1;
    return copy->text;
}

const char *tn_titles_text(struct tn_titles *titles, uint64_t id)
{
    struct tn_title_text read;
    const char *known;

    if (id == 0 || id > UINT32_MAX)
        return "";
    known = find(titles, id);
    if (known != NULL)
        return known;
    if (tn_title_read(&titles->reader, (uint32_t)id, &read) != TN_SCROLL_READ)
        read.text[0] = '\0';
    return keep(titles, id, read.text);
}

const char *tn_titles_label(struct tn_titles *titles, uint64_t stack)
{
    struct tn_stack read;
    const char *known;
    uint64_t title = 0;

    if (stack <= TN_STACKS_FULL || stack > UINT32_MAX)
        return "";
    known = find(titles, stack);
    if (known != NULL)
        return known;
    if (tn_stacks_read(&titles->reader, (uint32_t)stack, &read) == TN_SCROLL_READ && read.count > 0)
        title = tn_stack_title_of(read.frames[0], TN_STACK_LABEL);
    return keep(titles, stack, tn_titles_text(titles, title));
}
