// SPDX-License-Identifier: Apache-2.0
/* A file of costs either is refused, and nothing has changed; or every call costs what a call may. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "sim/core/cost.h"

#define NS_MAX 1000000000000000000u /* of a thing, and of a call; a thousand million seconds */

const char *const fuzz_name = "costs";
const char *const fuzz_words[] = {
    "cuMemCreate ",
    "cuMemMap ",
    "cuEventRecord ",
    "cuInit ",
    "* ",
    "call:",
    "call:1000 ",
    "2M:14000 64M:13000 1G:34000",
    "0:430 2M:13200",
    "1e300",
    "1e18",
    "1e19:1",
    "inf",
    "nan",
    "0x1p63",
    "-0",
    "-1",
    "1.5K:",
    "1T:",
    "9e99T:1",
    "# ",
    "\n",
    "\r\n",
    "\t",
    "50",
};
const size_t fuzz_word_count = sizeof fuzz_words / sizeof fuzz_words[0];

static const enum tn_sim_function functions[] = {TN_SIM_FN_cuMemCreate, TN_SIM_FN_cuMemMap,
                                                 TN_SIM_FN_cuEventRecord, TN_SIM_FN_cuInit,
                                                 TN_SIM_FN_cuCtxGetCurrent};
static const size_t sizes[] = {
    0,       1, 1536, (size_t)2 << 20, ((size_t)64 << 20) + 1, (size_t)1 << 30, (size_t)1 << 46,
    SIZE_MAX};
enum {
    FUNCTIONS = sizeof functions / sizeof functions[0],
    SIZES = sizeof sizes / sizeof sizes[0],
};

struct seen {
    uint64_t ns[FUNCTIONS][SIZES];
};

void fuzz_begin(void)
{
    stderr =
        fopen("/dev/null", "w"); /* what it says of each line; reports of sanitizers go elsewhere */
}

/* What a call costs that is about one thing of a size. */
static uint64_t cost_of(enum tn_sim_function function, size_t size)
{
    struct tn_sim_thread thread = {.function = function, .charged = true};

    tn_sim_self()->charge_ns = 0;
    tn_sim_charge_as(function, size);
    thread.charge_ns = tn_sim_self()->charge_ns;
    return tn_sim_cost_enter(&thread);
}

static struct seen look(void)
{
    struct seen seen;

    for (size_t i = 0; i < FUNCTIONS; i++) {
        for (size_t j = 0; j < SIZES; j++)
            seen.ns[i][j] = cost_of(functions[i], sizes[j]);
    }
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct seen before = look();
    struct seen after;
    char path[64];
    int file = memfd_create("costs", MFD_CLOEXEC);
    bool loaded;

    if (file < 0 || write(file, bytes, size) != (ssize_t)size) {
        (void)close(file);
        return 0;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    loaded = tn_sim_costs_load(path);
    after = look();
    FUZZ_EXPECT(loaded || memcmp(&before, &after, sizeof before) == 0);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        for (size_t j = 0; j < SIZES; j++)
            FUZZ_EXPECT(after.ns[i][j] <= 2 * NS_MAX);
    }
    (void)close(file);
    return 0;
}
