// SPDX-License-Identifier: Apache-2.0
/* Makes a planted access, for compute-sanitizer: planted/overruns.py runs it, and judges.
 *
 *   overrun_access count     how many there are
 *   overrun_access NUMBER    says the access, and makes it
 *   overrun_access correct   makes none, and does much else */
#include <stdio.h>
#include <stdlib.h>

#include "planted/overruns.h"

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.sanitizer = true;
    test_world_open_with(&options);
}

static void make(int number)
{
    struct overrun overrun;

    overrun_prepare(number, &overrun);
    (void)printf("planted %d: %s: address 0x%llx block 0x%llx bytes %zu %s\n", number, overrun.kind,
                 (unsigned long long)(uintptr_t)overrun.address,
                 (unsigned long long)(uintptr_t)overrun.block, overrun.bytes,
                 overrun.left != NULL ? "live" : "stale");
    (void)fflush(stdout);
    overrun_enqueue(&overrun);
    (void)test_stream_result(world.stream); /* under the tool the kernel has failed */
    test_world_abandon();
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";

    if (strcmp(what, "count") == 0) {
        (void)printf("%d\n", overrun_count());
        return 0;
    }
    if (strcmp(what, "correct") == 0) {
        open_world();
        overrun_do_nothing_wrong();
        test_world_close();
        (void)puts("nothing was wrong");
        return 0;
    }
    if (what[0] < '0' || what[0] > '9' || atoi(what) >= overrun_count()) {
        (void)fprintf(stderr, "usage: %s count | correct | NUMBER\n", argv[0]);
        return 2;
    }
    open_world();
    make(atoi(what));
    return 0;
}
