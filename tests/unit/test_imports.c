// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "driver/open.h"
#include "unit/unit.h"
#include "vmm/imports.h"

static const struct tn_memory_properties exportable = {.exportable = true};

enum { RUN = 3 };

static struct tn_gpu gpu;
static struct tn_imports imports;
static tarn_sim_ledger before;
/* Of 2, 4 and 8 MiB: as another process's, and the originals. */
static struct tn_memory *made[RUN];
static struct tn_memory *memories[RUN];

static void open_gpu(void)
{
    const struct tn_driver *driver;

    test_start();
    OK(tn_driver_load(&driver));
    OK(tn_gpu_open(&gpu, driver, 0));
    before = test_ledger();
    for (size_t i = 0; i < RUN; i++) {
        uint64_t bytes = 2 * TN_MIB << i;

        OK(tn_memory_create(&gpu, bytes, exportable, &made[i]));
        OK(tn_memory_import(test_import_handle(made[i]->handle), bytes, exportable, &memories[i]));
    }
    imports = (struct tn_imports){.gpu = NULL};
    tn_imports_init(&imports, &gpu, 8 * TN_MIB);
}

static void close_gpu(void)
{
    tn_imports_fini(&imports);
    for (size_t i = 0; i < RUN; i++) {
        tn_memory_destroy(&gpu, memories[i]);
        tn_memory_destroy(&gpu, made[i]);
    }
    test_same_ledger(&before);
}

static struct tn_import import_of(size_t first, size_t count)
{
    struct tn_import import;

    tn_import_init(&import, &memories[first], count);
    return import;
}

GROUP(imports, open_gpu, close_gpu)

TEST(imports, a_run_lies_in_addresses_of_exactly_its_size)
{
    struct tn_import import = import_of(0, RUN);
    tarn_sim_ledger unmapped = test_ledger();
    uint64_t address;

    OK(tn_import_use(&imports, &import, &address));
    ck_assert_uint_eq(test_ledger().reserved_bytes, unmapped.reserved_bytes + 14 * TN_MIB);
    ck_assert_uint_eq(test_ledger().mappings, unmapped.mappings + RUN);
    ck_assert_uint_eq(atomic_load(&imports.mapped_bytes), 14 * TN_MIB);
    tn_import_leave(&imports, &import);
    tn_import_fini(&imports, &import);
}

TEST(imports, uses_of_one_run_are_one_mapping)
{
    struct tn_import import = import_of(0, 1);
    uint64_t first;
    uint64_t second;

    OK(tn_import_use(&imports, &import, &first));
    OK(tn_import_use(&imports, &import, &second));
    ck_assert_uint_eq(first, second);
    ck_assert_uint_eq(atomic_load(&imports.mapped_count), 1);
    tn_import_leave(&imports, &import);
    tn_import_leave(&imports, &import);
    OK(tn_import_use(&imports, &import, &second)); /* it has stayed */
    ck_assert_uint_eq(first, second);
    tn_import_leave(&imports, &import);
    tn_import_fini(&imports, &import);
}

/* V10 */
TEST(imports, what_was_unused_for_longest_goes_beyond_the_limit)
{
    struct tn_import old = import_of(0, 1);
    struct tn_import used = import_of(1, 1);
    struct tn_import large = import_of(2, 1);
    uint64_t address;
    uint64_t count;
    uint64_t bytes;
    uint64_t unused;

    OK(tn_import_use(&imports, &old, &address));
    OK(tn_import_use(&imports, &used, &address));
    OK(tn_import_use(&imports, &large, &address));
    tn_import_leave(&imports, &old);
    ck_assert_uint_ne(old.address, 0);
    tn_import_leave(&imports, &large); /* 2 and 8 MiB, of 8 */
    ck_assert_uint_eq(old.address, 0);
    ck_assert_uint_ne(large.address, 0);
    ck_assert_uint_eq(imports.unused_bytes, 8 * TN_MIB);
    tn_imports_usage(&imports, &count, &bytes, &unused);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(bytes, 12 * TN_MIB);
    ck_assert_uint_eq(unused, 8 * TN_MIB);
    ck_assert_uint_eq(tn_imports_shrink(&imports, 0), 8 * TN_MIB);
    ck_assert_uint_eq(imports.unused_bytes, 0);
    ck_assert_uint_ne(used.address, 0);
    OK(tn_import_use(&imports, &old, &address)); /* mapped anew */
    tn_import_leave(&imports, &old);
    tn_import_leave(&imports, &used);
    tn_import_fini(&imports, &old);
    tn_import_fini(&imports, &used);
    tn_import_fini(&imports, &large);
}

