// SPDX-License-Identifier: Apache-2.0
/* Every allocation in a capture that finds no block of its very size writes a birth. Only an audit
 * reads births, if the program makes an audit. A write therefore appends an entry and looks nothing
 * up.
 *
 * Trade-offs: births stay as long as the hold, 32 bytes each, even if nobody audits the graph. A
 * block that is allocated and freed over and over, with no node between, replaces its own last
 * birth, if few other births lie between. */
#include "heap/births.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"

enum { NEWEST_MOST = 4, ITEMS_MIN = 64 };

/* The births of an arena where memory is lacking even for the record. */
static struct tn_births lost_births = {.lost = true};

static bool is_newest(const struct tn_births *births, const struct tn_place *place)
{
    const uint64_t *words = &births->words[births->place];

    TN_ASSERT(births->count == 0 || births->place < births->word_count);
    if (births->count == 0 || words[0] != (place->known ? place->count : TN_PLACE_UNKNOWN))
        return false;
    for (size_t i = 0; place->known && i < place->count; i++) {
        if (words[1 + i] != (uint64_t)(uintptr_t)place->nodes[i])
            return false;
    }
    return true;
}

static void enter_place(struct tn_births *births, const struct tn_place *place)
{
    size_t count = place->known ? place->count : 0;

    births->place = births->word_count;
    births->words[births->place] = place->known ? count : TN_PLACE_UNKNOWN;
    for (size_t i = 0; i < count; i++)
        births->words[births->place + 1 + i] = (uint64_t)(uintptr_t)place->nodes[i];
    births->word_count += 1 + count;
    TN_ASSERT(births->word_count <= births->word_capacity);
}

/* Takes out one of the last births if it has the same address and the newest place: no node
 * captured since then can mean its block. */
static void forget_same(struct tn_births *births, uint64_t address)
{
    for (size_t i = births->count; i > 0 && births->count - i < NEWEST_MOST; i--) {
        struct tn_birth *item = &births->items[i - 1];

        TN_ASSERT(item->place <= births->place);
        if (item->place != births->place)
            return;
        if (item->address != address)
            continue;
        births->count -= 1;
        memmove(item, item + 1, (births->count - (i - 1)) * sizeof *item);
        return;
    }
}

void tn_births_enter(struct tn_births *births, const struct tn_place *place,
                     const struct tn_birth *birth)
{
    if (births->lost)
        return;
    TN_ASSERT(tn_births_have_room(births) && (!place->known || place->count <= TN_PLACE_MAX));
    if (is_newest(births, place))
        forget_same(births, birth->address);
    else
        enter_place(births, place);
    TN_ASSERT(births->count == 0 ||
              births->items[births->count - 1].sequence < birth->sequence); /* P27 */
    births->items[births->count] = *birth;
    births->items[births->count].place = births->place;
    births->count += 1;
}

/* Doubles the room; false: no memory, or TN_BIRTHS_MAX births. */
static bool grow(struct tn_births *births)
{
    size_t items = tn_max(births->capacity * 2, ITEMS_MIN);
    size_t words = tn_max(births->word_capacity * 2, 2 * ITEMS_MIN);

    return births->count < TN_BIRTHS_MAX &&
           (births->count < births->capacity ||
            tn_host_grow((void **)&births->items, &births->capacity, items,
                         sizeof *births->items)) &&
           (births->word_count + 1 + TN_PLACE_MAX <= births->word_capacity ||
            tn_host_grow((void **)&births->words, &births->word_capacity, words,
                         sizeof *births->words));
}

bool tn_births_provide(struct tn_births **own, struct tn_births **all)
{
    struct tn_births *births = *own;

    if (tn_births_have_room(births))
        return !births->lost;
    if (births == NULL) {
        births = tn_host_alloc(1, sizeof *births);
        *own = births != NULL ? births : &lost_births;
        if (births != NULL) {
            births->next = *all;
            *all = births;
        }
    }
    if (births != NULL && grow(births))
        return true;
    if (births != NULL)
        births->lost = true;
    return false;
}

void tn_births_drop(struct tn_births **all)
{
    while (*all != NULL) {
        struct tn_births *next = (*all)->next;

        tn_host_free((*all)->items);
        tn_host_free((*all)->words);
        tn_host_free(*all);
        *all = next;
    }
}
