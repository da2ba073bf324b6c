// SPDX-License-Identifier: Apache-2.0
/* What TARN_LEAKS asks for: the text goes to a file, which the tests read. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "observe/leaks_exit.h"
#include "pools/histories.h"
#include "unit/unit.h"

SUITE("leaks at exit")

enum { TEXT_BYTES = 1 << 16 };

static char path[] = "/tmp/tarn-leaks-XXXXXX";
static char text[TEXT_BYTES];

static void make_file(void)
{
    const int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    (void)unsetenv("TARN_CONF"); /* which comes before the options */
    ck_assert_int_eq(setenv("TARN_LEAKS", path, 1), 0);
}

static void open_asked(void)
{
    make_file();
    test_world_open();
}

/* At the end of this test's process there is nothing to tell. */
static void forget(void)
{
    ck_assert_int_eq(setenv("TARN_LEAKS", "0", 1), 0);
    ck_assert(!tn_leaks_are_asked_for());
    (void)unlink(path);
}

static void close_asked(void)
{
    test_world_close();
    forget();
}

GROUP(asked, open_asked, .end = close_asked)
GROUP(closed, make_file, .end = forget)

static const char *read_file(void)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = read(fd, text, sizeof text - 1);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    (void)close(fd);
    return text;
}

/* How often the text has the words. */
static size_t count_of(const char *words)
{
    size_t count = 0;

    for (const char *at = read_file(); (at = strstr(at, words)) != NULL; at++)
        count += 1;
    return count;
}

TEST(asked, a_device_has_a_history_with_stacks)
{
    ck_assert_ptr_nonnull(world.device->history.file.head);
    ck_assert_int_eq(tn_stacking_level(&world.device->history.stacking), TN_STACK_FRAMES);
}

TEST(asked, what_is_live_is_told)
{
    void *block = test_malloc(5000);

    OK(tarn_free(test_malloc(7000)));
    tn_leaks_tell_at_exit();
    ck_assert_uint_eq(count_of("tarn: at exit: device 0: 1 block, 4.9 KiB, live in 1 place;"), 1);
    ck_assert_uint_eq(count_of("1 block, 4.9 KiB, number "), 1);
    ck_assert_uint_eq(count_of(", pool 'default'\n    "), 1);
    OK(tarn_free(block));
    tn_leaks_tell_at_exit(); /* at the end of the file */
    ck_assert_uint_eq(count_of("tarn: at exit: device 0: 1 block"), 1);
    ck_assert_uint_eq(count_of("tarn: at exit: device 0: no block is live\n"), 1);
}

TEST(asked, a_device_that_is_not_closed_is_told)
{
    void *block = test_malloc(5000);

    OK(tarn_pool_destroy(world.pool));
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device));
    unit_expect_sentence("1 live blocks"); /* of the close */
    ck_assert_uint_eq(count_of("tarn: not closed: device 0: 1 block, 4.9 KiB, live in 1 place;"),
                      1);
    OK(tarn_free(block));
    world.pool = test_pool("test");
    STATUS(TARN_ERR_BUSY, tarn_device_close(world.device)); /* for the pool alone */
    ck_assert_uint_eq(count_of("tarn: "), 1);
}

TEST(asked, a_child_tells_nothing)
{
    void *block = test_malloc(5000);
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        tn_leaks_tell_at_exit();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_str_eq(read_file(), "");
    OK(tarn_free(block));
}

/* By the destructor, whatever the exit status. */
TEST(closed, a_process_that_opens_a_device_and_ends_normally_tells)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        (void)alarm(60);
        test_start();
        OK(tarn_device_open(0, NULL, &world.device));
        (void)test_malloc(5000);
        exit(3);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 3);
    ck_assert_uint_eq(count_of("tarn: at exit: device 0: 1 block, 4.9 KiB"), 1);
}

