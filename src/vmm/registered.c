// SPDX-License-Identifier: Apache-2.0
/* Adding has three steps for each piece. The team touches its pages, a look tells on which node they
 * came to lie, and the driver registers the piece. The team goes on to the next pieces while the
 * calling thread registers, and the two overlap. If the team is at another caller's memory, the
 * calling thread touches the pages itself.
 *
 * Trade-offs: pages are touched by hand. A single call that has the system provide all pages
 * (MADV_POPULATE_WRITE) takes three times as long with 16 threads. A look asks after a page of each
 * 2 MiB, since asking after all pages takes as long as touching them. The size of pages is looked at
 * once, for the system's file about sizes lists all mappings of the process. */
#include "vmm/registered.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/placement.h"
#include "base/room.h"
#include "driver/register.h"

enum { AUTOMATIC_THREADS_MAX = 16 };

/* As many threads as the process may run at a time, rounded down to a power of two. */
static unsigned automatic_thread_count(void)
{
    cpu_set_t may;
    unsigned count = 1;

    if (sched_getaffinity(0, sizeof may, &may) == 0)
        count = (unsigned)CPU_COUNT(&may);
    count = (unsigned)tn_min(tn_max(count, 1), AUTOMATIC_THREADS_MAX);
    return 1U << tn_log2_floor(count);
}

tarn_status tn_registered_init(struct tn_registered *registered, struct tn_gpu *gpu,
                               unsigned thread_count)
{
    tarn_status status = tn_gpu_check_registers(gpu);

    if (thread_count == 0)
        thread_count = automatic_thread_count();
    TN_ASSERT(tn_is_power_of_two(thread_count) && thread_count <= TN_TEAM_THREADS_MAX);
    if (status != TARN_OK)
        return status;
    memset(registered, 0, sizeof *registered);
    registered->gpu = gpu;
    registered->node = tn_gpu_host_node(gpu);
    tn_host_regions_init(&registered->regions, registered->node);
    tn_team_init(&registered->team, thread_count, registered->node);
    return TARN_OK;
}

