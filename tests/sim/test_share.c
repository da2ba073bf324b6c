// SPDX-License-Identifier: Apache-2.0
/* test_share.c -- physical memory: references, places, and its way to other processes. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

#define PLACE UINT64_C(0x4d0000000000) /* where nobody is */
#define PLACE_AT 24                    /* where in the label of an exported file it is */

static tn_cu_memhandle exportable(size_t bytes)
{
    tn_cu_memhandle handle;
    tn_cu_allocation_prop prop = device_prop(0);
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    OK(cu.cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static int exported(tn_cu_memhandle handle)
{
    int file = -1;
    OK(cu.cuMemExportToShareableHandle(&file, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    ck_assert_int_ge(file, 0);
    return file;
}

static tn_cu_memhandle imported(int file)
{
    tn_cu_memhandle handle;
    OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                         TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    close(file);
    return handle;
}

/* Maps memory somewhere, with access; its first word. */
static volatile uint32_t *mapped_word(tn_cu_memhandle handle, size_t bytes)
{
    tn_cu_deviceptr address = reserve(bytes);
    OK(cu.cuMemMap(address, bytes, 0, handle, 0));
    OK(give_access(address, bytes, TN_CU_MEM_ACCESS_READWRITE));
    return (volatile uint32_t *)address;
}

static size_t free_bytes(void)
{
    size_t left;
    size_t total;
    OK(cu.cuMemGetInfo(&left, &total));
    return left;
}

/* How many files the process has open. */
static int open_files(void)
{
    int count = 0;
    for (int file = 0; file < 1024; file++)
        count += fcntl(file, F_GETFD) >= 0;
    return count;
}

GROUP(context, start_context)

/* SM1 */
TEST(context, memory_lives_for_references_and_mappings)
{
    tn_cu_memhandle handle = physical(2 * MIB);
    tn_cu_memhandle same;
    tn_cu_allocation_prop prop;
    tn_cu_deviceptr address = reserve(4 * MIB);
    OK(cu.cuMemMap(address, 2 * MIB, 0, handle, 0));
    OK(cu.cuMemRetainAllocationHandle(&same, (void *)(address + 100)));
    ck_assert_uint_eq(same, handle);
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemRelease(handle));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(handle));
    /* Without a reference the handle is of no use, until one is taken again. */
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address + 2 * MIB, 2 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    OK(cu.cuMemRetainAllocationHandle(&same, (void *)address));
    ck_assert_uint_eq(same, handle);
    OK(cu.cuMemMap(address + 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(cu.cuMemUnmap(address, 4 * MIB));
    ck_assert_uint_eq(ledger().handles, 1);
    OK(cu.cuMemRelease(handle));
    ck_assert_uint_eq(ledger().handles, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(handle));
}

/* SM2 */
TEST(context, shared_memory_is_charged_once_and_until_the_last_of_its_handles)
{
    size_t before = free_bytes();
    int files = open_files();
    tn_cu_memhandle handle = exportable(8 * MIB);
    volatile uint32_t *word = mapped_word(handle, 8 * MIB);
    tn_cu_memhandle first = imported(exported(handle));
    tn_cu_memhandle second = imported(exported(handle));
    ck_assert_uint_ne(first, handle);
    ck_assert_uint_ne(second, first);
    ck_assert_uint_eq(free_bytes(), before - 8 * MIB);
    *word = 17;
    ck_assert_uint_eq(*mapped_word(second, 8 * MIB), 17);
    OK(cu.cuMemUnmap((tn_cu_deviceptr)(uintptr_t)word, 8 * MIB));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemRelease(first));
    ck_assert_uint_eq(free_bytes(), before - 8 * MIB);
    ck_assert_uint_eq(ledger().handles, 1);
    tn_cu_deviceptr range;
    OK(cu.cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
    OK(cu.cuMemMap(range, 8 * MIB, 0, second, 0));
    OK(cu.cuMemRelease(second));
    OK(cu.cuMemUnmap(range, 8 * MIB));
    /* One mapping of it is left. */
    ck_assert_uint_eq(free_bytes(), before - 8 * MIB);
    ck_assert_int_eq(open_files(), files + 1);
}

TEST(context, an_import_is_refused_for_what_was_not_exported)
{
    tn_cu_memhandle handle = 7;
    int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    int strange = memfd_create("strange", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(strange, 2 * MIB + 4096), 0);
    int files[] = {-1, 1000, other, strange};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        ANSWERS(TN_CUDA_ERROR_UNKNOWN,
                cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)files[i],
                                                  TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    ck_assert_uint_eq(handle, 7);
    tn_cu_memhandle plain = physical(2 * MIB);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuMemExportToShareableHandle(&other, plain, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    plain = imported(exported(exportable(2 * MIB)));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuMemExportToShareableHandle(&other, plain, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
}

/* Writes where memory is to be into an exported file of 2 MiB, and imports that. */
static tn_cu_result import_from(int type, int id)
{
    tn_cu_memhandle handle = 0;
    int place[2] = {type, id};
    int file = exported(exportable(2 * MIB));
    ck_assert_int_eq(pwrite(file, place, sizeof place, 2 * MIB + PLACE_AT), sizeof place);
    return cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                             TN_CU_MEM_HANDLE_TYPE_POSIX_FD);
}

TEST(context, an_import_is_refused_from_a_place_that_is_none)
{
    OK(import_from(TN_CU_MEM_LOCATION_TYPE_DEVICE, 0));
    OK(import_from(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_DEVICE, import_from(TN_CU_MEM_LOCATION_TYPE_DEVICE, 5));
    ANSWERS(TN_CUDA_ERROR_INVALID_DEVICE, import_from(TN_CU_MEM_LOCATION_TYPE_DEVICE, -1));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, import_from(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, 1));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, import_from(TN_CU_MEM_LOCATION_TYPE_HOST, 0));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, import_from(0, 0));
    ANSWERS(TN_CUDA_ERROR_UNKNOWN, import_from(77, 0));
}

/* SM2 */
TEST(context, memory_is_charged_while_a_descriptor_holds_it)
{
    size_t before = free_bytes();
    int files = open_files();
    tn_cu_memhandle handle = exportable(8 * MIB);
    int file = exported(handle);
    int same = dup(file);
    OK(cu.cuMemRelease(handle));
    ck_assert_uint_eq(ledger().handles, 0);
    ck_assert_uint_eq(free_bytes(), before - 8 * MIB);
    OK(cu.cuMemRelease(imported(file)));
    ck_assert_uint_eq(free_bytes(), before - 8 * MIB);
    close(same);
    ck_assert_uint_eq(free_bytes(), before);
    ck_assert_int_eq(open_files(), files);
}

TEST(context, exports_close_with_the_next_program_and_none_is_left_open)
{
    int files = open_files();
    tn_cu_memhandle handle = exportable(2 * MIB);
    int first = exported(handle);
    int second = exported(handle);
    ck_assert_int_ne(first, second);
    ck_assert_int_eq(fcntl(first, F_GETFD), FD_CLOEXEC);
    OK(cu.cuMemRelease(handle));
    tn_cu_memhandle again = imported(first);
    OK(cu.cuMemRelease(again));
    close(second);
    free_bytes(); /* the driver notices when it is next asked for memory */
    ck_assert_int_eq(open_files(), files);
}

GROUP(nothing, load_driver)

TEST(nothing, memory_outlives_the_process_that_exported_it)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t child = fork();
    if (child == 0) {
        start_driver();
        tn_cu_memhandle handle = exportable(4 * MIB);
        mapped_word(handle, 4 * MIB)[MIB - 1] = 99;
        send_file(ends[1], exported(handle));
        _exit(0);
    }
    int file = receive_file(ends[0]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    start_context();
    size_t before = free_bytes();
    tn_cu_memhandle handle = imported(file);
    ck_assert_uint_eq(mapped_word(handle, 4 * MIB)[MIB - 1], 99);
    ck_assert_uint_eq(free_bytes(), before); /* it was charged where it was made */
}

TEST(context, memory_of_the_host_is_for_the_host_and_for_devices)
{
    tn_cu_allocation_prop prop = device_prop(0);
    tn_cu_allocation_prop got;
    tn_cu_memhandle handle;
    size_t before = free_bytes();
    prop.location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST, .id = 5};
    OK(cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cu.cuMemGetAllocationPropertiesFromHandle(&got, handle));
    ck_assert_int_eq(got.location.type, TN_CU_MEM_LOCATION_TYPE_HOST_NUMA);
    ck_assert_int_eq(got.location.id, 0);
    ck_assert_uint_eq(free_bytes(), before);
    tn_cu_deviceptr address = reserve(2 * MIB);
    tn_cu_access_desc host = {.location = {.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA},
                              .flags = TN_CU_MEM_ACCESS_READWRITE};
    OK(cu.cuMemMap(address, 2 * MIB, 0, handle, 0));
    OK(cu.cuMemSetAccess(address, 2 * MIB, &host, 1));
    *(volatile uint32_t *)address = 5;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32Async(address, 6, 1, NULL));
    OK(give_access(address, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    OK(cu.cuMemsetD32Async(address, 6, 1, NULL));
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(*(volatile uint32_t *)address, 6);
    unsigned long long flags;
    OK(cu.cuMemGetAccess(&flags, &host.location, address));
    ck_assert_uint_eq(flags, TN_CU_MEM_ACCESS_READWRITE);
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    prop.location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    OK(cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    handle = imported(exported(handle));
    OK(cu.cuMemGetAllocationPropertiesFromHandle(&got, handle));
    ck_assert_int_eq(got.location.type, TN_CU_MEM_LOCATION_TYPE_HOST_NUMA);
    ck_assert_int_eq(got.requested_handle_types, 0);
}

/* More mappings than Linux lets a process have map areas, unless it was told otherwise. */
enum { AREAS = 66000 };

/* Sanitizers need areas of their own, and give up without them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AREAS_CAN_RUN_OUT false
#else
#define AREAS_CAN_RUN_OUT true
#endif

static bool areas_are_limited(void)
{
    long limit = 0;
    if (!AREAS_CAN_RUN_OUT)
        return false;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file == NULL || fscanf(file, "%ld", &limit) != 1)
        limit = 0;
    if (file != NULL)
        fclose(file);
    return limit > 0 && limit < AREAS;
}

TEST(context, access_that_the_system_refuses_half_way_changes_nothing)
{
    if (!areas_are_limited())
        return;
    tn_cu_memhandle handle = physical(2 * MIB);
    tn_cu_deviceptr address = reserve((size_t)AREAS * 2 * MIB);
    tn_cu_location here = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags;
    for (size_t i = 0; i < AREAS; i++)
        OK(cu.cuMemMap(address + i * 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(give_access(address, 2 * MIB, TN_CU_MEM_ACCESS_READ));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY,
            give_access(address, (size_t)AREAS * 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    for (size_t i = 0; i < AREAS; i++) {
        OK(cu.cuMemGetAccess(&flags, &here, address + i * 2 * MIB));
        ck_assert_uint_eq(flags, i == 0 ? TN_CU_MEM_ACCESS_READ : TN_CU_MEM_ACCESS_NONE);
    }
    OK(give_access(address, (size_t)1000 * 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    *(volatile uint32_t *)(address + 1998 * MIB) = 1;
    OK(cu.cuMemUnmap(address, (size_t)AREAS * 2 * MIB));
}

TEST(context, many_handles_cost_no_descriptors)
{
    int files = open_files();
    for (int i = 0; i < 2000; i++)
        physical(2 * MIB);
    ck_assert_int_eq(open_files(), files);
}

GROUP(lax, load_lax_driver)

TEST(lax, a_lax_driver_uses_handles_that_were_given_up)
{
    tn_cu_memhandle handle = exportable(2 * MIB);
    tn_cu_allocation_prop prop;
    tn_cu_deviceptr address = reserve(4 * MIB);
    OK(cu.cuMemMap(address, 2 * MIB, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    OK(cu.cuMemMap(address + 2 * MIB, 2 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(handle));
}

TEST(lax, a_lax_driver_maps_past_the_end_of_a_reservation)
{
    tn_cu_deviceptr address = reserve(64 * MIB);
    tn_cu_memhandle handle = physical(4 * MIB);
    tn_cu_deviceptr last = address + 62 * MIB;
    OK(cu.cuMemMap(last, 4 * MIB, 0, handle, 0));
    OK(give_access(last, 4 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    *(volatile uint32_t *)last = 1;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(address, 64 * MIB));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(last, 2 * MIB));
    OK(cu.cuMemUnmap(last, 4 * MIB));
    OK(cu.cuMemAddressFree(address, 64 * MIB));
}

static void enter_context(void)
{
    tn_cu_context context;
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
}

/* Behind the reservation the process has something: what is set there is not the process's. */
TEST(lax, a_mapping_past_its_reservation_ends_where_its_pages_do)
{
    enter_context();
    tn_cu_deviceptr address = reserve(64 * MIB);
    tn_cu_deviceptr start = address + 62 * MIB;
    tn_cu_memhandle handle = physical(8 * MIB);
    char *own = mmap((void *)(address + 64 * MIB), MIB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own != (char *)(address + 64 * MIB))
        return; /* somebody is there already, with what we must not touch */
    OK(cu.cuMemMap(start, 8 * MIB, 0, handle, 0));
    OK(give_access(start, 8 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    OK(cu.cuMemsetD8(start, 5, 2 * MIB));
    OK(cu.cuCtxSynchronize());
    ck_assert_int_eq(*(char *)(start + 2 * MIB - 1), 5);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8(start + 2 * MIB, 5, 1));
    cu.cuMemsetD8(start, 7, 8 * MIB);
    cu.cuCtxSynchronize();
    ck_assert_int_eq(own[0], 0);
    ck_assert_int_eq(own[MIB - 1], 0);
}

/* A sanitizer may have the addresses that the simulator deals out. */
static bool hints_are_followed(void)
{
    tn_cu_deviceptr first = 0;
    OK(cu.cuMemAddressReserve(&first, 64 * MIB, 0, PLACE, 0));
    OK(cu.cuMemAddressFree(first, 64 * MIB));
    return first == PLACE;
}

/* Memory of each kind that has addresses of its own. */
static tn_cu_deviceptr other_memory(int kind)
{
    static char own[4 * MIB];
    tn_cu_deviceptr address = 0;
    void *host = own;
    if (kind == 0)
        OK(cu.cuMemAlloc(&address, 64 * MIB));
    else if (kind == 1)
        OK(cu.cuMemAllocAsync(&address, 64 * MIB, TN_CU_STREAM_LEGACY));
    else if (kind == 2)
        OK(cu.cuMemHostAlloc(&host, 4 * MIB, 0));
    else
        OK(cu.cuMemHostRegister(own, sizeof own, 0));
    return address != 0 ? address : (tn_cu_deviceptr)(uintptr_t)host;
}

/* A reservation before an address, as near as there is one; 0 where there is none within 8 GiB. */
static tn_cu_deviceptr reserve_before(tn_cu_deviceptr address)
{
    for (size_t distance = 64 * MIB; distance < 8192 * MIB; distance += 32 * MIB) {
        tn_cu_deviceptr got = 0;
        OK(cu.cuMemAddressReserve(&got, 64 * MIB, 0, (address - distance) / (32 * MIB) * (32 * MIB),
                                  0));
        if (got < address && address - got <= distance + 32 * MIB)
            return got;
        OK(cu.cuMemAddressFree(got, 64 * MIB));
    }
    return 0;
}

TEST_LOOP(lax, a_mapping_runs_over_no_memory_of_another_kind, 0, 4)
{
    enter_context();
    tn_cu_deviceptr address = other_memory(_i);
    tn_cu_deviceptr first = reserve_before(address);
    if (!hints_are_followed())
        return;
    ck_assert_uint_ne(first, 0);
    tn_cu_deviceptr last = first + 62 * MIB;
    size_t bytes = (address - last) / (2 * MIB) * (2 * MIB) + 4 * MIB;
    tn_cu_memhandle handle = physical(bytes);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(last, bytes, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemAddressFree(first, 64 * MIB));
}

/* Has the system put 4 GiB and something more where it would put the next, and keeps the end of that, from 64 MiB behind a
 * multiple of 4 GiB on. What the system gives next at such a multiple has this for a neighbour. MAP_FAILED where it does
 * not follow hints. */
static void *take_neighbour(size_t *bytes)
{
    const uintptr_t distance = (uintptr_t)1 << 32;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t probed = distance + 64 * MIB;
    void *probe = mmap(NULL, probed, PROT_NONE, flags, -1, 0);
    ck_assert(probe != MAP_FAILED);
    ck_assert_int_eq(munmap(probe, probed), 0);
    uintptr_t end = (uintptr_t)probe + probed;
    uintptr_t start = (uintptr_t)probe / distance * distance + 64 * MIB;
    if (start < (uintptr_t)probe)
        start += distance;
    *bytes = end - start;
    void *taken = mmap((void *)start, *bytes, PROT_NONE, flags, -1, 0);
    if (taken != MAP_FAILED && taken != (void *)start) {
        ck_assert_int_eq(munmap(taken, *bytes), 0);
        taken = MAP_FAILED;
    }
    return taken;
}

/* Wherever the system puts the process, nothing of it lies behind a reservation without a hint. */
TEST_LOOP(lax, behind_a_reservation_without_a_hint_there_is_room, 0, 2)
{
    size_t neighbour_bytes;
    enter_context();
    if (!hints_are_followed())
        return;
    void *neighbour = take_neighbour(&neighbour_bytes);
    if (neighbour == MAP_FAILED)
        return;
    size_t room = _i == 0 ? 2 * MIB : 64 * MIB;
    tn_cu_deviceptr first = reserve(room);
    tn_cu_memhandle handle = physical(256 * MIB);
    OK(cu.cuMemMap(first, 256 * MIB, 0, handle, 0));
    OK(give_access(first, 256 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    OK(cu.cuMemsetD8(first, 5, 256 * MIB));
    OK(cu.cuCtxSynchronize());
    ck_assert_int_eq(((const char *)first)[256 * MIB - 1], 5);
    OK(cu.cuMemUnmap(first, 256 * MIB));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemAddressFree(first, room));
    ck_assert_int_eq(munmap(neighbour, neighbour_bytes), 0);
}

TEST_LOOP(lax, hints_into_what_a_mapping_spilt_are_granted, 0, 12)
{
    enter_context();
    tn_cu_deviceptr first;
    tn_cu_memhandle handle = physical(128 * MIB);
    size_t offset = (size_t)_i / 4 * 32 * MIB;
    size_t bytes = (1 + (size_t)_i % 4) * 32 * MIB;
    OK(cu.cuMemAddressReserve(&first, 64 * MIB, 0, PLACE, 0));
    if (first != PLACE)
        return; /* hints are not what they are elsewhere */
    OK(cu.cuMemMap(first + 32 * MIB, 128 * MIB, 0, handle, 0));
    OK(give_access(first + 32 * MIB, 128 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    tarn_sim_ledger before = ledger();
    for (int round = 0; round < 2; round++) {
        tn_cu_deviceptr wish = first + 64 * MIB + offset;
        tn_cu_deviceptr second = 0;
        OK(cu.cuMemAddressReserve(&second, bytes, 0, wish, 0));
        ck_assert_uint_eq(second, wish);
        OK(cu.cuMemsetD8(first + 32 * MIB, 5, 128 * MIB));
        OK(cu.cuCtxSynchronize());
        ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(second, bytes));
        OK(cu.cuMemUnmap(first + 32 * MIB, 128 * MIB));
        OK(cu.cuMemAddressFree(second, bytes));
        OK(cu.cuMemMap(first + 32 * MIB, 128 * MIB, 0, handle, 0));
        OK(give_access(first + 32 * MIB, 128 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    }
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

TEST(lax, a_lax_driver_gives_access_up_to_the_first_gap)
{
    tn_cu_deviceptr address = reserve(64 * MIB);
    tn_cu_location here = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags;
    OK(cu.cuMemMap(address, 4 * MIB, 0, physical(4 * MIB), 0));
    OK(cu.cuMemMap(address + 8 * MIB, 2 * MIB, 0, physical(2 * MIB), 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, give_access(address, 8 * MIB, TN_CU_MEM_ACCESS_READ));
    OK(give_access(address, 10 * MIB, TN_CU_MEM_ACCESS_READ));
    OK(cu.cuMemGetAccess(&flags, &here, address));
    ck_assert_uint_eq(flags, TN_CU_MEM_ACCESS_READ);
    OK(cu.cuMemGetAccess(&flags, &here, address + 8 * MIB));
    ck_assert_uint_eq(flags, TN_CU_MEM_ACCESS_NONE);
}
