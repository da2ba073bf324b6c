// SPDX-License-Identifier: Apache-2.0
#include "driver/tool.h"

#include <stdlib.h>

#include "support/fake_tool.h"
#include "unit/unit.h"

static struct fake_tool tool;
static struct tn_lock process;

static void load(void)
{
    tn_lock_init(&process, TN_RANK_PROCESS);
    tn_lock_acquire(&process);
    tn_tool_load();
    tn_lock_release(&process);
    tn_lock_fini(&process);
}

GROUP(loading, NULL)

TEST(loading, nothing_is_loaded_where_no_tool_is_named)
{
    static const char *const paths[] = {NULL, "", "/nowhere/is/a/tool.so"};

    for (int i = 0; i < 3; i++) {
        fake_tool_use(&tool, NULL);
        ck_assert_int_eq(paths[i] != NULL ? setenv("NVTX_INJECTION64_PATH", paths[i], 1)
                                          : unsetenv("NVTX_INJECTION64_PATH"),
                         0);
    }
    load();
    ck_assert(!tn_tool_checks_memory());
    ck_assert_ptr_null(tn_tool_open_heap(1 << 20, 1 << 20));
    tn_tool_add_region(NULL, 1 << 20, 100);
    tn_tool_remove_region(1 << 20);
    tn_tool_close_heap(NULL);
    ck_assert_uint_eq(fake_tool_look(&tool).loads, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}

TEST(loading, is_done_once)
{
    fake_tool_use(&tool, NULL);
    load();
    load();
    ck_assert(tn_tool_checks_memory());
    ck_assert_uint_eq(fake_tool_look(&tool).loads, 1);
}

TEST(loading, is_tried_once)
{
    ck_assert_int_eq(unsetenv("NVTX_INJECTION64_PATH"), 0);
    load();
    fake_tool_use(&tool, NULL);
    load();
    ck_assert(!tn_tool_checks_memory());
    ck_assert_uint_eq(fake_tool_look(&tool).loads, 0);
}

static const char *const failing[] = {"silent", "memory"};

TEST_LOOP(loading, a_tool_that_takes_no_memory_is_told_nothing, 0, 2)
{
    fake_tool_use(&tool, failing[_i]);
    load();
    ck_assert(!tn_tool_checks_memory());
    ck_assert_ptr_null(tn_tool_open_heap(1 << 20, 1 << 20));
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
}

GROUP(telling, NULL)

TEST(telling, heaps_and_regions_come_and_go)
{
    const uint64_t base = (uint64_t)5 << 20;
    void *heap;

    fake_tool_use(&tool, NULL);
    load();
    heap = tn_tool_open_heap(base, 1 << 20);
    ck_assert_ptr_nonnull(heap);
    ck_assert(!tool.allows(base, 1));
    ck_assert(tool.allows(base - 1, 1)); /* outside */
    tn_tool_add_region(heap, base + 512, 100);
    ck_assert(tool.allows(base + 512, 100));
    ck_assert(!tool.allows(base + 512, 101));
    tn_tool_remove_region(base + 512);
    ck_assert(!tool.allows(base + 512, 1));
    tn_tool_add_region(heap, base, 512);
    tn_tool_close_heap(heap);
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).regions, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}

TEST(telling, a_refused_heap_has_no_regions)
{
    fake_tool_use(&tool, "heap");
    load();
    ck_assert_ptr_null(tn_tool_open_heap(1 << 20, 1 << 20));
    tn_tool_add_region(NULL, 1 << 20, 512);
    ck_assert_uint_eq(fake_tool_look(&tool).regions_added, 0);
}

/* Tools that know no domains keep memory all the same. */
TEST(telling, goes_on_without_a_domain)
{
    void *heap;

    fake_tool_use(&tool, "core");
    load();
    ck_assert(tn_tool_checks_memory());
    heap = tn_tool_open_heap(1 << 20, 1 << 20);
    ck_assert_ptr_nonnull(heap);
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 1); /* the tool has its own domain alone */
}

/* Tools get ranges and counters whether they check memory or not. */
TEST(telling, ranges_and_counters_by_name)
{
    uint64_t counter;
    int64_t value = 0;

    fake_tool_use(&tool, "memory");
    load();
    tn_tool_begin("outer");
    tn_tool_begin("inner");
    ck_assert_uint_eq(fake_tool_look(&tool).open_ranges, 2);
    tn_tool_end();
    tn_tool_end();
    ck_assert_uint_eq(fake_tool_look(&tool).open_ranges, 0);
    ck_assert_uint_eq(tool.count_ranges("inner"), 1);
    counter = tn_tool_make_counter("bytes of a pool");
    ck_assert_uint_ne(counter, 0);
    ck_assert(!tool.value("of a pool", &value));
    tn_tool_count(counter, 12345);
    ck_assert(tool.value("of a pool", &value));
    ck_assert_int_eq(value, 12345);
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}

TEST(telling, no_tool_gets_no_ranges_and_no_counters)
{
    fake_tool_use(&tool, "silent");
    load();
    tn_tool_begin("range");
    tn_tool_end();
    ck_assert_uint_eq(tn_tool_make_counter("bytes"), 0);
    tn_tool_count(0, 5);
    ck_assert_uint_eq(fake_tool_look(&tool).ranges, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).counters, 0);
}
