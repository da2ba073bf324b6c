// SPDX-License-Identifier: Apache-2.0
/* sim_test.c -- loads the simulator for a test. */
#include "sim_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct driver cu;
struct controls sim;

static const char kernels_ptx[] =
    "// kernels of the tests\n"
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry test_fill(.param .u64 address, .param .u32 value, .param .u32 count) {ret;}\n"
    ".visible .entry test_add(.param .u64 .ptr .global .align 16 address, .param .u32 amount)\n"
    "{ ret; }\n";

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    ck_assert_msg(found != NULL, "%s is not exported", name);
    return found;
}

void load_driver(void)
{
    const char *path = getenv("TARN_DRIVER");
    ck_assert_msg(path != NULL, "TARN_DRIVER must name the simulator");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    tn_pfn_cuGetProcAddress resolve;
    void *found = symbol(library, "cuGetProcAddress_v2");
    memcpy(&resolve, &found, sizeof found);
#define RESOLVE(name, symbol_, version, parameters, names)                                         \
    OK(resolve(#name, &found, version, TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));               \
    ck_assert_msg(found != NULL, "%s is missing", #name);                                          \
    memcpy(&cu.name, &found, sizeof found);
    TN_CUDA_SIMULATED_FUNCTIONS(RESOLVE)
#undef RESOLVE
#define CONTROL(name)                                                                              \
    found = symbol(library, #name);                                                                \
    memcpy(&sim.name, &found, sizeof found);
    SIM_CONTROLS(CONTROL)
#undef CONTROL
}

void start_driver(void)
{
    load_driver();
    OK(cu.cuInit(0));
}

void load_lax_driver(void)
{
    setenv("TARN_SIM_STRICT", "0", 1);
    start_driver();
}

void start_context(void)
{
    tn_cu_context context;
    start_driver();
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
}

void load_two_devices(void)
{
    setenv("TARN_SIM_DEVICES", "2", 1);
    start_context();
}

tn_cu_allocation_prop device_prop(int device)
{
    return (tn_cu_allocation_prop){
        .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

tn_cu_deviceptr reserve(size_t bytes)
{
    tn_cu_deviceptr address = 0;
    OK(cu.cuMemAddressReserve(&address, bytes, 0, 0, 0));
    ck_assert_uint_ne(address, 0);
    return address;
}

tn_cu_memhandle physical(size_t bytes)
{
    tn_cu_memhandle handle = 0;
    tn_cu_allocation_prop prop = device_prop(0);
    OK(cu.cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

tn_cu_result give_access(tn_cu_deviceptr address, size_t bytes, int flags)
{
    tn_cu_access_desc desc = {
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = flags,
    };
    return cu.cuMemSetAccess(address, bytes, &desc, 1);
}

struct mapped map_new(size_t bytes)
{
    struct mapped mapped = {
        .address = reserve(bytes),
        .bytes = bytes,
        .handle = physical(bytes),
    };
    OK(cu.cuMemMap(mapped.address, bytes, 0, mapped.handle, 0));
    OK(give_access(mapped.address, bytes, TN_CU_MEM_ACCESS_READWRITE));
    return mapped;
}

void unmap_all(struct mapped mapped)
{
    OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
    OK(cu.cuMemRelease(mapped.handle));
    OK(cu.cuMemAddressFree(mapped.address, mapped.bytes));
}

tn_cu_stream new_stream(unsigned int flags)
{
    tn_cu_stream stream;
    OK(cu.cuStreamCreate(&stream, flags));
    return stream;
}

tn_cu_event new_event(void)
{
    tn_cu_event event;
    OK(cu.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    return event;
}

tarn_sim_ledger ledger(void)
{
    tarn_sim_ledger now;
    sim.tarn_sim_read_ledger(&now);
    return now;
}

void same_ledger(const tarn_sim_ledger *before, const tarn_sim_ledger *after)
{
    const uint64_t *a = (const uint64_t *)before;
    const uint64_t *b = (const uint64_t *)after;
    for (size_t i = 0; i < sizeof *before / sizeof *a; i++)
        ck_assert_msg(a[i] == b[i], "field %zu of the ledger: %lu before, %lu after", i,
                      (unsigned long)a[i], (unsigned long)b[i]);
}

static int real_stderr = -1;
static int heard = -1;

void begin_hearing(void)
{
    fflush(stderr);
    heard = memfd_create("heard", MFD_CLOEXEC);
    ck_assert_int_ge(heard, 0);
    real_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(heard, STDERR_FILENO), 0);
}

const char *end_hearing(void)
{
    static char text[4096];
    fflush(stderr);
    dup2(real_stderr, STDERR_FILENO);
    ssize_t length = pread(heard, text, sizeof text - 1, 0);
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    close(heard);
    close(real_stderr);
    return text;
}

const char *file_with(const char *text)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/tarn_sim_test_XXXXXX");
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    return path;
}

struct errand {
    tn_cu_result (*body)(void *);
    void *argument;
    tn_cu_result result;
};

static void *run_errand(void *argument)
{
    struct errand *errand = argument;
    errand->result = errand->body(errand->argument);
    return NULL;
}

tn_cu_result elsewhere(tn_cu_result (*body)(void *), void *argument)
{
    struct errand errand = {.body = body, .argument = argument};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_errand, &errand), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return errand.result;
}

static void fill_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint64_t address;
    uint32_t value;
    uint32_t count;
    (void)launch;
    memcpy(&address, params[0], sizeof address);
    memcpy(&value, params[1], sizeof value);
    memcpy(&count, params[2], sizeof count);
    volatile uint32_t *words = (volatile uint32_t *)(uintptr_t)address;
    for (uint32_t i = 0; i < count; i++)
        words[i] = value;
}

static void add_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint64_t address;
    uint32_t amount;
    (void)launch;
    memcpy(&address, params[0], sizeof address);
    memcpy(&amount, params[1], sizeof amount);
    volatile uint32_t *word = (volatile uint32_t *)(uintptr_t)address;
    *word = *word + amount;
}

struct kernels load_kernels(void)
{
    struct kernels kernels;
    ck_assert_int_eq(sim.tarn_sim_register_kernel("test_fill", fill_twin), 0);
    OK(cu.cuModuleLoadData(&kernels.module, kernels_ptx));
    ck_assert_int_eq(sim.tarn_sim_register_kernel("test_add", add_twin), 0);
    OK(cu.cuModuleGetFunction(&kernels.fill, kernels.module, "test_fill"));
    OK(cu.cuModuleGetFunction(&kernels.add, kernels.module, "test_add"));
    return kernels;
}

tn_cu_result launch_fill(const struct kernels *kernels, tn_cu_stream stream,
                         tn_cu_deviceptr address, uint32_t value, uint32_t count)
{
    void *params[] = {&address, &value, &count};
    return cu.cuLaunchKernel(kernels->fill, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

void send_file(int socket, int file)
{
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    char room[CMSG_SPACE(sizeof file)] = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    *(int *)CMSG_DATA(header) = file;
    ck_assert_int_eq(sendmsg(socket, &message, 0), 1);
}

int receive_file(int socket)
{
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    char room[CMSG_SPACE(sizeof(int))];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    ck_assert_int_eq(recvmsg(socket, &message, 0), 1);
    return *(int *)CMSG_DATA(CMSG_FIRSTHDR(&message));
}

/* The driver is of no use after a fork: each test must load it for itself. */
__attribute__((constructor)) static void fork_always(void)
{
    (void)setenv("CK_FORK", "yes", 1);
}
