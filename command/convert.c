// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <stdio.h>
#include <string.h>

#include "find.h"
#include "formats.h"
#include "out.h"
#include "tale.h"

struct format {
    const char *name;
    bool (*write)(struct tale *tale, FILE *file);
    const char *(*write_path)(struct tale *tale, const char *path); /* in place of write */
};

static const struct format formats[] = {
    {"chrome", format_chrome, NULL}, {"perfetto", format_perfetto, NULL},
    {"pprof", format_pprof, NULL},   {"pytorch", format_pytorch, NULL},
    {"sqlite", NULL, format_sqlite},
};

static const struct format *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    }
    return NULL;
}

static enum answer write_file(struct tale *tale, const struct format *format,
                              const struct options *options)
{
    const char *why = NULL;
    struct out out;

    if (!out_open(&out, options->out))
        return ANSWER_WRONG;
    if (format->write_path != NULL)
        why = format->write_path(tale, out.temporary);
    else if (!format->write(tale, out.file))
        why = "no memory";
    if (why != NULL) {
        out_abandon(&out);
        return say(ANSWER_WRONG, "%s cannot be converted: %s", tale->history.path, why);
    }
    if (!out_close(&out))
        return ANSWER_WRONG;
    return tale->story.count > 0 ? ANSWER_FOUND : ANSWER_NOTHING;
}

enum answer convert_run(const struct options *options)
{
    const struct format *format = options->format != NULL ? find_format(options->format) : NULL;
    char path[FIND_PATH_BYTES];
    struct tale tale;
    enum answer answer;

    if (format == NULL)
        return say(ANSWER_WRONG, "convert needs --to, and a format of \"tarn help\"");
    if (format->write_path != NULL && options->out == NULL)
        return say(ANSWER_WRONG, "convert --to %s needs -o FILE", format->name);
    answer = tale_open(&tale, options, path);
    if (answer != ANSWER_FOUND)
        return answer;
    answer = write_file(&tale, format, options);
    tale_close(&tale);
    return answer;
}
