// SPDX-License-Identifier: Apache-2.0
/* Two nodes, simulated: a page lies where the thread ran that touched it, or where it is bound to. */
#include "vmm/registered.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/placement.h"
#include "base/room.h"
#include "support/liar.h"
#include "unit/unit.h"
#include "vmm/address_table.h"

enum { PAGES_MAX = 4096 };

static struct tn_gpu gpu;
static struct tn_registered registered;
static tarn_sim_ledger before;
static int64_t outstanding;

/* The system, as the test has it. */
static bool binds;           /* memory can be bound */
static bool finds = true;    /* where a page is can be asked for */
static bool has_huge = true; /* pages are huge */
static uint64_t room = UINT64_MAX;
static bool refuses_memory;       /* mprotect */
static _Thread_local int on_node; /* where the thread runs: 0 at first */
static int bound_to = TN_PLACEMENT_ANYWHERE;
static atomic_int node_of[PAGES_MAX]; /* 1 + the node, by the 2 MiB from the first touched on */
static atomic_uint_fast64_t first_touched;
static atomic_int looks_at_size;

bool __wrap_tn_placement_bind(void *memory, size_t bytes, int node);
bool __wrap_tn_placement_bind(void *memory, size_t bytes, int node)
{
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_gt(bytes, 0);
    if (binds)
        bound_to = node;
    return binds;
}

static bool runs_on_nodes;

bool __wrap_tn_placement_run_on(int node);
bool __wrap_tn_placement_run_on(int node)
{
    if (runs_on_nodes)
        on_node = node;
    return runs_on_nodes;
}

static atomic_int *node_at(uint64_t address)
{
    uint64_t none = 0;

    (void)atomic_compare_exchange_strong(&first_touched, &none,
                                         tn_round_down(address, TN_GIB) - TN_GIB);
    return &node_of[(address - atomic_load(&first_touched)) / TN_PAGE_BYTES % PAGES_MAX];
}

void __real_tn_placement_touch(void *memory, size_t bytes);
void __wrap_tn_placement_touch(void *memory, size_t bytes);
void __wrap_tn_placement_touch(void *memory, size_t bytes)
{
    ck_assert(tn_lock_none_held());
    for (size_t at = 0; at < bytes; at += TN_PAGE_BYTES)
        atomic_store(node_at((uintptr_t)memory + at),
                     1 + (bound_to != TN_PLACEMENT_ANYWHERE ? bound_to : on_node));
    __real_tn_placement_touch(memory, bytes);
}

bool __wrap_tn_placement_find(const void *memory, size_t bytes, size_t step, int node,
                              uint64_t *counted, uint64_t *elsewhere);
bool __wrap_tn_placement_find(const void *memory, size_t bytes, size_t step, int node,
                              uint64_t *counted, uint64_t *elsewhere)
{
    *counted = 0;
    *elsewhere = 0;
    for (size_t at = 0; at < bytes; at += step) {
        int is = atomic_load(node_at((uintptr_t)memory + at));

        ck_assert_int_ne(is, 0); /* touched before it is looked at */
        *counted += 1;
        *elsewhere += is - 1 != node;
    }
    return finds;
}

uint64_t __wrap_tn_placement_huge_bytes(const void *memory, size_t bytes);
uint64_t __wrap_tn_placement_huge_bytes(const void *memory, size_t bytes)
{
    ck_assert_ptr_nonnull(memory);
    (void)atomic_fetch_add(&looks_at_size, 1);
    return has_huge ? bytes : 0;
}

bool __wrap_tn_room_promise(uint64_t bytes, struct tn_room *found);
bool __real_tn_room_promise(uint64_t bytes, struct tn_room *found);
bool __wrap_tn_room_promise(uint64_t bytes, struct tn_room *found)
{
    if (bytes <= room)
        return __real_tn_room_promise(bytes, found);
    *found = (struct tn_room){room, "the memory limit of its control group"};
    return false;
}

int __real_mprotect(void *address, size_t bytes, int access);
int __wrap_mprotect(void *address, size_t bytes, int access);
int __wrap_mprotect(void *address, size_t bytes, int access)
{
    return refuses_memory && access != PROT_NONE ? -1 : __real_mprotect(address, bytes, access);
}

static void open_with(unsigned thread_count)
{
    unit_gpu(&gpu);
    outstanding = tn_host_outstanding();
    before = test_ledger();
    OK(tn_registered_init(&registered, &gpu, thread_count));
}

static void open_registered(void)
{
    open_with(4);
}

static uint64_t take(uint64_t slot_count)
{
    uint64_t base = 0;

    OK(tn_host_regions_take(&registered.regions, slot_count, &base));
    ck_assert_uint_eq(base % TN_SLOT_BYTES, 0);
    return base;
}

