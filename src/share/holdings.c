// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: a count looks at each place for a chunk, since nobody counts often. */
#include "share/holdings.h"

#include "base/contract.h"

static void count_handed(const struct tn_producer *producer, struct tn_holdings *holdings)
{
    for (uint32_t id = 0; producer->chunks != NULL && id < producer->chunks_begun; id++) {
        const struct tn_handed_chunk *chunk = &producer->chunks[id];

        if (chunk->memory == NULL || !tn_memory_is_still(chunk->memory, chunk->serial))
            continue;
        holdings->chunk_count += 1;
        holdings->chunk_bytes += chunk->memory->bytes;
    }
}

static void count_given(const struct tn_consumer *consumer, uint32_t place_count,
                        struct tn_holdings *holdings)
{
    for (uint32_t id = 0; consumer->chunks != NULL && id < place_count; id++) {
        if (consumer->chunks[id] != NULL) {
            holdings->chunk_count += 1;
            holdings->chunk_bytes += consumer->chunks[id]->memory->bytes;
        }
        for (struct tn_given_run *run = consumer->runs[id]; run != NULL; run = run->next) {
            if (tn_import_is_mapped(&run->import))
                holdings->mapped_bytes += run->import.bytes;
        }
    }
}

struct tn_holdings tn_connection_count_holdings(const tarn_connection *connection)
{
    struct tn_holdings holdings = {.chunk_count = 0};

    TN_ASSERT(tn_lock_is_held(&connection->lock));
    if (connection->is_producer)
        count_handed(&connection->producer, &holdings);
    else
        count_given(&connection->consumer, connection->tables.chunk_count, &holdings);
    return holdings;
}