TEST(imports, addresses_are_found_while_they_are_mapped)
{
    struct tn_import import = import_of(0, 2);
    struct tn_import_place place;
    uint64_t address;

    OK(tn_import_use(&imports, &import, &address));
    ck_assert(tn_import_is_at(address));
    ck_assert(tn_import_is_at(address + 6 * TN_MIB - 1));
    ck_assert(tn_import_find(address + 3 * TN_MIB, &place));
    ck_assert_uint_eq(place.address, address);
    ck_assert_uint_eq(place.bytes, 6 * TN_MIB);
    ck_assert_uint_eq(place.memory_address, address + 2 * TN_MIB);
    ck_assert_uint_eq(place.memory_bytes, 4 * TN_MIB);
    ck_assert_int_eq(place.ordinal, 0);
    ck_assert(!tn_import_is_at(address + 6 * TN_MIB));
    ck_assert(!tn_import_is_at(address - 1));
    tn_import_leave(&imports, &import);
    tn_import_fini(&imports, &import);
    ck_assert(!tn_import_is_at(address));
}

static void refuse(const char *function, int result, tarn_status status)
{
    struct tn_import import = import_of(0, RUN);
    tarn_sim_ledger unmapped = test_ledger();
    uint64_t address = 7;

    sim.plan_fault(function, strcmp(function, "cuMemAddressReserve") == 0 ? 1 : 2, 0, result);
    STATUS(status, tn_import_use(&imports, &import, &address));
    ck_assert_uint_eq(address, 7);
    ck_assert_uint_eq(import.use_count, 0);
    test_same_ledger(&unmapped);
}

TEST(imports, a_run_that_cannot_be_mapped_leaves_nothing)
{
    refuse("cuMemAddressReserve", TN_CUDA_ERROR_OUT_OF_MEMORY, TARN_ERR_ADDRESS_SPACE);
    refuse("cuMemMap", TN_CUDA_ERROR_OUT_OF_MEMORY, TARN_ERR_DEVICE_MEMORY);
    refuse("cuMemSetAccess", TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER);
}

static void open_two(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    open_gpu();
}

GROUP(peers, open_two, close_gpu)

static bool peer_reaches(uint64_t address)
{
    return test_access(1, (const void *)(uintptr_t)address) == TN_CU_MEM_ACCESS_READWRITE;
}

TEST(peers, a_peer_reaches_what_is_mapped_and_what_will_be)
{
    struct tn_import first = import_of(0, 2);
    struct tn_import second = import_of(2, 1);
    uint64_t address;

    OK(tn_import_use(&imports, &first, &address));
    OK(tn_imports_add_peer(&imports, 1));
    ck_assert(peer_reaches(address));
    ck_assert(peer_reaches(address + 2 * TN_MIB));
    OK(tn_imports_add_peer(&imports, 1));
    OK(tn_import_use(&imports, &second, &address));
    ck_assert(peer_reaches(address));
    tn_import_leave(&imports, &first);
    tn_import_leave(&imports, &second);
    tn_import_fini(&imports, &first);
    tn_import_fini(&imports, &second);
}

/* Each call of the driver in turn: no import keeps what another was refused. */
TEST(peers, a_peer_is_added_to_all_imports_or_to_none)
{
    struct tn_import first = import_of(0, 2);
    struct tn_import second = import_of(2, 1);
    uint64_t addresses[2];

    OK(tn_import_use(&imports, &first, &addresses[0]));
    OK(tn_import_use(&imports, &second, &addresses[1]));
    for (uint64_t nth = 1; nth <= RUN; nth++) {
        sim.plan_fault("cuMemSetAccess", nth, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_imports_add_peer(&imports, 1));
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        ck_assert(!peer_reaches(addresses[0]));
        ck_assert(!peer_reaches(addresses[0] + 2 * TN_MIB));
        ck_assert(!peer_reaches(addresses[1]));
    }
    OK(tn_imports_add_peer(&imports, 1));
    ck_assert(peer_reaches(addresses[0]) && peer_reaches(addresses[1]));
    tn_import_leave(&imports, &first);
    tn_import_leave(&imports, &second);
    tn_import_fini(&imports, &first);
    tn_import_fini(&imports, &second);
}

CONTRACT_TEST(imports, an_import_that_is_used_does_not_end)
{
    struct tn_import import = import_of(0, 1);
    uint64_t address;

    OK(tn_import_use(&imports, &import, &address));
    tn_import_fini(&imports, &import);
}
