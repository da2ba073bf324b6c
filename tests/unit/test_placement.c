// SPDX-License-Identifier: Apache-2.0
/* The system has as many nodes as the test wants: its calls and its files are the test's. */
#include "base/placement.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "unit/unit.h"

enum { PAGE = 4096, PAGES = 1200 };

static bool refuses;      /* every call, with EPERM */
static int bound_to = -1; /* the node of the last mbind */
static void *bound;       /* and what was bound */
static uint64_t bound_bytes;
static int node_of_page[PAGES]; /* what move_pages says of the mapping's pages */
static char *mapping;
static const char *list; /* the processors of node 1; NULL: no file */
static const char *smaps;
static cpu_set_t may;
static cpu_set_t chosen;
static int choices; /* calls of sched_setaffinity */

static long tell_nodes(unsigned long count, const void **pages, int *nodes)
{
    for (unsigned long i = 0; i < count; i++)
        nodes[i] = node_of_page[((const char *)pages[i] - mapping) / PAGE];
    return 0;
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list rest;
    unsigned long arguments[6];

    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(rest, unsigned long);
    va_end(rest);
    if (refuses) {
        errno = EPERM;
        return -1;
    }
    if (number == SYS_move_pages)
        return tell_nodes(arguments[1], (const void **)arguments[2], (int *)arguments[4]);
    ck_assert_int_eq(number, SYS_mbind);
    bound = (void *)arguments[0];
    bound_bytes = arguments[1];
    bound_to = __builtin_ctzl(*(const unsigned long *)arguments[3]);
    ck_assert_uint_gt(arguments[4], (unsigned long)bound_to + 1);
    return 0;
}

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    bool is_smaps = strcmp(path, "/proc/self/smaps") == 0;
    const char *text = is_smaps ? smaps : list;

    if (!is_smaps)
        ck_assert_str_eq(path, "/sys/devices/system/node/node1/cpulist");
    ck_assert_ptr_nonnull(mode);
    return text == NULL ? NULL : fmemopen((void *)(uintptr_t)text, strlen(text), "r");
}

int __wrap_sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set)
{
    ck_assert_int_eq(thread, 0);
    ck_assert_uint_eq(bytes, sizeof *set);
    *set = may;
    return 0;
}

int __wrap_sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *set)
{
    ck_assert_int_eq(thread, 0);
    ck_assert_uint_eq(bytes, sizeof *set);
    chosen = *set;
    choices += 1;
    return 0;
}

static void map_pages(void)
{
    mapping = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    ck_assert_ptr_ne(mapping, MAP_FAILED);
}

GROUP(placement, map_pages)

TEST(placement, memory_is_bound_to_the_node)
{
    ck_assert(tn_placement_bind(mapping, 2 * PAGE, 3));
    ck_assert_int_eq(bound_to, 3);
    ck_assert_ptr_eq(bound, mapping);
    ck_assert_uint_eq(bound_bytes, 2 * PAGE);
}

TEST(placement, a_refusal_is_said_and_leaves_errno)
{
    uint64_t counted;
    uint64_t elsewhere;

    refuses = true;
    errno = 7;
    ck_assert(!tn_placement_bind(mapping, PAGE, 0));
    ck_assert(!tn_placement_find(mapping, PAGE, PAGE, 0, &counted, &elsewhere));
    ck_assert_int_eq(errno, 7);
}

TEST(placement, anywhere_and_what_no_kernel_has_are_no_nodes)
{
    ck_assert(!tn_placement_bind(mapping, PAGE, TN_PLACEMENT_ANYWHERE));
    ck_assert(!tn_placement_bind(mapping, PAGE, 1024));
    ck_assert(!tn_placement_run_on(TN_PLACEMENT_ANYWHERE));
    ck_assert_int_eq(bound_to, -1);
    ck_assert_int_eq(choices, 0);
}

static void expect_chosen(const char *processors)
{
    char text[256] = "";

    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &chosen))
            (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%zu ", cpu);
    }
    ck_assert_str_eq(text, processors);
}

TEST(placement, a_thread_runs_on_the_nodes_processors_as_far_as_it_may)
{
    for (size_t cpu = 2; cpu < 12; cpu++)
        CPU_SET(cpu, &may);
    list = "0-3,8,10-11,40\n";
    ck_assert(tn_placement_run_on(1));
    expect_chosen("2 3 8 10 11 ");
    list = "5";
    ck_assert(tn_placement_run_on(1));
    expect_chosen("5 ");
}

TEST(placement, a_thread_that_may_not_run_on_the_node_stays_where_it_is)
{
    CPU_SET(2, &may);
    list = "0-1\n";
    ck_assert(!tn_placement_run_on(1));
    list = "";
    list = "-\n";
    ck_assert(!tn_placement_run_on(1));
    list = NULL;
    ck_assert(!tn_placement_run_on(1));
    ck_assert_int_eq(choices, 0);
}

TEST(placement, touched_pages_are_there_and_are_zeros)
{
    unsigned char there[PAGES];

    tn_placement_touch(mapping + PAGE, 3 * PAGE);
    ck_assert_int_eq(mincore(mapping, 5 * PAGE, there), 0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(there[i] & 1, i >= 1 && i <= 3);
    for (int i = 0; i < 5 * PAGE; i++)
        ck_assert_int_eq(mapping[i], 0);
}

/* More pages than are asked for at once. */
TEST(placement, pages_on_other_nodes_are_counted)
{
    uint64_t counted;
    uint64_t elsewhere;

    for (int i = 0; i < PAGES; i++)
        node_of_page[i] = i % 3 == 0 ? 0 : 1;
    ck_assert(tn_placement_find(mapping, (size_t)PAGES * PAGE, PAGE, 1, &counted, &elsewhere));
    ck_assert_uint_eq(counted, PAGES);
    ck_assert_uint_eq(elsewhere, PAGES / 3);
    ck_assert(tn_placement_find(mapping, 7 * PAGE, 3 * PAGE, 1, &counted, &elsewhere));
    ck_assert_uint_eq(counted, 3);
    ck_assert_uint_eq(elsewhere, 3);
    for (int i = 0; i < PAGES; i++)
        node_of_page[i] = -ENOENT;
    ck_assert(tn_placement_find(mapping, (size_t)PAGES * PAGE, PAGE, 1, &counted, &elsewhere));
    ck_assert_uint_eq(counted, 0);
}

TEST(placement, huge_pages_within_the_range_are_counted)
{
    smaps = "1000-3000 rw-p 00000000 00:00 0\nSize: 8 kB\nAnonHugePages:      99 kB\n"
            "10000-20000 rw-p 00000000 00:00 0 /dev/zero\nAnonHugePages:      4 kB\n"
            "20000-30000 ---p 00000000 00:00 0\nAnonHugePages:      8 kB\nVmFlags: rd\n"
            "30000-50000 ---p 00000000 00:00 0\nAnonHugePages:      16 kB\n"
            "60000-70000 ---p 00000000 00:00 0\nAnonHugePages:      32 kB\n";
    ck_assert_uint_eq(tn_placement_huge_bytes((void *)0x10000, 0x20000), 12 * TN_KIB);
    ck_assert_uint_eq(tn_placement_huge_bytes((void *)0x60000, 0x10000), 32 * TN_KIB);
    smaps = NULL;
    ck_assert_uint_eq(tn_placement_huge_bytes((void *)0x10000, 0x20000), 0);
}
