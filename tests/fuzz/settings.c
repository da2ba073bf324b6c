// SPDX-License-Identifier: Apache-2.0
/* Settings of the simulator, a line each: by the environment, and by a program. One that is refused changes
 * nothing; the others leave values that may be. Files of costs have a target of their own, and are not
 * opened by names that chance makes. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "sim/entry/fault.h"
#include "sim/entry/settings.h"

enum { LINES_MAX = 64 };

extern char **environ;

const char *const fuzz_name = "settings";
const char *const fuzz_words[] = {
    "TARN_SIM_",
    "DEVICES=",
    "MEMORY_MIB=",
    "STRICT=",
    "CHECK=",
    "POISON=",
    "COSTS_SLEEP=",
    "FAULT=",
    "HINTS=",
    "DRIVER_VERSION=",
    "MISSING=",
    "VMM=",
    "LEDGER=",
    "EXEC_MEMORY=",
    "ACCOUNT=",
    "GONE=0",
    "driver",
    "moved",
    "refused",
    "refused:64",
    "refused:",
    "cuMemCreate",
    "cuMemMap,cuMemUnmap",
    "cuMemCreate:1:OUT_OF_MEMORY",
    "*:3:700:always",
    "*:-1:2",
    "*:18446744073709551616:2",
    ":always",
    "CUDA_ERROR_UNKNOWN",
    ",",
    "\n",
    "0",
    "1",
    "2",
    "16",
    "12000",
    "13000",
    "16777216",
    "1099511627776",
    "9223372036854775808",
    "-1",
    "+1",
    " 1",
};
const size_t fuzz_word_count = sizeof fuzz_words / sizeof fuzz_words[0];

void fuzz_begin(void)
{
    stderr = fopen("/dev/null",
                   "w"); /* what it says of each setting; reports of sanitizers go elsewhere */
}

/* Asks whether a line would open a file, or have the process do something when it ends. */
static bool left_out(const char *line)
{
    return strstr(line, "COSTS=") != NULL || strstr(line, "GONE=") != NULL;
}

static void expect_good(void)
{
    FUZZ_EXPECT(tn_sim.device_count >= 1 && tn_sim.device_count <= TN_SIM_MAX_DEVICES);
    FUZZ_EXPECT(tn_sim.memory_bytes >= TN_SIM_GRANULE &&
                tn_sim.memory_bytes % TN_SIM_GRANULE == 0 &&
                tn_sim.memory_bytes <= (size_t)16 << 40);
    FUZZ_EXPECT(tn_sim.check >= 0 && tn_sim.check <= 2);
    FUZZ_EXPECT(tn_sim.driver_version >= 12000 && tn_sim.driver_version <= TN_SIM_DRIVER_VERSION);
}

static void configure(char *line)
{
    char *value = strchr(line, '=');
    struct tn_sim_state before = tn_sim;

    if (value == NULL)
        return;
    *value++ = '\0';
    if (tarn_sim_configure(line, value) != 0)
        FUZZ_EXPECT(memcmp(&before, &tn_sim, sizeof before) == 0);
    expect_good();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    char *lines[LINES_MAX + 1];
    size_t count = 0;
    char *rest = NULL;
    char **own = environ;

    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, bytes, size);
    text[size] = '\0';
    (void)tarn_sim_configure("STRICT", "1"); /* the real environment is read by now */
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && count < LINES_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        if (!left_out(line))
            lines[count++] = line;
    }
    lines[count] = NULL;
    environ = lines;
    tn_sim_settings_read();
    environ = own;
    expect_good();
    for (size_t i = 0; i < count; i++)
        configure(lines[i]);
    (void)tarn_sim_clear_fault(NULL);
    free(text);
    return 0;
}
