// SPDX-License-Identifier: Apache-2.0
/* The last answer of the environment is kept: at the end of the process another thread may change
 * the environment.
 *
 * The list of histories is locked until its devices are read; text is made without a lock, for it
 * asks the loader. A thread with the loader's lock may wait for the list meanwhile. */
#include "observe/leaks_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/text.h"
#include "observe/leaks.h"
#include "pools/histories.h"

enum { PATH_BYTES = 4096, DEVICES_MAX = 64, LINE_BYTES = 128 };

static struct tn_spin lock;
static bool asked;            /* guarded by lock, as path */
static char path[PATH_BYTES]; /* empty: standard error */

bool tn_leaks_are_asked_for(void)
{
    const char *value = tn_environment("TARN_LEAKS");
    const bool asks =
        value != NULL && value[0] != '\0' && strcmp(value, "0") != 0 && strlen(value) < sizeof path;

    tn_spin_acquire(&lock);
    asked = asks;
    path[0] = '\0';
    if (asks && strcmp(value, "1") != 0)
        memcpy(path, value, strlen(value) + 1);
    tn_spin_release(&lock);
    return asks;
}

/* Where the text goes; false: nobody has asked. */
static bool find_path(char copy[PATH_BYTES])
{
    bool found = false;

    if (!tn_spin_acquire_for(&lock, TN_LEAKS_WAIT_NS))
        return false;
    found = asked;
    memcpy(copy, path, sizeof path);
    tn_spin_release(&lock);
    return found;
}

static void write_all(int fd, const char *bytes, size_t count)
{
    size_t done = 0;

    while (done < count) {
        const ssize_t written = write(fd, bytes + done, count - done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        done += (size_t)written;
    }
}

/* Opens the file, but does not wait for the reader of a pipe. -1: it cannot be written. */
static int open_file(const char *to)
{
    const int fd =
        open(to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);

    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, O_APPEND);
    return fd;
}

/* A pipe without a reader, and a file that is too large, would end the process by a signal. Such a
 * signal is taken back, unless one was there before. */
static void write_bytes(const char *to, const char *bytes, size_t count)
{
    const int fd = to[0] == '\0' ? STDERR_FILENO : open_file(to);
    const struct timespec now = {0, 0};
    sigset_t ours;
    sigset_t before;
    sigset_t pending;
    int cancel;

    if (fd < 0)
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGPIPE);
    (void)sigaddset(&ours, SIGXFSZ);
    (void)sigpending(&pending);
    (void)pthread_sigmask(SIG_BLOCK, &ours, &before);
    write_all(fd, bytes, count);
    if (sigismember(&pending, SIGPIPE) == 0 && sigismember(&pending, SIGXFSZ) == 0)
        (void)sigtimedwait(&ours, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (fd != STDERR_FILENO)
        (void)close(fd);
    (void)pthread_setcancelstate(cancel, NULL);
}

/* Writes the result's text behind these words. */
static void tell(const char *to, const char *words, const tarn_leaks *leaks)
{
    char line[LINE_BYTES];
    struct tn_text begin = {line, sizeof line, 0};
    const size_t bytes = tn_leaks_write_report(leaks, TARN_REPORT_TEXT, NULL, 0);
    char *text;

    tn_put(&begin, "tarn: %s: ", words);
    text = tn_host_alloc(1, begin.length + bytes + 1);
    if (text == NULL)
        return;
    memcpy(text, line, begin.length);
    (void)tn_leaks_write_report(leaks, TARN_REPORT_TEXT, text + begin.length, bytes + 1);
    write_bytes(to, text, begin.length + bytes);
    tn_host_free(text);
}

void tn_leaks_tell_at_close(tarn_device *device)
{
    char to[PATH_BYTES];
    tarn_leaks *leaks;

    TN_ASSERT(tn_lock_none_held());
    if (!find_path(to))
        return;
    leaks = tn_leaks_find(device, NULL);
    if (leaks != NULL && leaks->live.blocks > 0)
        tell(to, "not closed", leaks);
    tn_leaks_drop(leaks);
}

/* The devices of the process with what is live in each, *missing of them without. */
static size_t find_all(tarn_leaks *all[DEVICES_MAX], size_t *missing)
{
    size_t count = 0;

    for (tarn_device *device = tn_histories_first(); device != NULL && count < DEVICES_MAX;
         device = device->history.next) {
        all[count] = tn_leaks_find_in_tables(device);
        if (all[count] != NULL)
            count += 1;
        else
            *missing += 1;
    }
    return count;
}

void tn_leaks_tell_at_exit(void)
{
    static const char silence[] = "tarn: at exit: a device could not be looked at\n";
    tarn_leaks *all[DEVICES_MAX];
    char to[PATH_BYTES];
    size_t missing = 0;
    size_t count;

    if (tn_is_forked() || !find_path(to) || !tn_histories_lock(TN_LEAKS_WAIT_NS))
        return;
    count = find_all(all, &missing);
    tn_histories_unlock();
    while (count > 0) {
        count -= 1;
        tell(to, "at exit", all[count]);
        tn_leaks_drop(all[count]);
    }
    for (; missing > 0; missing--)
        write_bytes(to, silence, sizeof silence - 1);
}

__attribute__((destructor)) static void end_of_process(void)
{
    tn_leaks_tell_at_exit();
}
