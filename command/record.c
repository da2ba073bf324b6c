// SPDX-License-Identifier: Apache-2.0
/* The program gets its settings by TARN_CONF: pairs of its own stay, but for the keys that are chosen
 * here. While it runs, its files are looked for whenever its folders change, and opened: a device that
 * is closed removes its file, whose bytes stay as long as it is open. They are copied when the program
 * has ended.
 *
 * Trade-offs: histories of processes that the program starts are not kept. A program that opens and
 * closes its device within a moment may be missed. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/ring_file.h"
#include "find.h"
#include "out.h"
#include "say.h"

enum { CONF_BYTES = 4096, KEPT_MAX = 16, LOOK_MS = 50, CANNOT_START = 127, BY_SIGNAL = 128 };

struct recording {
    const char *out; /* NULL: named by the process */
    const char *bytes;
    const char *stacks;
    const char *sample_bytes; /* NULL: all */
    char **program;
    pid_t process;
    char seen[KEPT_MAX][TN_RING_PATH_MAX]; /* the process's files */
    int kept[KEPT_MAX];                    /* and these, open */
    size_t kept_count;
};

static volatile sig_atomic_t child; /* who gets the signals that end this process */

static void forward(int number)
{
    if (child > 0)
        (void)kill((pid_t)child, number);
}

static const struct option all[] = {
    {"output", required_argument, NULL, 'o'},
    {"log", required_argument, NULL, 'l'},
    {"stacks", required_argument, NULL, 's'},
    {"sample", required_argument, NULL, 'm'},
    {NULL, 0, NULL, 0},
};

/* Digits, and a K, M, G or T behind them where the size has one. */
static bool is_size(const char *text)
{
    const size_t digits = strspn(text, "0123456789");

    return digits > 0 && digits < 19 &&
           (text[digits] == '\0' ||
            (strchr("KMGT", text[digits]) != NULL && text[digits + 1] == '\0'));
}

static bool is_stacks(const char *text)
{
    static const char *const kinds[] = {"none", "caller", "frames", "unwind"};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(text, kinds[i]) == 0)
            return true;
    }
    return false;
}

static bool set_option(struct recording *to, int letter, const char *value)
{
    if (letter == 'o')
        to->out = value;
    else if (letter == 's')
        to->stacks = value;
    else
        *(letter == 'l' ? &to->bytes : &to->sample_bytes) = value;
    if (letter == 'o' ? *value == '\0' : letter == 's' ? !is_stacks(value) : !is_size(value)) {
        (void)say(ANSWER_WRONG, "record does not take \"%s\" there; try \"tarn help\"", value);
        return false;
    }
    return true;
}

static bool read_options(struct recording *to, int count, char **arguments)
{
    int letter;

    opterr = 0;
    optind = 0;
    while ((letter = getopt_long(count, arguments, "+:o:", all, NULL)) != -1) {
        if (letter == ':' || letter == '?') {
            (void)say(ANSWER_WRONG,
                      letter == ':' ? "%s needs a value"
                                    : "record does not take \"%s\"; try \"tarn help\"",
                      arguments[optind - 1]);
            return false;
        }
        if (!set_option(to, letter, optarg))
            return false;
    }
    if (optind == count) {
        (void)say(ANSWER_WRONG, "record needs a PROGRAM; try \"tarn help\"");
        return false;
    }
    to->program = arguments + optind;
    return true;
}

/* Whether the pair has a key that is chosen here. */
static bool is_chosen(const char *pair, size_t length)
{
    static const char *const keys[] = {"history_bytes", "history_stacks", "history_sample_bytes"};
    const size_t blanks = strspn(pair, " \t");

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const size_t key = strlen(keys[i]);

        if (blanks + key < length && strncmp(pair + blanks, keys[i], key) == 0 &&
            strchr(": \t", pair[blanks + key]) != NULL)
            return true;
    }
    return false;
}

static bool write_conf(const struct recording *recording, char conf[CONF_BYTES])
{
    const char *given = tn_environment("TARN_CONF");
    int used =
        snprintf(conf, CONF_BYTES, "history_bytes:%s,history_stacks:%s%s%s", recording->bytes,
                 recording->stacks, recording->sample_bytes != NULL ? ",history_sample_bytes:" : "",
                 recording->sample_bytes != NULL ? recording->sample_bytes : "");

    while (given != NULL && *given != '\0' && used >= 0 && used < CONF_BYTES) {
        const size_t length = strcspn(given, ","); /* of a pair, or a part of a list */

        if (length > strspn(given, " \t") && !is_chosen(given, length))
            used += snprintf(conf + used, (size_t)(CONF_BYTES - used), ",%.*s", (int)length, given);
        given += length + (given[length] == ',');
    }
    if (used >= 0 && used < CONF_BYTES)
        return true;
    (void)say(ANSWER_WRONG, "TARN_CONF is too long");
    return false;
}

/* In the child. Tells by the pipe why the program is not started. */
_Noreturn static void start(char **program, const char *conf, int told)
{
    int error = setenv("TARN_CONF", conf, 1) == 0 ? 0 : errno;

    if (error == 0) {
        (void)execvp(program[0], program);
        error = errno;
    }
    (void)!write(told, &error, sizeof error);
    _exit(CANNOT_START);
}

