// SPDX-License-Identifier: Apache-2.0
/* test_linear.c -- cuMemAlloc and page-locked memory: where they lie, what they cost, what is left.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim_test.h"

#define MOST 64

static size_t free_bytes(void)
{
    size_t free_now;
    size_t total;
    OK(cu.cuMemGetInfo(&free_now, &total));
    return free_now;
}

static tn_cu_deviceptr linear(size_t bytes)
{
    tn_cu_deviceptr address;
    OK(cu.cuMemAlloc(&address, bytes));
    return address;
}

GROUP(context, start_context)

/* SH1, SH3: whatever is allocated and freed, nothing overlaps and all of it comes back. */
TEST(context, allocations_of_all_sizes_never_overlap)
{
    struct {
        tn_cu_deviceptr address;
        size_t bytes;
        unsigned char mark;
    } live[MOST];
    size_t count = 0;
    size_t before = free_bytes();
    srand(1);
    for (int step = 0; step < 3000; step++) {
        if (count < MOST && (count == 0 || rand() % 2 == 0)) {
            live[count].bytes = 1 + (size_t)rand() % (rand() % 8 == 0 ? 5 * MIB : 64 << 10);
            live[count].address = linear(live[count].bytes);
            live[count].mark = (unsigned char)rand();
            ck_assert_uint_eq(live[count].address % 512, 0);
            memset((void *)live[count].address, live[count].mark, live[count].bytes);
            count++;
            continue;
        }
        size_t at = (size_t)rand() % count;
        const unsigned char *bytes = (const unsigned char *)live[at].address;
        ck_assert_uint_eq(bytes[0], live[at].mark);
        ck_assert_uint_eq(bytes[live[at].bytes - 1], live[at].mark);
        OK(cu.cuMemFree(live[at].address));
        live[at] = live[--count];
    }
    while (count > 0)
        OK(cu.cuMemFree(live[--count].address));
    ck_assert_uint_eq(free_bytes(), before);
    ck_assert_uint_eq(ledger().linear_allocations, 0);
    ck_assert_uint_eq(ledger().linear_bytes, 0);
}

/* SH3 */
TEST(context, a_refused_allocation_takes_nothing)
{
    tn_cu_deviceptr address = 7;
    size_t before = free_bytes();
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc(&address, before + 1));
    ck_assert_uint_eq(address, 0);
    ck_assert_uint_eq(free_bytes(), before);
    tn_cu_deviceptr whole = linear(before);
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc(&address, 1));
    OK(cu.cuMemFree(whole));
    ck_assert_uint_eq(free_bytes(), before);
}

TEST(context, memory_of_a_full_device_is_shared_all_the_same)
{
    tn_cu_deviceptr anchor = linear(1);
    tn_cu_deviceptr rest = linear(free_bytes());
    ck_assert_uint_eq(free_bytes(), 0);
    tn_cu_deviceptr token = linear(MIB);
    OK(cu.cuMemFree(token));
    OK(cu.cuMemFree(rest));
    OK(cu.cuMemFree(anchor));
}

TEST(context, freeing_waits_and_finds_out_what_happened_meanwhile)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = linear(4096);
    OK(cu.cuMemsetD8Async(address, 1, 4096, stream));
    OK(cu.cuMemFree(address));
    OK(cu.cuStreamSynchronize(stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(address));
    OK(cu.cuStreamDestroy(stream));
}

TEST(context, a_context_takes_its_memory_with_it)
{
    static unsigned char own[4096];
    tarn_sim_ledger before = ledger();
    void *pinned;
    linear(100);
    linear(3 * MIB);
    OK(cu.cuMemHostAlloc(&pinned, 100, 0));
    OK(cu.cuMemHostRegister(own, sizeof own, 0));
    tarn_sim_ledger during = ledger();
    ck_assert_uint_eq(during.linear_allocations, before.linear_allocations + 2);
    ck_assert_uint_eq(during.linear_bytes, before.linear_bytes + 100 + 3 * MIB);
    ck_assert_uint_eq(during.host_allocations, before.host_allocations + 1);
    ck_assert_uint_eq(during.host_registrations, before.host_registrations + 1);
    ck_assert_uint_eq(during.registered_bytes, before.registered_bytes + sizeof own);
    OK(cu.cuDevicePrimaryCtxRelease(0));
    before.primary_retains--;
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

TEST(context, no_copy_spans_two_registrations)
{
    static _Alignas(4096) unsigned char own[3 * 4096];
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr device = linear(3 * 4096);
    OK(cu.cuMemHostRegister(own, 4096, 0));
    OK(cu.cuMemHostRegister(own + 4096, 4096, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoDAsync(device, own, 2 * 4096, stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoHAsync(own, device, 2 * 4096, stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuMemcpyHtoDAsync(device, own + 4096, 2 * 4096, stream));
    OK(cu.cuMemcpyHtoDAsync(device, own, 4096, stream));
    OK(cu.cuMemcpyHtoDAsync(device + 4096, own + 4096, 4096, stream));
    OK(cu.cuMemcpyHtoDAsync(device, own + 2 * 4096, 4096, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemHostUnregister(own));
    OK(cu.cuMemHostUnregister(own + 4096));
}

TEST(context, memory_that_cannot_be_used_is_not_registered)
{
    unsigned char *pages =
        mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    memset(pages, 5, 3 * 4096);
    tarn_sim_ledger before = ledger();
    ck_assert_int_eq(munmap(pages + 4096, 4096), 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister(pages, 3 * 4096, 0));
    ck_assert_int_eq(mprotect(pages, 4096, PROT_READ), 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister(pages, 4096, 0));
    OK(cu.cuMemHostRegister(pages, 4096, TN_CU_MEMHOSTREGISTER_READ_ONLY));
    OK(cu.cuMemHostUnregister(pages));
    OK(cu.cuMemHostRegister(pages + 2 * 4096, 4096, 0));
    ck_assert_uint_eq(pages[2 * 4096], 5); /* asking changes nothing */
    OK(cu.cuMemHostUnregister(pages + 2 * 4096));
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}
