// SPDX-License-Identifier: Apache-2.0
/* pinned.c -- page-locked memory of the process: allocated by the driver, or registered with it. */
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"

#define PAGE 4096
#define ELSEWHERE ((void *)0x123456000) /* where nothing is mapped */

/* -- Allocated -- */

CASE_BODY(alloc)
{
    for (unsigned int flags = 0; flags <= 7; flags++) {
        void *host = NULL;
        STATE("flags %u", flags);
        size_t before = contract_free_bytes();
        GIVES(SUCCESS, cuMemHostAlloc(&host, 1000, flags));
        HOLDS(host != NULL && before == contract_free_bytes(), "it costs no device memory");
        memset(host, 1, 1000);
        GIVES(SUCCESS, cuMemFreeHost(host));
    }
}

CASE_BODY(alloc_packed)
{
    void *host[3];
    for (int i = 0; i < 3; i++)
        SET_UP(cuMemHostAlloc(&host[i], 1000, 0));
    HOLDS((char *)host[1] - (char *)host[0] == 1024 && (char *)host[2] - (char *)host[1] == 1024,
          "1000 bytes lie 1024 bytes apart");
    for (int i = 0; i < 3; i++)
        SET_UP(cuMemFreeHost(host[i]));
}

CASE_BODY(alloc_nothing)
{
    void *host = (void *)7;
    GIVES(SUCCESS, cuMemHostAlloc(&host, 0, 0));
    HOLDS(host == NULL, "NULL");
    STATE("NULL is freed");
    GIVES(SUCCESS, cuMemFreeHost(NULL));
}

CASE_BODY(alloc_refused)
{
    void *host = (void *)7;
    STATE("flags 8");
    GIVES(INVALID_VALUE, cuMemHostAlloc(&host, 8, 8));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemHostAlloc(NULL, 8, 0));
    STATE("2^62 bytes");
    GIVES(OUT_OF_MEMORY, cuMemHostAlloc(&host, (size_t)1 << 62, 0));
}

CASE_BODY(free_refused)
{
    void *host;
    tn_cu_deviceptr linear;
    tn_cu_deviceptr reservation;
    int local;
    SET_UP(cuMemHostAlloc(&host, 100, 0));
    SET_UP(cuMemAlloc(&linear, 4096));
    SET_UP(cuMemAddressReserve(&reservation, 2 * MIB, 0, 0, 0));
    STATE("the middle");
    GIVES(INVALID_VALUE, cuMemFreeHost((char *)host + 50));
    STATE("linear memory");
    GIVES(INVALID_VALUE, cuMemFreeHost((void *)linear));
    STATE("a reservation");
    GIVES(INVALID_VALUE, cuMemFreeHost((void *)reservation));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuMemFreeHost(&local));
    STATE("unregistering it");
    GIVES(INVALID_VALUE, cuMemHostUnregister(host));
    STATE("registering it");
    GIVES(INVALID_VALUE, cuMemHostRegister(host, 100, 0));
    GIVES(SUCCESS, cuMemFreeHost(host));
    STATE("twice");
    GIVES(INVALID_VALUE, cuMemFreeHost(host));
    SET_UP(cuMemFree(linear));
    SET_UP(cuMemAddressFree(reservation, 2 * MIB));
}

CASE_BODY(device_pointer)
{
    void *host;
    tn_cu_deviceptr address = 7;
    tn_cu_deviceptr linear;
    int local;
    SET_UP(cuMemHostAlloc(&host, 100, TN_CU_MEMHOSTALLOC_DEVICEMAP));
    SET_UP(cuMemAlloc(&linear, 4096));
    GIVES(SUCCESS, cuMemHostGetDevicePointer(&address, host, 0));
    HOLDS(address == (uintptr_t)host, "the same address");
    STATE("the middle");
    GIVES(SUCCESS, cuMemHostGetDevicePointer(&address, (char *)host + 50, 0));
    HOLDS(address == (uintptr_t)host + 50, "the same address");
    STATE("the end");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, (char *)host + 100, 0));
    STATE("flags");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, host, 1));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(NULL, host, 0));
    STATE("NULL");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, NULL, 0));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, &local, 0));
    STATE("linear memory");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, (void *)linear, 0));
    SET_UP(cuMemFreeHost(host));
    STATE("freed");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, host, 0));
    SET_UP(cuMemFree(linear));
}