static void *pointer_to(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* Gives pages to the system, whose addresses fault from then on. */
static void give_pages(uint64_t base, uint64_t bytes)
{
    (void)madvise(pointer_to(base), bytes, MADV_DONTNEED);
    (void)mprotect(pointer_to(base), bytes, PROT_NONE);
}

/* Ends a registration whose pages are BUSY. Pages that the driver keeps stay BUSY for good: the
 * device may write to them. */
static void end_registration(struct tn_registered *registered, uint64_t base, uint64_t bytes)
{
    if (!tn_gpu_unregister(registered->gpu, pointer_to(base)))
        return;
    give_pages(base, bytes);
    tn_host_regions_mark(&registered->regions, base, bytes, TN_HOST_PAGE_NONE);
}

void tn_registered_remove(struct tn_registered *registered, uint64_t base, uint64_t bytes)
{
    struct tn_range run;

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(base % TN_PAGE_BYTES == 0 && bytes % TN_PAGE_BYTES == 0);
    while (tn_host_regions_pick(&registered->regions, base, bytes, &run))
        end_registration(registered, run.base, run.bytes);
}

/* Adding --------------------------------------------------------------------------------------- */

/* Memory that is being added. */
struct addition {
    struct tn_registered *registered;
    uint64_t base;
    uint64_t bytes; /* without gaps */
    uint64_t gap;   /* between pieces, which is left alone; 0: they lie side by side */
    uint64_t done;  /* bytes that are registered, from base on */
    bool by_team;   /* the team touches */
    bool whole;
};

/* Where the byte is that has so many in front. */
static uint64_t address_of(const struct addition *addition, uint64_t before)
{
    return addition->base + before + before / TN_HOST_PIECE_BYTES * addition->gap;
}

/* Looks on which node the pages lie. */
static void look(struct tn_registered *registered, const void *memory, uint64_t bytes)
{
    uint64_t counted;
    uint64_t elsewhere;

    if (registered->node < 0 ||
        !tn_placement_find(memory, bytes, TN_PAGE_BYTES, registered->node, &counted, &elsewhere))
        return;
    atomic_fetch_add(&registered->looked_at, counted);
    atomic_fetch_add(&registered->elsewhere, elsewhere);
    if (elsewhere > 0 && !atomic_exchange(&registered->said_elsewhere, true))
        tn_note("page-locked memory: %llu of %llu pages are not on NUMA node %d, which is the "
                "device's: copies may take longer",
                (unsigned long long)elsewhere, (unsigned long long)counted, registered->node);
}

static void touch_at(const struct addition *addition, uint64_t begin, uint64_t bytes)
{
    tn_placement_touch(pointer_to(begin), bytes);
    look(addition->registered, pointer_to(begin), bytes);
}

static void touch(void *job, uint64_t part)
{
    const struct addition *addition = job;

    touch_at(addition, address_of(addition, part * TN_PAGE_BYTES), TN_PAGE_BYTES);
}

/* How many bytes of these the next registration has, or the next run without a gap. */
static uint64_t bytes_from(const struct addition *addition, uint64_t before, bool whole)
{
    const uint64_t begin = address_of(addition, before);
    const uint64_t left = addition->bytes - before;

    return whole ? left
                 : tn_min(left,
                          tn_round_down(begin, TN_HOST_PIECE_BYTES) + TN_HOST_PIECE_BYTES - begin);
}

static tarn_status add_next(struct addition *addition)
{
    struct tn_registered *registered = addition->registered;
    const uint64_t begin = address_of(addition, addition->done);
    const uint64_t bytes = bytes_from(addition, addition->done, addition->whole);
    tarn_status status;

    if (addition->by_team)
        tn_team_await(&registered->team, (addition->done + bytes) / TN_PAGE_BYTES);
    else
        touch_at(addition, begin, bytes);
    status = tn_gpu_register(registered->gpu, pointer_to(begin), bytes);
    if (status != TARN_OK)
        return status;
    tn_host_regions_mark(&registered->regions, begin, bytes,
                         addition->whole ? TN_HOST_PAGE_FIRST_OF_WHOLE : TN_HOST_PAGE_FIRST);
    addition->done += bytes;
    return TARN_OK;
}

/* What is done with each run of an addition that has no gap. */
typedef void (*run_visitor)(const struct addition *addition, uint64_t begin, uint64_t bytes);

static void visit_runs(const struct addition *addition, uint64_t before, run_visitor visitor)
{
    for (uint64_t bytes; before < addition->bytes; before += bytes) {
        bytes = bytes_from(addition, before, addition->gap == 0);
        visitor(addition, address_of(addition, before), bytes);
    }
}

static void begin_run(const struct addition *addition, uint64_t begin, uint64_t bytes)
{
    tn_host_regions_mark(&addition->registered->regions, begin, bytes, TN_HOST_PAGE_BUSY);
}

static void undo_run(const struct addition *addition, uint64_t begin, uint64_t bytes)
{
    give_pages(begin, bytes);
    tn_host_regions_mark(&addition->registered->regions, begin, bytes, TN_HOST_PAGE_NONE);
}

static void undo(const struct addition *addition)
{
    if (addition->done > 0)
        tn_registered_remove(addition->registered, addition->base,
                             address_of(addition, addition->done) - addition->base);
    visit_runs(addition, addition->done, undo_run);
}

/* False: the system refuses. */
static bool open_pages(const struct addition *addition)
{
    bool opened = true;

    for (uint64_t before = 0, bytes; before < addition->bytes && opened; before += bytes) {
        bytes = bytes_from(addition, before, addition->gap == 0);
        opened =
            mprotect(pointer_to(address_of(addition, before)), bytes, PROT_READ | PROT_WRITE) == 0;
    }
    return opened;
}

/* Says once when the system has not granted huge pages: the first look tells. */
static void look_at_size(struct tn_registered *registered, const struct addition *addition)
{
    uint64_t huge;

    if (atomic_exchange(&registered->looked_at_size, true))
        return;
    huge = tn_placement_huge_bytes(pointer_to(addition->base),
                                   address_of(addition, addition->bytes) - addition->base);
    if (huge < addition->bytes)
        tn_note("page-locked memory: %llu of %llu MiB are in huge pages; more would make it faster "
                "to take: /sys/kernel/mm/transparent_hugepage/enabled",
                (unsigned long long)(huge / TN_MIB),
                (unsigned long long)(addition->bytes / TN_MIB));
}

/* The pages are BUSY. */
static tarn_status place_and_register(struct addition *addition)
{
    struct tn_registered *registered = addition->registered;
    struct tn_room room;
    tarn_status status = TARN_OK;

    if (!tn_room_promise(addition->bytes, &room))
        return tn_fail(TARN_ERR_HOST_MEMORY,
                       "page-locking %llu MiB: %s leaves the process %llu MiB",
                       (unsigned long long)(addition->bytes / TN_MIB), room.limit,
                       (unsigned long long)(room.bytes / TN_MIB));
    if (!open_pages(addition)) {
        tn_room_return(addition->bytes);
        return tn_fail(TARN_ERR_HOST_MEMORY, "the system refuses %llu MiB of memory to page-lock",
                       (unsigned long long)(addition->bytes / TN_MIB));
    }
    addition->by_team =
        tn_team_begin(&registered->team, touch, addition, addition->bytes / TN_PAGE_BYTES);
    while (status == TARN_OK && addition->done < addition->bytes)
        status = add_next(addition);
    if (addition->by_team)
        tn_team_end(&registered->team);
    tn_room_return(addition->bytes);
    return status;
}

static tarn_status add(struct addition addition)
{
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(addition.base % TN_PAGE_BYTES == 0 && addition.bytes % TN_PAGE_BYTES == 0);
    TN_ASSERT(addition.bytes > 0 && (addition.gap == 0 || addition.base % TN_SLOT_BYTES == 0));
    if (tn_is_forked())
        return tn_fork_refuse();
    visit_runs(&addition, 0, begin_run);
    status = place_and_register(&addition);
    if (status == TARN_OK)
        look_at_size(addition.registered, &addition);
    else
        undo(&addition);
    return status;
}

tarn_status tn_registered_add(struct tn_registered *registered, uint64_t base, uint64_t bytes)
{
    return add((struct addition){.registered = registered, .base = base, .bytes = bytes});
}

tarn_status tn_registered_add_whole(struct tn_registered *registered, uint64_t base, uint64_t bytes)
{
    return add(
        (struct addition){.registered = registered, .base = base, .bytes = bytes, .whole = true});
}

tarn_status tn_registered_add_slots(struct tn_registered *registered, uint64_t base,
                                    uint64_t slot_count)
{
    return add((struct addition){.registered = registered,
                                 .base = base,
                                 .bytes = slot_count * TN_HOST_PIECE_BYTES,
                                 .gap = TN_SLOT_BYTES - TN_HOST_PIECE_BYTES});
}

/* Looking -------------------------------------------------------------------------------------- */

struct tn_registered_usage tn_registered_usage(struct tn_registered *registered)
{
    struct tn_registered_usage usage = {
        .looked_at = atomic_load(&registered->looked_at),
        .elsewhere = atomic_load(&registered->elsewhere),
    };

    tn_host_regions_count(&registered->regions, &usage.reserved_bytes, &usage.registered_bytes,
                          &usage.registrations);
    return usage;
}

uint64_t tn_registered_huge_bytes(struct tn_registered *registered)
{
    struct tn_host_region *region = tn_host_regions_first(&registered->regions);
    uint64_t huge = 0;

    for (; region != NULL; region = region->next)
        huge += tn_placement_huge_bytes(region->mapped, region->mapped_bytes);
    return huge;
}

bool tn_registered_find(struct tn_registered *registered, uint64_t *counted, uint64_t *elsewhere)
{
    struct tn_host_region *region = tn_host_regions_first(&registered->regions);
    const size_t step = (size_t)sysconf(_SC_PAGESIZE);
    bool says = registered->node >= 0;

    *counted = 0;
    *elsewhere = 0;
    for (; says && region != NULL; region = region->next) {
        uint64_t address = region->base;
        struct tn_range run = {0, 0};

        while (says && tn_host_regions_next(&registered->regions, region, address, &run)) {
            uint64_t here;
            uint64_t not_here;

            says = tn_placement_find(pointer_to(run.base), run.bytes, step, registered->node, &here,
                                     &not_here);
            address = run.base + run.bytes;
            *counted += here;
            *elsewhere += not_here;
        }
    }
    return says;
}

void tn_registered_fini(struct tn_registered *registered)
{
    struct tn_host_region *region = tn_host_regions_first(&registered->regions);

    TN_ASSERT(tn_lock_none_held());
    tn_team_fini(&registered->team);
    for (; region != NULL; region = region->next)
        tn_registered_remove(registered, region->base, region->slot_count * TN_SLOT_BYTES);
    tn_host_regions_fini(&registered->regions);
}
