// SPDX-License-Identifier: Apache-2.0
/* The tool that a device tells of its blocks refuses each planted access, and the block beside it is the
 * one meant. On a GPU, compute-sanitizer is that tool: planted/overruns.py. */
#include "planted/overruns.h"
#include "support/fake_tool.h"

static struct fake_tool tool;

static void open_with_tool(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    fake_tool_use(&tool, "stop");
    options.sanitizer = true;
    test_world_open_with(&options);
}

GROUP(planted, open_with_tool, test_world_close)

TEST(planted, each_wrong_access_is_refused_and_its_block_is_beside_it)
{
    ck_assert_int_ge(overrun_count(), 100);
    for (int number = 0; number < overrun_count(); number++) {
        struct overrun overrun;
        uint64_t address;
        uint64_t base = 0;
        uint64_t bytes = 0;

        overrun_prepare(number, &overrun);
        address = (uint64_t)(uintptr_t)overrun.address;
        ck_assert_msg(!tool.allows(address, sizeof(uint32_t)), "%s, %zu bytes", overrun.kind,
                      overrun.bytes);
        if (overrun.left != NULL) {
            ck_assert(tool.nearest(address, &base, &bytes));
            ck_assert_msg(base == (uintptr_t)overrun.block && bytes == overrun.bytes,
                          "%s, %zu bytes", overrun.kind, overrun.bytes);
        }
        overrun_enqueue(&overrun); /* the simulator does not ask the tool */
        overrun_end(&overrun);
    }
}

TEST(planted, correct_programs_touch_allowed_bytes_alone)
{
    overrun_do_nothing_wrong();
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}