static char *at(uint64_t address)
{
    return (char *)(uintptr_t)address;
}

static void expect(uint64_t bytes, uint64_t registrations)
{
    struct tn_registered_usage usage = tn_registered_usage(&registered);

    ck_assert_uint_eq(usage.registered_bytes, bytes);
    ck_assert_uint_eq(usage.registrations, registrations);
    ck_assert_uint_eq(test_ledger().registered_bytes, before.registered_bytes + bytes);
    ck_assert_uint_eq(test_ledger().host_registrations, before.host_registrations + registrations);
    OK(tn_host_regions_check(&registered.regions));
    ck_assert(tn_lock_none_held());
}

/* Whether the process has memory there: a system call that reads it says so. */
static bool is_there(uint64_t address)
{
    int pipes[2];
    bool there;

    ck_assert_int_eq(pipe(pipes), 0);
    there = write(pipes[1], at(address), 1) == 1;
    ck_assert_int_eq(close(pipes[0]), 0);
    ck_assert_int_eq(close(pipes[1]), 0);
    return there;
}

static void close_registered(void)
{
    tn_registered_fini(&registered);
    ck_assert_uint_eq(test_ledger().host_registrations, before.host_registrations);
    ck_assert_int_eq(tn_host_outstanding(), outstanding);
    tn_gpu_close(&gpu);
}

GROUP(registered, open_registered, close_registered)

TEST(registered, memory_is_registered_in_pieces_of_16_mib)
{
    uint64_t base = take(2);

    OK(tn_registered_add(&registered, base, 64 * MIB));
    expect(64 * MIB, 4);
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, base + (uint64_t)i * MIB),
                          base + (uint64_t)(i / 16 + 1) * 16 * MIB);
    ck_assert_int_eq(at(base)[64 * MIB - 1], 0);
    memset(at(base), 1, 64 * MIB);
    tn_registered_remove(&registered, base, 64 * MIB);
    expect(0, 0);
    ck_assert(!is_there(base));
    tn_host_regions_give(&registered.regions, base, 2);
}

TEST(registered, pieces_end_at_multiples_of_16_mib)
{
    uint64_t base = take(2);

    OK(tn_registered_add(&registered, base + 12 * MIB, 24 * MIB));
    expect(24 * MIB, 3);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, base + 12 * MIB),
                      base + 16 * MIB);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, base + 31 * MIB),
                      base + 32 * MIB);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, base + 34 * MIB),
                      base + 36 * MIB);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, base + 36 * MIB), 0);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, base + 10 * MIB), 0);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, 4096), 0);
    OK(tn_registered_add(&registered, base + 10 * MIB, 2 * MIB));
    OK(tn_registered_add(&registered, base + 36 * MIB, 28 * MIB));
    expect(54 * MIB, 6);
}

TEST(registered, one_registration_can_be_asked_for)
{
    uint64_t base = take(3);

    OK(tn_registered_add_whole(&registered, base + 2 * MIB, 70 * MIB));
    expect(70 * MIB, 1);
    ck_assert_uint_eq(tn_host_regions_end_of(&registered.regions, base + 17 * MIB),
                      base + 72 * MIB);
}

TEST(registered, a_removal_takes_what_lies_in_its_range_alone)
{
    uint64_t base = take(2);

    OK(tn_registered_add(&registered, base, 48 * MIB));
    at(base)[0] = 7;
    at(base)[47 * MIB] = 8;
    tn_registered_remove(&registered, base + 16 * MIB, 16 * MIB);
    expect(32 * MIB, 2);
    ck_assert_int_eq(at(base)[0], 7);
    ck_assert_int_eq(at(base)[47 * MIB], 8);
    ck_assert(!is_there(base + 16 * MIB));
    tn_registered_remove(&registered, base + 16 * MIB, 16 * MIB);
    OK(tn_registered_add(&registered, base + 16 * MIB, 16 * MIB));
    ck_assert_int_eq(at(base)[16 * MIB], 0);
    expect(48 * MIB, 3);
}

TEST(registered, what_comes_back_is_zeros)
{
    uint64_t base = take(1);

    OK(tn_registered_add(&registered, base, 4 * MIB));
    memset(at(base), 9, 4 * MIB);
    tn_registered_remove(&registered, base, 4 * MIB);
    OK(tn_registered_add(&registered, base, 4 * MIB));
    for (size_t i = 0; i < 4 * MIB; i += 512)
        ck_assert_int_eq(at(base)[i], 0);
}