TEST(asked, a_lock_that_is_never_given_back_is_not_waited_for_long)
{
    tn_spin_acquire(&world.device->history.tables.lock);
    tn_leaks_tell_at_exit();
    tn_spin_release(&world.device->history.tables.lock);
    ck_assert_str_eq(read_file(), "tarn: at exit: a device could not be looked at\n");
    ck_assert(tn_histories_lock(1));
    tn_leaks_tell_at_exit();
    tn_histories_unlock();
    ck_assert_uint_eq(count_of("tarn: "), 1);
}

static atomic_bool over;

static void *open_and_close(void *unused)
{
    for (int i = 0; i < 40; i++) {
        tarn_device *device;
        void *block;

        OK(tarn_device_open(0, NULL, &device));
        OK(tarn_malloc(device, 5000, NULL, &block));
        OK(tarn_free(block));
        OK(tarn_device_close(device));
    }
    atomic_store(&over, true);
    return unused;
}

TEST(closed, devices_that_come_and_go_meanwhile_disturb_nothing)
{
    pthread_t thread;

    test_start();
    ck_assert_int_eq(pthread_create(&thread, NULL, open_and_close, NULL), 0);
    while (!atomic_load(&over))
        tn_leaks_tell_at_exit();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    (void)unlink(path);
    tn_leaks_tell_at_exit();
    ck_assert_int_ne(access(path, F_OK), 0); /* no device is open */
}

static void expect_answer(const char *value, bool asks)
{
    ck_assert_int_eq(setenv("TARN_LEAKS", value, 1), 0);
    ck_assert_msg(tn_leaks_are_asked_for() == asks, "%s", value);
}

TEST(closed, nobody_has_asked_by_nothing_or_0)
{
    static char long_path[5000];

    memset(long_path, 'x', sizeof long_path - 1);
    expect_answer("1", true);
    expect_answer("0", false);
    expect_answer("", false);
    expect_answer("a-file", true);
    expect_answer(long_path, false);
    (void)unsetenv("TARN_LEAKS");
    ck_assert(!tn_leaks_are_asked_for());
}

TEST(closed, a_device_of_a_process_that_did_not_ask_may_have_no_history)
{
    expect_answer("0", false);
    test_world_open_unrecorded();
    ck_assert_ptr_null(world.device->history.file.head);
    tn_leaks_tell_at_exit();
    ck_assert_str_eq(read_file(), "");
    test_world_close();
}

/* The options of the program, and of TARN_CONF, stay. */
TEST(closed, what_the_program_chose_stays)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 64 << 10;
    options.history_stacks = TARN_HISTORY_CALLERS;
    test_world_open_with(&options);
    ck_assert_uint_eq(world.device->history.ring.page_count, 16);
    ck_assert_int_eq(tn_stacking_level(&world.device->history.stacking), TN_STACK_CALLER);
    test_world_close();
}

static void run_into(const char *to)
{
    void *block;

    expect_answer(to, true);
    test_world_open();
    block = test_malloc(5000);
    tn_leaks_tell_at_exit();
    OK(tarn_free(block));
    test_world_close();
}

TEST(closed, a_file_that_cannot_be_written_is_passed_over)
{
    run_into("/no/such/folder/file");
    run_into("/dev/full");
}

/* The signal of a pipe without a reader would end the process. */
TEST(closed, a_pipe_without_a_reader_ends_nothing)
{
    char name[64];
    sigset_t pending;
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", ends[1]);
    (void)signal(SIGPIPE, SIG_DFL);
    expect_answer(name, true);
    test_world_open();
    (void)close(ends[0]);
    tn_leaks_tell_at_exit();
    ck_assert_int_eq(sigpending(&pending), 0);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
    test_world_close();
    (void)close(ends[1]);
}

/* On standard error, which another thread may have locked in the C library. */
TEST(closed, standard_error_is_written_without_a_lock)
{
    const int own = dup(STDERR_FILENO);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

    expect_answer("1", true);
    test_world_open();
    ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0);
    tn_leaks_tell_at_exit();
    ck_assert_int_ge(dup2(own, STDERR_FILENO), 0);
    ck_assert_str_eq(read_file(), "tarn: at exit: device 0: no block is live\n");
    (void)close(fd);
    (void)close(own);
    test_world_close();
}
