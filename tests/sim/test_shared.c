// SPDX-License-Identifier: Apache-2.0
/* test_shared.c -- devices that several processes share: what one has, no other can have, as long
 * as it lives. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

#define DEVICE_MIB "64"
#define PROCESSES 4
#define OWN 2 /* MiB that a context takes */

static char path[64];

static void share_a_file(void)
{
    load_driver();
    snprintf(path, sizeof path, "/tmp/tarn-sim-shared-%d", (int)getpid());
    ck_assert_int_eq(sim.tarn_sim_configure("TARN_SIM_SHARED", path), 0);
    ck_assert_int_eq(sim.tarn_sim_configure("TARN_SIM_MEMORY_MIB", DEVICE_MIB), 0);
}

static void remove_file(void)
{
    unlink(path);
}

static size_t free_mib(void)
{
    size_t left;
    size_t total;
    OK(cu.cuMemGetInfo(&left, &total));
    ck_assert_uint_eq(total, 64 * MIB);
    return left / MIB;
}

/* Exportable memory, or other memory. */
static tn_cu_result take(size_t bytes, bool exportable, tn_cu_memhandle *handle)
{
    tn_cu_allocation_prop prop = device_prop(0);
    prop.requested_handle_types = exportable ? TN_CU_MEM_HANDLE_TYPE_POSIX_FD : 0;
    return cu.cuMemCreate(handle, bytes, &prop, 0);
}

/* Another process, which has taken memory, has sent a file of it, and waits for its end. */
struct other {
    pid_t pid;
    int channel;
};

static struct other other_with(size_t bytes, bool exportable)
{
    struct other other;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    other.pid = fork();
    if (other.pid == 0) {
        tn_cu_memhandle handle;
        int file = 0;
        start_context();
        OK(take(bytes, exportable, &handle));
        if (exportable)
            OK(cu.cuMemExportToShareableHandle(&file, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
        send_file(ends[1], file);
        if (exportable)
            close(file);
        pause();
    }
    close(ends[1]);
    other.channel = ends[0];
    return other;
}

static void kill_other(const struct other *other)
{
    ck_assert_int_eq(kill(other->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(other->pid, NULL, 0), other->pid);
}

GROUP(shared, share_a_file, remove_file)

/* SS5 */
TEST(shared, what_a_process_has_is_taken_until_it_is_killed)
{
    struct other other = other_with(24 * MIB, false);
    close(receive_file(other.channel));
    tn_cu_memhandle handle;
    start_context();
    ck_assert_uint_eq(free_mib(), 40 - 2 * OWN);
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, take((40 - OWN) * MIB, false, &handle));
    OK(take((40 - 2 * OWN) * MIB, false, &handle));
    ck_assert_uint_eq(free_mib(), 0);
    kill_other(&other);
    ck_assert_uint_eq(free_mib(), 24 + OWN);
    OK(cu.cuMemRelease(handle));
    ck_assert_uint_eq(free_mib(), 64 - OWN);
}

/* Imports a file; the memory's handle. */
static tn_cu_memhandle import(int file)
{
    tn_cu_memhandle handle;
    OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                         TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    close(file);
    return handle;
}

TEST(shared, memory_of_a_dead_maker_counts_once_until_its_last_importer_goes)
{
    struct other other = other_with(16 * MIB, true);
    int file = receive_file(other.channel);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t second = fork();
    if (second == 0) {
        start_context();
        import(file);
        ck_assert_int_eq(write(ends[1], "x", 1), 1);
        pause();
    }
    start_context();
    tn_cu_memhandle handle = import(dup(file));
    close(file);
    char byte;
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_uint_eq(free_mib(), 48 - 3 * OWN);
    kill_other(&other);
    ck_assert_uint_eq(free_mib(), 48 - 2 * OWN);
    OK(cu.cuMemRelease(handle));
    ck_assert_uint_eq(free_mib(), 48 - 2 * OWN);
    ck_assert_int_eq(kill(second, SIGKILL), 0);
    ck_assert_int_eq(waitpid(second, NULL, 0), second);
    ck_assert_uint_eq(free_mib(), 64 - OWN);
}

/* Takes as much as there is, tells the number of its pieces, and waits for its end. */
static void take_all(int channel)
{
    tn_cu_memhandle handle;
    unsigned char count = 0;
    start_context();
    while (take(2 * MIB, count % 2 == 0, &handle) == TN_CUDA_SUCCESS)
        count++;
    ck_assert_int_eq(write(channel, &count, 1), 1);
    pause();
}

/* SS4 */
TEST(shared, processes_never_have_more_than_there_is)
{
    int ends[2];
    pid_t pids[PROCESSES];
    int count = 0;
    ck_assert_int_eq(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            take_all(ends[1]);
    }
    for (int i = 0; i < PROCESSES; i++) {
        unsigned char taken = 0;
        ck_assert_int_eq(read(ends[0], &taken, 1), 1);
        count += taken;
    }
    /* Contexts that come late find no room. */
    ck_assert_int_le(count, (64 - OWN) / 2);
    ck_assert_int_ge(count, (64 - PROCESSES * OWN) / 2);
    for (int i = 0; i < PROCESSES; i++) {
        ck_assert_int_eq(kill(pids[i], SIGKILL), 0);
        ck_assert_int_eq(waitpid(pids[i], NULL, 0), pids[i]);
    }
    start_context();
    ck_assert_uint_eq(free_mib(), 64 - OWN);
}

TEST(shared, a_file_that_cannot_be_used_is_an_error)
{
    ck_assert_int_eq(sim.tarn_sim_configure("TARN_SIM_SHARED", "/no/such/folder/file"), 0);
    begin_hearing();
    ANSWERS(TN_CUDA_ERROR_OPERATING_SYSTEM, cu.cuInit(0));
    ck_assert_ptr_nonnull(strstr(end_hearing(), "/no/such/folder/file"));
}