/* Each of the calls that an addition makes is refused in turn. */
TEST(registered, a_piece_that_is_refused_takes_the_others_back)
{
    uint64_t base = take(2);

    OK(tn_registered_add(&registered, base + 48 * MIB, 16 * MIB));
    for (uint64_t nth = 1; nth <= 3; nth++) {
        sim.plan_fault("cuMemHostRegister", nth, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        STATUS(TARN_ERR_HOST_MEMORY, tn_registered_add(&registered, base, 48 * MIB));
        unit_expect_sentence("16 MiB");
        expect(16 * MIB, 1);
        ck_assert(!is_there(base));
        ck_assert(!is_there(base + 46 * MIB));
        ck_assert(is_there(base + 48 * MIB));
    }
    OK(tn_registered_add(&registered, base, 48 * MIB));
    expect(64 * MIB, 4);
}

enum { CALLS_MAX = 24 };

/* Any call of the driver, once and from then on. A call that puts something back poisons the device, and
 * the memory is there all the same. */
TEST_LOOP(registered, whatever_call_is_refused_nothing_is_left, 0, 2 * CALLS_MAX)
{
    uint64_t base = take(2);
    bool for_good = _i % 2 != 0;
    uint64_t hits;
    tarn_status status;

    sim.plan_fault(NULL, (uint64_t)_i / 2 + 1, for_good, TN_CUDA_ERROR_OUT_OF_MEMORY);
    status = tn_registered_add(&registered, base, 40 * MIB);
    hits = sim.clear_fault(NULL);
    if (_i >= 2 * (CALLS_MAX - 1))
        ck_assert_uint_eq(hits, 0); /* all calls were refused in turn */
    if (hits == 0 || status == TARN_OK) {
        OK(status);
        expect(40 * MIB, 3);
    } else if (!for_good) {
        ck_assert(status == TARN_ERR_HOST_MEMORY || status == TARN_ERR_DEVICE_MEMORY ||
                  status == TARN_ERR_DRIVER || status == TARN_ERR_POISONED);
        expect(0, 0);
        ck_assert(!is_there(base));
    }
    tn_registered_remove(&registered, base, 40 * MIB);
    if (!for_good) {
        expect(0, 0);
        return;
    }
    /* What the driver has kept stays mapped, for the device may write to it. */
    ck_assert_int_eq(is_there(base), test_ledger().host_registrations > before.host_registrations);
    before.host_registrations = test_ledger().host_registrations;
}

TEST(registered, memory_that_the_system_refuses_leaves_nothing)
{
    uint64_t base = take(2);

    refuses_memory = true;
    STATUS(TARN_ERR_HOST_MEMORY, tn_registered_add(&registered, base, 64 * MIB));
    unit_expect_sentence("64 MiB");
    refuses_memory = false;
    expect(0, 0);
    OK(tn_registered_add(&registered, base, 64 * MIB));
}

TEST(registered, more_than_the_control_group_has_left_is_not_touched)
{
    uint64_t base = take(2);

    room = 20 * MIB;
    STATUS(TARN_ERR_HOST_MEMORY, tn_registered_add(&registered, base, 32 * MIB));
    unit_expect_sentence("page-locking 32 MiB: the memory limit of its control group leaves the "
                         "process 20 MiB");
    ck_assert_uint_eq(atomic_load(&first_touched), 0);
    expect(0, 0);
    OK(tn_registered_add(&registered, base, 20 * MIB));
}

/* Others ---------------------------------------------------------------------------------------- */

static void open_with_costs(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_COSTS", "h200", 1), 0);
    open_registered();
}

GROUP(stalls, open_with_costs, close_registered)

/* As long as a piece takes to register, and not as long as all of them. */
TEST(stalls, others_wait_half_a_millisecond_at_most)
{
    OK(tn_registered_add(&registered, take(8), 256 * MIB));
    ck_assert_uint_gt(sim.longest_stall_ns(), 300000);
    ck_assert_uint_lt(sim.longest_stall_ns(), 500000);
}

TEST(stalls, what_is_added_whole_stops_others_for_all_of_it)
{
    OK(tn_registered_add_whole(&registered, take(8), 256 * MIB));
    ck_assert_uint_gt(sim.longest_stall_ns(), 6000000);
}

/* Nodes ------------------------------------------------------------------------------------------ */

static void open_on_node_1(void)
{
    open_registered();
    registered.node = 1;
    registered.regions.node = 1;
    tn_team_fini(&registered.team);
    tn_team_init(&registered.team, 4, 1);
}

GROUP(nodes, open_on_node_1, close_registered)

static void expect_elsewhere(uint64_t expected)
{
    uint64_t counted;
    uint64_t elsewhere;
    struct tn_registered_usage usage;

    OK(tn_registered_add(&registered, take(1), 32 * MIB));
    usage = tn_registered_usage(&registered);
    ck_assert_uint_eq(usage.looked_at, 16);
    ck_assert_uint_eq(usage.elsewhere, expected);
    ck_assert(tn_registered_find(&registered, &counted, &elsewhere));
    ck_assert_uint_eq(counted, 32 * MIB / (uint64_t)sysconf(_SC_PAGESIZE));
    ck_assert_uint_eq(elsewhere, counted * expected / 16);
    ck_assert_int_eq(atomic_load(&registered.said_elsewhere), expected > 0);
}

TEST(nodes, bound_memory_comes_from_the_devices_node)
{
    binds = true;
    expect_elsewhere(0);
}

TEST(nodes, threads_on_the_devices_node_take_its_memory)
{
    runs_on_nodes = true;
    expect_elsewhere(0);
}

TEST(nodes, pages_on_another_node_are_counted_and_said)
{
    expect_elsewhere(16);
}

TEST(nodes, a_system_that_does_not_say_counts_nothing)
{
    uint64_t counted;
    uint64_t elsewhere;

    finds = false;
    OK(tn_registered_add(&registered, take(1), 32 * MIB));
    ck_assert_uint_eq(tn_registered_usage(&registered).looked_at, 0);
    ck_assert(!tn_registered_find(&registered, &counted, &elsewhere));
}

TEST(nodes, whether_pages_are_huge_is_looked_at_once)
{
    uint64_t base = take(1);

    has_huge = false;
    OK(tn_registered_add(&registered, base, 16 * MIB));
    OK(tn_registered_add(&registered, base + 16 * MIB, 16 * MIB));
    ck_assert_int_eq(atomic_load(&looks_at_size), 1);
    ck_assert_uint_eq(tn_registered_huge_bytes(&registered), 0);
    has_huge = true;
    ck_assert_uint_ge(tn_registered_huge_bytes(&registered), 32 * MIB);
}

/* Threads ---------------------------------------------------------------------------------------- */

struct adder {
    pthread_t thread;
    uint64_t base;
};

static void *add_and_remove(void *argument)
{
    struct adder *adder = argument;

    for (int i = 0; i < 20; i++) {
        OK(tn_registered_add(&registered, adder->base, 34 * MIB));
        memset(at(adder->base), i, 34 * MIB);
        ck_assert_uint_ne(tn_host_regions_end_of(&registered.regions, adder->base), 0);
        tn_registered_remove(&registered, adder->base, 34 * MIB);
    }
    return NULL;
}

TEST(registered, threads_add_and_remove_at_a_time)
{
    struct adder adders[4];

    for (int i = 0; i < 4; i++) {
        adders[i].base = take(2);
        ck_assert_int_eq(pthread_create(&adders[i].thread, NULL, add_and_remove, &adders[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(adders[i].thread, NULL), 0);
    expect(0, 0);
}

TEST(registered, a_child_of_fork_is_refused_and_has_no_copy)
{
    uint64_t base = take(1);
    int state = 0;
    pid_t child;

    OK(tn_registered_add(&registered, base, 4 * MIB));
    child = fork();
    if (child == 0)
        _exit(!is_there(base) &&
                      tn_registered_add(&registered, base + 8 * MIB, 2 * MIB) == TARN_ERR_FORKED
                  ? 0
                  : 1);
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_int_eq(state, 0);
    ck_assert(is_there(base));
}

TEST(registered, as_many_threads_as_processors_are_chosen)
{
    tn_registered_fini(&registered);
    OK(tn_registered_init(&registered, &gpu, 0));
    ck_assert(tn_is_power_of_two(registered.team.thread_count));
    ck_assert_uint_le(registered.team.thread_count, 16);
}

static void open_alone(void)
{
    unit_gpu(&gpu);
}

GROUP(refused, open_alone)

TEST(refused, what_the_driver_keeps_stays_mapped)
{
    uint64_t base = 0;

    open_registered();
    base = take(1);
    OK(tn_registered_add(&registered, base, 32 * MIB));
    sim.plan_fault("cuMemHostUnregister", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_registered_remove(&registered, base, 32 * MIB);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
    ck_assert(is_there(base));
    ck_assert(!is_there(base + 16 * MIB));
    tn_registered_fini(&registered);
    ck_assert(is_there(base));
}

TEST(refused, a_device_that_cannot_register_has_no_such_memory)
{
    struct tn_driver driver =
        test_lacking_attribute(gpu.driver, TN_CU_ATTR_HOST_POINTER_FOR_REGISTERED);

    gpu.driver = &driver;
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_registered_init(&registered, &gpu, 1));
    unit_expect_sentence("registered memory at the process's own addresses");
}

CONTRACT_TEST(refused, no_lock_is_held_while_memory_is_added)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_POOL);
    uint64_t base;

    open_registered();
    base = take(1);
    tn_lock_acquire(&lock);
    OK(tn_registered_add(&registered, base, 2 * MIB));
}
