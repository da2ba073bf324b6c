// SPDX-License-Identifier: Apache-2.0
/* test_ipc.c -- linear memory that another process has open. */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

#define LAZY TN_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
#define BYTES (4 * MIB)
#define BYTES_AT 40 /* where in a handle they are */

/* A process that has made memory and waits for a word before it ends. */
struct exporter {
    pid_t pid;
    int socket;
};

static void make_and_wait(int socket)
{
    tn_cu_deviceptr address;
    tn_cu_ipc_handle handles[2];
    char byte;
    start_context();
    OK(cu.cuMemAlloc(&address, 4096)); /* so that the next one is not the first of the device */
    OK(cu.cuMemAlloc(&address, BYTES));
    memset((void *)address, 1, BYTES);
    OK(cu.cuIpcGetMemHandle(&handles[0], address));
    OK(cu.cuIpcGetMemHandle(&handles[1], address + MIB));
    ck_assert_int_eq(memcmp(&handles[0], &handles[1], sizeof handles[0]), 0);
    ck_assert_int_eq(write(socket, handles, sizeof handles[0]), (ssize_t)sizeof handles[0]);
    ck_assert_int_eq(read(socket, &byte, 1), 1);
    ck_assert_int_eq(*(volatile char *)(address + MIB), byte);
    OK(cu.cuMemFree(address));
    ck_assert_int_eq(write(socket, &byte, 1), 1);
    ck_assert_int_eq(read(socket, &byte, 1), 0);
}

/* To be called before the driver is initialised. */
static struct exporter start_exporter(tn_cu_ipc_handle *handle)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct exporter exporter = {.pid = fork(), .socket = ends[0]};
    if (exporter.pid == 0) {
        close(ends[0]);
        make_and_wait(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    ck_assert_int_eq(read(exporter.socket, handle, sizeof *handle), (ssize_t)sizeof *handle);
    return exporter;
}

/* Tells what the byte is that the exporter must find, and waits until it has looked. */
static void let_look(const struct exporter *exporter, char byte)
{
    ck_assert_int_eq(write(exporter->socket, &byte, 1), 1);
    ck_assert_int_eq(read(exporter->socket, &byte, 1), 1);
}

static void end_exporter(const struct exporter *exporter)
{
    int status;
    close(exporter->socket);
    ck_assert_int_eq(waitpid(exporter->pid, &status, 0), exporter->pid);
    ck_assert_int_eq(status, 0);
}

GROUP(nothing, load_driver)

TEST(nothing, memory_of_another_process_is_opened_used_and_closed)
{
    tn_cu_ipc_handle handle;
    tn_cu_deviceptr address;
    tn_cu_deviceptr again;
    tn_cu_deviceptr base;
    tn_cu_context other;
    size_t bytes;
    unsigned int capable = 7;
    struct exporter exporter = start_exporter(&handle);
    start_context();
    tarn_sim_ledger before = ledger();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    OK(cu.cuIpcOpenMemHandle(&address, handle, LAZY));
    OK(cu.cuIpcOpenMemHandle(&again, handle, LAZY));
    ck_assert_uint_eq(again, address);
    ck_assert_uint_eq(ledger().ipc_openings, before.ipc_openings + 1);
    ck_assert_int_eq(*(volatile char *)(address + BYTES - 1), 1);
    OK(cu.cuMemGetAddressRange(&base, &bytes, address + 5));
    ck_assert_uint_eq(base, address);
    ck_assert_uint_eq(bytes, BYTES);
    OK(cu.cuPointerGetAttribute(&capable, TN_CU_POINTER_LEGACY_IPC_CAPABLE, address));
    ck_assert_uint_eq(capable, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(address));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcGetMemHandle(&handle, address));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(address, 7, BYTES + 1, stream));
    OK(cu.cuMemsetD8Async(address, 7, BYTES, stream));
    OK(cu.cuIpcCloseMemHandle(address));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_int_eq(*(volatile char *)address, 7);
    let_look(&exporter, 7);
    OK(cu.cuCtxCreate(&other, 0, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcCloseMemHandle(address)); /* not opened there */
    OK(cu.cuCtxDestroy(other));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcCloseMemHandle(address + 4096));
    OK(cu.cuIpcCloseMemHandle(address));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcCloseMemHandle(address));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(address, 7, 1, stream));
    OK(cu.cuStreamDestroy(stream));
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
    end_exporter(&exporter);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcOpenMemHandle(&address, handle, LAZY));
}

TEST(nothing, what_a_context_has_open_goes_with_it)
{
    tn_cu_ipc_handle handle;
    tn_cu_deviceptr address;
    tn_cu_context context;
    struct exporter exporter = start_exporter(&handle);
    start_driver();
    OK(cu.cuCtxCreate(&context, 0, 0));
    OK(cu.cuIpcOpenMemHandle(&address, handle, LAZY));
    OK(cu.cuCtxDestroy(context));
    ck_assert_uint_eq(ledger().ipc_openings, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuIpcOpenMemHandle(&address, handle, LAZY));
    let_look(&exporter, 1);
    end_exporter(&exporter);
}

/* A handle whose bytes were changed on the way, to none or to more than the file has. */
TEST(nothing, a_handle_of_no_byte_is_refused)
{
    static const uint64_t wrong[] = {0, UINT64_C(1) << 63, UINT64_MAX};
    tn_cu_ipc_handle handle;
    tn_cu_deviceptr address = 7;
    struct exporter exporter = start_exporter(&handle);
    start_context();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tn_cu_ipc_handle changed = handle;
        memcpy((char *)&changed + BYTES_AT, &wrong[i], sizeof wrong[i]);
        ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcOpenMemHandle(&address, changed, LAZY));
    }
    ck_assert_uint_eq(address, 7);
    OK(cu.cuIpcOpenMemHandle(&address, handle, LAZY));
    *(volatile char *)(address + MIB) = 3;
    let_look(&exporter, 3);
    OK(cu.cuIpcCloseMemHandle(address));
    end_exporter(&exporter);
}

TEST(nothing, a_handle_is_refused_where_it_was_made_and_when_it_is_none)
{
    tn_cu_ipc_handle handle;
    tn_cu_deviceptr address = 7;
    tn_cu_deviceptr linear;
    start_context();
    OK(cu.cuMemAlloc(&linear, 1000));
    OK(cu.cuIpcGetMemHandle(&handle, linear + 999));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcGetMemHandle(&handle, linear + 1000));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuIpcOpenMemHandle(&address, handle, LAZY));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcOpenMemHandle(&address, handle, 0));
    memset(&handle, 1, sizeof handle);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcOpenMemHandle(&address, handle, LAZY));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcCloseMemHandle(linear));
    struct mapped mapped = map_new(2 * MIB);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuIpcGetMemHandle(&handle, mapped.address));
    ck_assert_uint_eq(address, 7);
}