CASE_BODY(kernel_writes)
{
    void *host;
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuMemHostAlloc(&host, PAGE, 0));
    memset(host, 0, PAGE);
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(",
                   contract_fill(stream, (uintptr_t)host, 17, PAGE / 4));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(((uint32_t *)host)[0] == 17 && ((uint32_t *)host)[PAGE / 4 - 1] == 17,
          "the process sees what the kernel wrote");
    SET_UP(cuMemFreeHost(host));
    SET_UP(cuStreamDestroy(stream));
}

/* -- Registered -- */

/* Memory of the process, four pages of it; freed at the end of the case by free(). */
static char *pages(void)
{
    char *memory = aligned_alloc(PAGE, 4 * PAGE);
    if (memory == NULL)
        contract_give_up("no memory");
    memset(memory, 0, 4 * PAGE);
    return memory;
}

CASE_BODY(registers)
{
    char *memory = pages();
    tn_cu_deviceptr address = 0;
    size_t before = contract_free_bytes();
    GIVES(SUCCESS, cuMemHostRegister(memory, 2 * PAGE, 0));
    HOLDS(before == contract_free_bytes(), "it costs no device memory");
    GIVES(SUCCESS, cuMemHostGetDevicePointer(&address, memory + 100, 0));
    HOLDS(address == (uintptr_t)memory + 100, "the same address");
    STATE("behind it");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, memory + 2 * PAGE, 0));
    GIVES(SUCCESS, cuMemHostUnregister(memory));
    STATE("twice");
    GIVES(HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(memory));
    free(memory);
}

CASE_BODY(register_twice)
{
    char *memory = pages();
    SET_UP(cuMemHostRegister(memory, PAGE, TN_CU_MEMHOSTREGISTER_PORTABLE));
    STATE("the same");
    GIVES(HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(memory, PAGE, 0));
    STATE("half of it, and more");
    GIVES(HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(memory + PAGE / 2, PAGE, 0));
    STATE("beside it");
    GIVES(SUCCESS, cuMemHostRegister(memory + PAGE, PAGE, 0));
    SET_UP(cuMemHostUnregister(memory + PAGE));
    STATE("around its end");
    GIVES(HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(memory, 2 * PAGE, 0));
    SET_UP(cuMemHostUnregister(memory));
    free(memory);
}

CASE_BODY(register_unaligned)
{
    char *memory = pages();
    tn_cu_deviceptr address = 0;
    GIVES(SUCCESS, cuMemHostRegister(memory + 100, 1000, 0));
    GIVES(SUCCESS, cuMemHostGetDevicePointer(&address, memory + 100, 0));
    STATE("before it, on its page");
    GIVES(INVALID_VALUE, cuMemHostGetDevicePointer(&address, memory + 50, 0));
    STATE("behind it, on its page");
    GIVES(SUCCESS, cuMemHostRegister(memory + 1200, 100, 0));
    GIVES(SUCCESS, cuMemHostUnregister(memory + 1200));
    STATE("into it");
    GIVES(HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(memory + 1000, 1000, 0));
    STATE("the page's start is unregistered");
    GIVES(HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(memory));
    GIVES(SUCCESS, cuMemHostUnregister(memory + 100));
    free(memory);
}

