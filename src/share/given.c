// SPDX-License-Identifier: Apache-2.0
/* Runs are kept with their mappings: a block of a known run costs no call of driver or system. A
 * chunk that its id no longer leads to stays for the blocks that are open there.
 *
 * Trade-offs: the runs of a chunk are found by a walk over all runs, since chunks go seldom. */
#include "share/given.h"

#include "base/contract.h"
#include "base/host.h"
#include "driver/mapping.h"

static void end_chunk(tarn_connection *connection, struct tn_given_chunk *chunk)
{
    TN_ASSERT(chunk->run_count == 0 && !chunk->is_known);
    tn_memory_destroy(&connection->device->gpu, chunk->memory);
    tn_host_free(chunk);
}

void tn_given_run_end(tarn_connection *connection, struct tn_given_run *run)
{
    TN_ASSERT(run->open_count == 0 && !run->is_known); /* L5 */
    tn_import_fini(&connection->device->imports, &run->import);
    for (size_t i = 0; i < run->import.count; i++) {
        struct tn_given_chunk *chunk = run->chunks[i];

        chunk->run_count -= 1;
        if (chunk->run_count == 0 && !chunk->is_known)
            end_chunk(connection, chunk);
    }
    tn_host_free(run->chunks);
    tn_host_free(run->memories);
    tn_host_free(run);
}

static bool has_chunk(const struct tn_given_run *run, const struct tn_given_chunk *chunk)
{
    size_t i = 0;

    while (i < run->import.count && run->chunks[i] != chunk)
        i++;
    return i < run->import.count;
}

void tn_given_chunk_forget(tarn_connection *connection, uint32_t id)
{
    struct tn_consumer *consumer = &connection->consumer;
    struct tn_given_chunk *chunk = consumer->chunks[id];

    consumer->chunks[id] = NULL;
    for (uint32_t first = 0; chunk->run_count > 0 && first < connection->tables.chunk_count;
         first++) {
        struct tn_given_run **link = &consumer->runs[first];

        while (*link != NULL) {
            struct tn_given_run *run = *link;

            if (!has_chunk(run, chunk)) {
                link = &run->next;
                continue;
            }
            *link = run->next;
            run->is_known = false;
            if (run->open_count == 0)
                tn_given_run_end(connection, run);
        }
    }
    chunk->is_known = false;
    if (chunk->run_count == 0)
        end_chunk(connection, chunk);
}

static void free_run(struct tn_given_run *run)
{
    tn_host_free(run->chunks);
    tn_host_free(run->memories);
    tn_host_free(run);
}

static struct tn_given_run *allocate_run(size_t count)
{
    struct tn_given_run *run = tn_host_alloc(1, sizeof *run);

    if (run == NULL)
        return NULL;
    run->chunks = tn_host_alloc(count, sizeof(struct tn_given_chunk *));
    run->memories = tn_host_alloc(count, sizeof(struct tn_memory *));
    if (run->chunks != NULL && run->memories != NULL)
        return run;
    free_run(run);
    return NULL;
}

static bool is_run_of(const struct tn_consumer *consumer, const struct tn_given_run *run,
                      const uint32_t *ids, uint32_t count)
{
    if (run->import.count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (run->chunks[i] != consumer->chunks[ids[i]])
            return false;
    }
    return true;
}

struct tn_given_run *tn_given_run_find(struct tn_consumer *consumer, const uint32_t *ids,
                                       uint32_t count)
{
    struct tn_given_run *run = consumer->runs[ids[0]];

    while (run != NULL && !is_run_of(consumer, run, ids, count))
        run = run->next;
    if (run != NULL)
        return run;
    run = allocate_run(count);
    if (run == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        run->chunks[i] = consumer->chunks[ids[i]];
        run->chunks[i]->run_count += 1;
        run->memories[i] = run->chunks[i]->memory;
    }
    tn_import_init(&run->import, run->memories, count);
    run->is_known = true;
    run->next = consumer->runs[ids[0]];
    consumer->runs[ids[0]] = run;
    return run;
}
