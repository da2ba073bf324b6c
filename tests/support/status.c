// SPDX-License-Identifier: Apache-2.0
/* The record of which function has answered which status: a line "function STATUS" for each pair in
 * the file that TARN_TEST_STATUSES names, with the word "driver" behind it where the driver itself was out of
 * memory, as the sentence then says. tests/api/statuses.awk compares it with the headers.
 *
 * Trade-offs: the processes of a suite write the same lines again; a line is written in one piece. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cuda.h"

enum { NOTED_MAX = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *call;
    tarn_status status;
    bool of_driver;
} noted[NOTED_MAX]; /* guarded by mutex, as is the count */
static size_t noted_count;

/* The name, also for programs that do not link the library. */
static const char *name_of(tarn_status status)
{
    switch (status) {
#define NAME(name, number, sentence)                                                               \
    case name:                                                                                     \
        return #name;
        TARN_STATUS_TABLE(NAME)
#undef NAME
    }
    return "TARN_UNKNOWN";
}

/* Whether that is new in this process, or there is no room to know. */
static bool is_new(const char *call, tarn_status status, bool of_driver)
{
    bool found = false;

    (void)pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < noted_count && !found; i++)
        found =
            noted[i].call == call && noted[i].status == status && noted[i].of_driver == of_driver;
    if (!found && noted_count < NOTED_MAX) {
        noted[noted_count].call = call;
        noted[noted_count].status = status;
        noted[noted_count].of_driver = of_driver;
        noted_count += 1;
    }
    (void)pthread_mutex_unlock(&mutex);
    return !found;
}

void test_note_status(const char *call, tarn_status status, const char *sentence)
{
    bool of_driver =
        status == TARN_ERR_DEVICE_MEMORY && strstr(sentence, "CUDA_ERROR_OUT_OF_MEMORY") != NULL;
    const char *path = getenv("TARN_TEST_STATUSES");
    char line[160];
    int length;
    int file;

    if (path == NULL || strncmp(call, "tarn_", 5) != 0 || !is_new(call, status, of_driver))
        return;
    length = snprintf(line, sizeof line, "%.*s %s%s\n", (int)strcspn(call, "("), call,
                      name_of(status), of_driver ? " driver" : "");
    file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq((int)write(file, line, (size_t)length), length);
    (void)close(file);
}

void test_forget_statuses(void)
{
    const char *path = getenv("TARN_TEST_STATUSES");

    if (path != NULL)
        (void)remove(path);
}