CASE_BODY(register_flags)
{
    static const struct {
        unsigned int flags;
        tn_cu_result expected;
    } rows[] = {
        {0, TN_CUDA_SUCCESS},
        {1, TN_CUDA_SUCCESS},
        {2, TN_CUDA_SUCCESS},
        {3, TN_CUDA_SUCCESS},
        {4, TN_CUDA_ERROR_INVALID_VALUE},
        {8, TN_CUDA_SUCCESS},
        {16, TN_CUDA_ERROR_INVALID_VALUE},
    };
    char *memory = pages();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        STATE("flags %u", rows[i].flags);
        if (contract_gives(rows[i].expected, "cuMemHostRegister(",
                           cu.cuMemHostRegister(memory, PAGE, rows[i].flags)) == TN_CUDA_SUCCESS)
            SET_UP(cuMemHostUnregister(memory));
    }
    free(memory);
}

CASE_BODY(register_refused)
{
    char *memory = pages();
    tn_cu_deviceptr reservation;
    tn_cu_deviceptr linear;
    SET_UP(cuMemAddressReserve(&reservation, 2 * MIB, 0, 0, 0));
    SET_UP(cuMemAlloc(&linear, PAGE));
    STATE("no byte");
    GIVES(INVALID_VALUE, cuMemHostRegister(memory, 0, 0));
    STATE("NULL");
    GIVES(INVALID_VALUE, cuMemHostRegister(NULL, PAGE, 0));
    STATE("nothing there");
    GIVES(INVALID_VALUE, cuMemHostRegister(ELSEWHERE, PAGE, 0));
    STATE("a reservation");
    GIVES(INVALID_VALUE, cuMemHostRegister((void *)reservation, PAGE, 0));
    STATE("linear memory");
    GIVES(INVALID_VALUE, cuMemHostRegister((void *)linear, PAGE, 0));
    SET_UP(cuMemFree(linear));
    SET_UP(cuMemAddressFree(reservation, 2 * MIB));
    free(memory);
}

CASE_BODY(unregister_refused)
{
    char *memory = pages();
    tn_cu_deviceptr linear;
    SET_UP(cuMemAlloc(&linear, PAGE));
    STATE("not registered");
    GIVES(HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(memory));
    STATE("NULL");
    GIVES(INVALID_VALUE, cuMemHostUnregister(NULL));
    STATE("linear memory");
    GIVES(INVALID_VALUE, cuMemHostUnregister((void *)linear));
    SET_UP(cuMemHostRegister(memory, PAGE, 0));
    STATE("the middle");
    GIVES(INVALID_VALUE, cuMemHostUnregister(memory + 8));
    STATE("freed as if it were allocated");
    GIVES(INVALID_VALUE, cuMemFreeHost(memory));
    GIVES(SUCCESS, cuMemHostUnregister(memory));
    SET_UP(cuMemFree(linear));
    free(memory);
}

static const struct contract_case cases[] = {
    CASE("alloc", "Page-locked memory costs no device memory.", alloc),
    CASE("alloc-packed", "Small allocations lie side by side, in steps of 512 bytes.",
         alloc_packed),
    CASE("alloc-nothing", "No byte is NULL, and that is no error.", alloc_nothing),
    CASE("alloc-refused", "Unknown flags, and too much, are refused.", alloc_refused),
    CASE("free-refused", "Only a whole allocation is freed, once.", free_refused),
    CASE("device-pointer", "The device has the process's address.", device_pointer),
    CASE("kernel-writes", "Kernels write to the process's memory.", kernel_writes),
    CASE("registers", "Memory of the process is registered and has its own address.", registers),
    CASE("register-twice", "Memory is registered once.", register_twice),
    CASE("register-unaligned", "What is registered need not begin at a page.", register_unaligned),
    CASE("register-flags", "Which flags registering takes.", register_flags),
    CASE("register-refused", "Only memory of the process is registered.", register_refused),
    CASE("unregister-refused", "Only what was registered is unregistered.", unregister_refused),
};
const struct contract_group contract_pinned = CONTRACT_GROUP("pinned", START_CONTEXT, cases);
