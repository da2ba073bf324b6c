// SPDX-License-Identifier: Apache-2.0
/* Order by words, as tarn_words measures it (words.c), and symmetric memory, as tarn_ranks does
 * (ranks.c): programs beside this one, since their processes are forked before the driver is loaded.
 * The driver is the same. */
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

/* Runs a program, whose lines are the figures of the row. */
static void run_program(const struct bench *bench, const char *name, const char *row)
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
        char *what = NULL;
        double microseconds = strtod(line, &what);

        line[strcspn(line, "\n")] = '\0';
        if (what == line || *what != ' ')
            bench_fail("%s says: %s", command, line);
        bench_report(row, what + 1, NULL, "us", bench_single(microseconds));
    }
    status = pclose(program);
    if (status != 0)
        bench_fail("%s has failed with %d", command, status);
}

void bench_row_words(const struct bench *bench)
{
    run_program(bench, "tarn_words", "words");
}

void bench_row_symmetric(const struct bench *bench)
{
    run_program(bench, "tarn_ranks", "symmetric");
}
