// SPDX-License-Identifier: Apache-2.0
/* The numbers go through the process's standard output as they are in memory, for both are the same program. */
#include "parts.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

extern char **environ;

/* Starts the process; returns its id, and where its numbers come from. */
static pid_t start(const char *part, bool quick, FILE **numbers)
{
    char *const arguments[] = {"tarn_bench", "--part", (char *)part, quick ? "--quick" : NULL,
                               NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t process;

    if (pipe2(ends, O_CLOEXEC) != 0 || posix_spawn_file_actions_init(&actions) != 0)
        bench_fail("no pipe for a process");
    if (posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0 ||
        posix_spawn(&process, "/proc/self/exe", &actions, NULL, arguments, environ) != 0)
        bench_fail("this program cannot start itself");
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    *numbers = fdopen(ends[0], "rb");
    if (*numbers == NULL)
        bench_fail("no host memory");
    return process;
}

void bench_parts_measure(const char *part, bool quick, size_t process_count, size_t count,
                         double *values)
{
    for (size_t i = 0; i < process_count; i++) {
        FILE *numbers;
        pid_t process = start(part, quick, &numbers);
        size_t got = fread(values + i * count, sizeof *values, count, numbers);
        int status = 0;

        (void)fclose(numbers);
        if (waitpid(process, &status, 0) != process || status != 0 || got != count)
            bench_fail("a process that measures part '%s' has failed", part);
    }
}

void bench_part_give(const double *values, size_t count)
{
    if (fwrite(values, sizeof *values, count, stdout) != count)
        bench_fail("nobody takes the numbers");
}
