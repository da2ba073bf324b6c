// SPDX-License-Identifier: Apache-2.0
/* Chains are singly linked: a table doubles before chains grow long. The lists are doubly linked. */
#include "claims/stream_table.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"

enum { STREAMS_PER_CHAIN = 2 };

static size_t count_chains(const struct tn_stream_table *table)
{
    return table->chains != NULL ? table->chain_count : TN_STREAM_CHAINS_MIN;
}

static struct tn_known_stream *const *chain_of(const struct tn_stream_table *table, uint64_t id)
{
    size_t at = (size_t)((id * TN_GOLDEN) >> 32) & (count_chains(table) - 1);

    return table->chains != NULL ? &table->chains[at] : &table->few[at];
}

static struct tn_known_stream **chain_for(struct tn_stream_table *table, uint64_t id)
{
    return (struct tn_known_stream **)chain_of(table, id);
}

struct tn_known_stream *tn_stream_table_find(const struct tn_stream_table *table, uint64_t id)
{
    struct tn_known_stream *stream = *chain_of(table, id);

    while (stream != NULL && stream->id != id)
        stream = stream->chain_next;
    TN_ASSERT(stream == NULL || !stream->retired);
    return stream;
}

static void enter_chain(struct tn_stream_table *table, struct tn_known_stream *stream)
{
    struct tn_known_stream **chain = chain_for(table, stream->id);

    TN_ASSERT(!stream->retired);
    stream->chain_next = *chain;
    *chain = stream;
}

static void grow(struct tn_stream_table *table)
{
    size_t count = 2 * count_chains(table);
    struct tn_known_stream **made = tn_host_alloc(count, sizeof made[0]);

    if (made == NULL)
        return;
    tn_host_free(table->chains);
    table->chains = made;
    table->chain_count = count;
    for (struct tn_known_stream *stream = table->known; stream != NULL; stream = stream->next) {
        if (!stream->retired)
            enter_chain(table, stream);
    }
}

void tn_stream_table_enter(struct tn_stream_table *table, struct tn_known_stream *stream,
                           uint64_t count)
{
    TN_ASSERT(tn_stream_table_find(table, stream->id) == NULL);
    stream->previous = NULL;
    stream->next = table->known;
    if (stream->next != NULL)
        stream->next->previous = stream;
    table->known = stream;
    enter_chain(table, stream);
    if (count > STREAMS_PER_CHAIN * count_chains(table))
        grow(table);
}

void tn_stream_table_retire(struct tn_stream_table *table, struct tn_known_stream *stream)
{
    struct tn_known_stream **link = chain_for(table, stream->id);

    TN_ASSERT(!stream->retired);
    while (*link != stream)
        link = &(*link)->chain_next;
    *link = stream->chain_next;
}

void tn_stream_table_leave(struct tn_stream_table *table, struct tn_known_stream *stream)
{
    stream->first = NULL; /* the fence of a retirement goes with the stream */
    tn_stream_table_note_waiting(table, stream);
    if (!stream->retired)
        tn_stream_table_retire(table, stream);
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        table->known = stream->next;
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
}

void tn_stream_table_note_waiting(struct tn_stream_table *table, struct tn_known_stream *stream)
{
    bool waits = stream->first != NULL;

    if (waits == stream->waits)
        return;
    stream->waits = waits;
    if (waits) {
        stream->waiting_previous = NULL;
        stream->waiting_next = table->waiting;
        if (stream->waiting_next != NULL)
            stream->waiting_next->waiting_previous = stream;
        table->waiting = stream;
        return;
    }
    if (stream->waiting_previous != NULL)
        stream->waiting_previous->waiting_next = stream->waiting_next;
    else
        table->waiting = stream->waiting_next;
    if (stream->waiting_next != NULL)
        stream->waiting_next->waiting_previous = stream->waiting_previous;
}

void tn_stream_table_fini(struct tn_stream_table *table)
{
    TN_ASSERT(table->known == NULL && table->waiting == NULL);
    tn_host_free(table->chains);
    *table = (struct tn_stream_table){.chains = NULL};
}
