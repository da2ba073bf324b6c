// SPDX-License-Identifier: Apache-2.0
#include "leaks.h"

#include <inttypes.h>
#include <stdio.h>

#include "find.h"
#include "groups.h"
#include "head.h"
#include "history.h"
#include "json.h"
#include "live.h"
#include "out.h"
#include "text.h"
#include "symbols.h"
#include "tarn/status.h"

enum { GROUPS = 20 };

static void print(const struct options *options, struct history *history,
                  const struct tn_told *told, const struct live_groups *groups,
                  struct symbols *symbols, FILE *file)
{
    head_print(history, told, NULL, file);
    (void)fprintf(file, "%" PRIu64 " live blocks with ", groups->total.blocks);
    text_bytes(file, (double)groups->total.bytes);
    (void)fprintf(file, ", by %zu stacks, worst first:\n\n", groups->count);
    groups_print_stacks(groups, history, symbols, options->has_top ? options->top : GROUPS, file);
}

static void to_json(const struct options *options, struct history *history,
                    const struct tn_told *told, const struct live_groups *groups,
                    struct symbols *symbols, FILE *file)
{
    struct json json = {.file = file};

    json_begin(&json, NULL, '{');
    head_to_json(history, told, NULL, &json);
    json_number(&json, "live_blocks", groups->total.blocks);
    json_number(&json, "live_bytes", groups->total.bytes);
    groups_stacks_to_json(groups, history, symbols, options->has_top ? options->top : SIZE_MAX,
                          &json);
    json_end(&json, '}');
}

static enum answer write_report(const struct options *options, struct history *history,
                                const struct tn_told *told, const struct live_groups *groups)
{
    struct symbols *symbols = symbols_open(history, options->debug);
    struct out out;
    bool done;

    if (symbols == NULL)
        return say(ANSWER_WRONG, "no memory for names");
    if (!out_open(&out, options->out)) {
        symbols_close(symbols);
        return ANSWER_WRONG;
    }
    if (options->as_json)
        to_json(options, history, told, groups, symbols, out.file);
    else
        print(options, history, told, groups, symbols, out.file);
    done = out_close(&out);
    symbols_close(symbols);
    if (!done)
        return ANSWER_WRONG;
    return groups->count > 0 ? ANSWER_FOUND : ANSWER_NOTHING;
}

enum answer leaks_run(const struct options *options)
{
    char path[FIND_PATH_BYTES];
    struct history history;
    struct tn_told told;
    struct live_groups groups;
    enum answer answer = find_file(options->what, path);

    if (answer != ANSWER_FOUND)
        return answer;
    if (!history_open(&history, path))
        return ANSWER_WRONG;
    if (tn_retell_blocks(&history.source, &told) != TARN_OK) {
        history_close(&history);
        return say(ANSWER_WRONG, "%s", tarn_last_error());
    }
    if (live_group(&groups, &told, LIVE_BY_STACK, options->by_pool ? &options->pool : NULL,
                   head_sample_bytes(&history), &history))
        answer = write_report(options, &history, &told, &groups);
    else
        answer = say(ANSWER_WRONG, "no memory for %zu live blocks", told.count);
    live_free(&groups);
    tn_told_free(&told);
    history_close(&history);
    return answer;
}
