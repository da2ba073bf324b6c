// SPDX-License-Identifier: Apache-2.0
/* Rows of several processes: order by words (words.c), shared memory (shares.c), and symmetric
 * memory (ranks.c). Each is a program beside this one, since its processes are forked before the
 * driver is loaded. The driver is the same. A program prints a line for each figure: a number, its unit, what was measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

enum { PATH_BYTES = 4096 };

/* The command that runs the program in the folder of this one. */
static void find_program(const struct bench *bench, const char *name, char *command, size_t bytes)
{
    char path[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *end;

    if (length < 0)
        bench_fail("/proc/self/exe cannot be read");
    path[length] = '\0';
    end = strrchr(path, '/');
    if (end == NULL || strchr(path, '\'') != NULL ||
        snprintf(command, bytes, "'%.*s/%s'%s", (int)(end - path), path, name,
                 bench->quick ? " --quick" : "") >= (int)bytes)
        bench_fail("%s cannot be named", name);
}

/* The unit of a line, which is one of the units known here, and the text behind it. */
static const char *find_unit(const char *text, const char **what)
{
    static const char *const units[] = {"us", "ms", "descriptors"};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t length = strlen(units[i]);

        if (text[0] == ' ' && strncmp(text + 1, units[i], length) == 0 && text[1 + length] == ' ') {
            *what = text + length + 2;
            return units[i];
        }
    }
    return NULL;
}

static void run(const struct bench *bench, const char *row, const char *name)
{
    char command[PATH_BYTES + 64];
    char line[128];
    FILE *program;
    int status;

    find_program(bench, name, command, sizeof command);
    program = popen(command, "r");
    if (program == NULL)
        bench_fail("%s cannot be run", command);
    while (fgets(line, sizeof line, program) != NULL) {
        char *end = NULL;
        double value = strtod(line, &end);
        const char *what = NULL;
        const char *unit;

        line[strcspn(line, "\n")] = '\0';
        unit = find_unit(end, &what);
        if (end == line || unit == NULL)
            bench_fail("%s says: %s", command, line);
        bench_report(row, what, NULL, unit, bench_single(value));
    }
    status = pclose(program);
    if (status != 0)
        bench_fail("%s has failed with %d", command, status);
}

void bench_row_words(const struct bench *bench)
{
    run(bench, "words", "tarn_words");
}

void bench_row_share(const struct bench *bench)
{
    run(bench, "share", "tarn_shares");
}

void bench_row_symmetric(const struct bench *bench)
{
    run(bench, "symmetric", "tarn_ranks");
}
