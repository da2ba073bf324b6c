// SPDX-License-Identifier: Apache-2.0
/* The trace of the limits (script_compare.h), with sizes that are all alike likely, played by Tarn and by
 * the driver's allocator. The same once more with sizes by octave: each doubling of the size is as likely
 * as the next, so that most blocks are small and most bytes are in large ones. No limit speaks of that
 * one: there even an exact best fit takes 1.057 of what is allocated, where it takes 1.029 of the
 * first. */
#include "contenders.h"
#include "driver.h"
#include "rows.h"
#include "script_compare.h"

static void compare(const struct bench *bench, bool by_octave)
{
    enum { PARTS = 3 }; /* of the memory: Tarn's, the rival's, and what both take over */
    struct script_comparison comparison = {
        .bytes_max =
            contenders_choose_bytes_max(SCRIPT_COMPARE_BYTES_MAX, SCRIPT_COMPARE_BLOCKS, PARTS),
        .by_octave = by_octave,
        .quick = bench->quick,
    };
    struct script_player players[] = {{.allocator = &script_tarn, .context = bench->device},
                                      {.allocator = &script_driver}};

    script_players_compare(&comparison, players, contenders_rival_plays(bench) ? 2 : 1);
    if (cu.rival_pool == NULL)
        script_report_absent(&comparison, script_driver.rival);
}

void bench_row_trace(const struct bench *bench)
{
    compare(bench, false);
    compare(bench, true);
}
