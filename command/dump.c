// SPDX-License-Identifier: Apache-2.0
/* With an address, the report is that address's alone: the block that has it now, and what happened to
 * all blocks that had it. */
#include "dump.h"

#include <inttypes.h>
#include <stdio.h>

#include "events.h"
#include "find.h"
#include "groups.h"
#include "head.h"
#include "history.h"
#include "json.h"
#include "live.h"
#include "out.h"
#include "owners.h"
#include "symbols.h"
#include "tarn/status.h"
#include "telling.h"

enum { GROUPS = 10 };

/* All that was read of a history. */
struct dump {
    const struct options *options;
    struct history history;
    struct tn_told told;
    struct owners owners;
    struct events events;
    struct live_groups pools;
    struct live_groups stacks;
    struct symbols *symbols;
    uint64_t event_count;
};

/* The live block that has the address; NULL: none. */
static const struct tn_told_block *find_block(const struct dump *dump)
{
    for (size_t i = 0; i < dump->told.count; i++) {
        const struct tn_told_block *block = &dump->told.blocks[i];

        if (dump->options->address - block->address < block->bytes)
            return block;
    }
    return NULL;
}

static void print_live(struct dump *dump, FILE *file)
{
    const struct options *options = dump->options;

    (void)fprintf(file, "%" PRIu64 " live blocks by pool:\n", dump->pools.total.blocks);
    groups_print_pools(&dump->pools, file);
    (void)fprintf(file, "\nby %zu stacks, worst first:\n", dump->stacks.count);
    groups_print_stacks(&dump->stacks, &dump->history, dump->symbols,
                        options->has_top ? options->top : GROUPS, file);
}

static void print(struct dump *dump, FILE *file)
{
    const struct options *options = dump->options;
    const struct telling telling = {&dump->history, dump->symbols, &dump->owners};
    const struct tn_told_block *block = options->by_address ? find_block(dump) : NULL;

    head_print(&dump->history, &dump->told, &dump->event_count, file);
    if (!options->by_address) {
        print_live(dump, file);
    } else if (block != NULL) {
        (void)fprintf(file, "address 0x%" PRIx64 " is in a live block:\n", options->address);
        telling_print_block(&telling, block, file);
    } else {
        (void)fprintf(file, "address 0x%" PRIx64 " is in no live block\n", options->address);
    }
    (void)fprintf(file, "\nthe last %zu of %" PRIu64 " events%s:\n", dump->events.count,
                  dump->events.matching, options->by_address ? " of the address" : "");
    for (size_t i = 0; i < dump->events.count; i++)
        telling_print_event(&telling, &dump->events.all[i], options->by_address, file);
}

static void to_json(struct dump *dump, FILE *file)
{
    const struct options *options = dump->options;
    const struct telling telling = {&dump->history, dump->symbols, &dump->owners};
    const struct tn_told_block *block = options->by_address ? find_block(dump) : NULL;
    struct json json = {.file = file};

    json_begin(&json, NULL, '{');
    head_to_json(&dump->history, &dump->told, &dump->event_count, &json);
    if (options->by_address) {
        json_begin(&json, "live", '[');
        if (block != NULL)
            telling_block_to_json(&telling, block, &json);
        json_end(&json, ']');
    } else {
        groups_pools_to_json(&dump->pools, &json);
        groups_stacks_to_json(&dump->stacks, &dump->history, dump->symbols,
                              options->has_top ? options->top : SIZE_MAX, &json);
    }
    json_number(&json, "matching_events", dump->events.matching);
    json_begin(&json, "events", '[');
    for (size_t i = 0; i < dump->events.count; i++)
        telling_event_to_json(&telling, &dump->events.all[i], &json);
    json_end(&json, ']');
    json_end(&json, '}');
}

/* False: no memory. */
static bool read_all(struct dump *dump)
{
    const struct options *options = dump->options;
    const struct wanted wanted = {.most = options->events,
                                  .by_pool = options->by_pool,
                                  .by_address = options->by_address,
                                  .pool = options->pool,
                                  .address = options->address};
    const uint64_t *pool = options->by_pool ? &options->pool : NULL;
    uint64_t broken;

    dump->symbols = symbols_open(&dump->history, options->debug);
    return dump->symbols != NULL &&
           tn_retell_blocks(&dump->history.source, &dump->told) == TARN_OK &&
           owners_read(&dump->owners, &dump->history, &dump->event_count, &broken) &&
           events_read(&dump->events, &dump->history, &dump->owners, &wanted, &dump->told) &&
           live_group(&dump->pools, &dump->told, LIVE_BY_POOL, pool, 1, NULL) &&
           live_group(&dump->stacks, &dump->told, LIVE_BY_STACK, pool,
                      head_sample_bytes(&dump->history), &dump->history);
}

static bool has_found(const struct dump *dump)
{
    if (dump->options->by_address)
        return dump->events.matching > 0 || find_block(dump) != NULL;
    return dump->events.matching > 0 || dump->pools.count > 0;
}

static enum answer write_report(struct dump *dump)
{
    struct out out;

    if (!out_open(&out, dump->options->out))
        return ANSWER_WRONG;
    if (dump->options->as_json)
        to_json(dump, out.file);
    else
        print(dump, out.file);
    if (!out_close(&out))
        return ANSWER_WRONG;
    return has_found(dump) ? ANSWER_FOUND : ANSWER_NOTHING;
}

enum answer dump_run(const struct options *options)
{
    struct dump dump = {.options = options};
    char path[FIND_PATH_BYTES];
    enum answer answer = find_file(options->what, path);

    if (answer != ANSWER_FOUND)
        return answer;
    if (!history_open(&dump.history, path))
        return ANSWER_WRONG;
    answer = read_all(&dump) ? write_report(&dump)
                             : say(ANSWER_WRONG, "no memory to read %s", dump.history.path);
    live_free(&dump.stacks);
    live_free(&dump.pools);
    events_free(&dump.events);
    owners_free(&dump.owners);
    tn_told_free(&dump.told);
    if (dump.symbols != NULL)
        symbols_close(dump.symbols);
    history_close(&dump.history);
    return answer;
}
