// SPDX-License-Identifier: Apache-2.0
/* The files of the system are the test's: texts by path, and no others. */
#include "base/room.h"

#include <stdio.h>

#include "unit/unit.h"

enum { FILES_MAX = 16 };

static struct {
    const char *path;
    const char *text;
} files[FILES_MAX];

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    for (int i = 0; i < FILES_MAX && files[i].path != NULL; i++) {
        if (strcmp(files[i].path, path) == 0)
            return fmemopen((void *)(uintptr_t)files[i].text, strlen(files[i].text), "r");
    }
    ck_assert_ptr_nonnull(mode);
    return NULL;
}

static void put(const char *path, const char *text)
{
    int i = 0;

    while (files[i].path != NULL && strcmp(files[i].path, path) != 0)
        i += 1;
    ck_assert_int_lt(i, FILES_MAX - 1);
    files[i].path = path;
    files[i].text = text;
}

static void expect(uint64_t bytes, const char *limit)
{
    struct tn_room room = tn_room_read();

    ck_assert_uint_eq(room.bytes, bytes);
    ck_assert_str_eq(room.limit, limit);
}

static void expect_group(uint64_t bytes)
{
    expect(bytes, "the memory limit of its control group");
}

GROUP(room, NULL)

TEST(room, a_system_that_says_nothing_limits_nothing)
{
    expect(UINT64_MAX, "nothing");
    put("/proc/meminfo", "MemTotal: 9 kB\n");
    put("/proc/self/cgroup", "nonsense\n1:\n0::no path\n");
    expect(UINT64_MAX, "nothing");
}

TEST(room, the_machine_has_so_much_available)
{
    put("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n");
    expect(4000 * TN_KIB, "what the machine has available");
}

TEST(room, a_group_of_version_2_has_its_limit_less_what_it_uses)
{
    put("/proc/meminfo", "MemAvailable: 8000000 kB\n");
    put("/proc/self/cgroup", "0::/jobs/job\n");
    put("/sys/fs/cgroup/jobs/job/memory.max", "1000000\n");
    put("/sys/fs/cgroup/jobs/job/memory.current", "300000\n");
    expect_group(700000);
    put("/sys/fs/cgroup/jobs/job/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
    expect_group(800000);
}

TEST(room, the_groups_above_count_too)
{
    put("/proc/self/cgroup", "0::/jobs/job\n");
    put("/sys/fs/cgroup/jobs/job/memory.max", "max\n");
    put("/sys/fs/cgroup/jobs/job/memory.current", "300000\n");
    put("/sys/fs/cgroup/jobs/memory.max", "900000\n");
    put("/sys/fs/cgroup/jobs/memory.current", "850000\n");
    expect_group(50000);
    put("/sys/fs/cgroup/memory.max", "1000\n");
    put("/sys/fs/cgroup/memory.current", "1001\n");
    expect_group(0);
}

TEST(room, in_a_container_the_root_is_its_own_group)
{
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "1000\n");
    put("/sys/fs/cgroup/memory.current", "400\n");
    expect_group(600);
    put("/proc/self/cgroup", "0::/of/the/host\n");
    expect_group(600);
}

TEST(room, a_group_of_version_1_is_read_by_its_own_names)
{
    put("/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/docker/1\n2:cpu,cpuacct:/y\n0::/z\n");
    put("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "5000\n");
    put("/sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "3000\n");
    put("/sys/fs/cgroup/memory/docker/1/memory.stat",
        "inactive_file 999\ntotal_inactive_file 500\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "8000\n");
    expect_group(2500);
}

TEST(room, what_one_caller_was_promised_is_not_promised_to_another)
{
    struct tn_room room;

    put("/proc/meminfo", "MemAvailable: 100 kB\n");
    ck_assert(tn_room_promise(60 * TN_KIB, &room));
    ck_assert(!tn_room_promise(41 * TN_KIB, &room));
    ck_assert_uint_eq(room.bytes, 40 * TN_KIB);
    ck_assert_str_eq(room.limit, "what the machine has available");
    ck_assert(tn_room_promise(40 * TN_KIB, &room));
    tn_room_return(60 * TN_KIB);
    tn_room_return(40 * TN_KIB);
    ck_assert(tn_room_promise(100 * TN_KIB, &room));
    tn_room_return(100 * TN_KIB);
}