/* 0, or why the program was not started. */
static int start_program(struct recording *recording, const char *conf)
{
    int ends[2];
    int error = 0;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    recording->process = fork();
    if (recording->process == 0)
        start(recording->program, conf, ends[1]);
    if (recording->process < 0)
        error = errno;
    (void)close(ends[1]);
    if (recording->process > 0 && read(ends[0], &error, sizeof error) == (ssize_t)sizeof error)
        (void)waitpid(recording->process, NULL, 0);
    (void)close(ends[0]);
    return error;
}

static bool is_seen(const struct recording *recording, const char *path)
{
    for (size_t i = 0; i < recording->kept_count; i++) {
        if (strcmp(recording->seen[i], path) == 0)
            return true;
    }
    return false;
}

/* Opens new files of the process. */
static void look(struct recording *recording)
{
    struct finds finds;

    if (finds_read(&finds) != ANSWER_FOUND)
        return;
    for (size_t i = 0; i < finds.count && recording->kept_count < KEPT_MAX; i++) {
        const struct found *found = &finds.all[i];
        int fd;

        if (found->process != (uint64_t)recording->process || is_seen(recording, found->path))
            continue;
        fd = open(found->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        (void)snprintf(recording->seen[recording->kept_count], TN_RING_PATH_MAX, "%s", found->path);
        recording->kept[recording->kept_count] = fd;
        recording->kept_count += 1;
    }
    finds_free(&finds);
}

/* Tells of new files in the folder of histories; -1: nobody does, and looks now and then find them. */
static int open_changes(void)
{
    const int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    char folder[TN_RING_FOLDER_MAX];

    if (changes >= 0 && tn_ring_folder(folder, sizeof folder))
        (void)inotify_add_watch(changes, folder, IN_CREATE);
    return changes;
}

/* Waits until the program has ended, and looks for its files meanwhile. Returns how it ended. */
static int watch(struct recording *recording, int changes)
{
    struct pollfd event = {.fd = changes, .events = POLLIN};
    char events[4096];
    int state = 0;

    while (waitpid(recording->process, &state, WNOHANG) == 0) {
        (void)poll(&event, 1, LOOK_MS);
        while (changes >= 0 && read(changes, events, sizeof events) > 0)
            continue;
        look(recording);
    }
    look(recording);
    return state;
}

static bool is_nothing(const char *page)
{
    static const char nothing[TN_RING_PAGE_BYTES];

    return memcmp(page, nothing, sizeof nothing) == 0;
}

/* Copies the file. Pages that nobody has written become holes: a log has room for more than most
 * programs write. An errno. */
static int copy(int from, int to)
{
    char page[TN_RING_PAGE_BYTES];
    struct stat is;
    off_t at = 0;

    if (fstat(from, &is) != 0 || ftruncate(to, is.st_size) != 0)
        return errno;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        const ssize_t count = pread(from, page, sizeof page, at);

        if (count <= 0)
            return count < 0 ? errno : EIO;
        if ((count < (ssize_t)sizeof page || !is_nothing(page)) &&
            pwrite(to, page, (size_t)count, at) != count)
            return errno != 0 ? errno : EIO;
        at += count;
    }
    return errno == ENXIO ? 0 : errno; /* nothing is behind the last page */
}

/* Saves one of the process's histories. */
static bool save(const struct recording *recording, size_t index)
{
    char path[FIND_PATH_BYTES];
    struct out out;
    int error;
    int length;

    if (recording->out != NULL)
        length = snprintf(path, sizeof path, "%s", recording->out);
    else
        length = snprintf(path, sizeof path, "tarn-%d.ring", (int)recording->process);
    if (index > 0 && length > 0 && (size_t)length < sizeof path)
        length += snprintf(path + length, sizeof path - (size_t)length, ".%zu", index + 1);
    if (length < 0 || (size_t)length >= sizeof path) {
        (void)say(ANSWER_WRONG, "the name of the history is too long");
        return false;
    }
    if (!out_open(&out, path))
        return false;
    errno = 0;
    error = copy(recording->kept[index], fileno(out.file));
    if (error != 0) {
        out_abandon(&out);
        (void)say(ANSWER_WRONG, "%s cannot be written: %s", path, strerror(error));
        return false;
    }
    if (!out_close(&out))
        return false;
    (void)say(ANSWER_FOUND, "recorded %s", path);
    return true;
}

static int end(const struct recording *recording, int state)
{
    int status = WIFSIGNALED(state) ? BY_SIGNAL + WTERMSIG(state) : WEXITSTATUS(state);
    bool saved = true;

    for (size_t i = 0; i < recording->kept_count; i++) {
        saved = save(recording, i) && saved;
        (void)close(recording->kept[i]);
    }
    if (recording->kept_count == 0) {
        (void)say(ANSWER_NOTHING, "%s has left no history: did it open a device?",
                  recording->program[0]);
        status = status != 0 ? status : ANSWER_NOTHING;
    }
    return saved ? status : ANSWER_WRONG;
}

int record_run(int count, char **arguments)
{
    static struct recording recording = {.bytes = "64M", .stacks = "unwind"};
    char conf[CONF_BYTES];
    int changes;
    int error;

    if (!read_options(&recording, count, arguments) || !write_conf(&recording, conf))
        return ANSWER_WRONG;
    changes = open_changes(); /* before the program is there */
    error = start_program(&recording, conf);
    if (error != 0) {
        (void)say(ANSWER_WRONG, "%s cannot be started: %s", recording.program[0], strerror(error));
        return CANNOT_START;
    }
    child = recording.process;
    (void)signal(SIGINT, SIG_IGN); /* the terminal tells the program, too */
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGTERM, forward);
    (void)signal(SIGHUP, forward);
    return end(&recording, watch(&recording, changes));
}
