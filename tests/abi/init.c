// SPDX-License-Identifier: Apache-2.0
/* Every INIT macro, in C and in C++: its size, and 0 in each other byte. */
#include <stdio.h>
#include <string.h>

#include <tarn/tarn.h>

static int failures;

/* Whether the struct has that size, and nothing else. */
static void expect_init(const char *name, const void *made, size_t bytes)
{
    size_t size = 0;

    memcpy(&size, made, sizeof size);
    if (size != bytes) {
        (void)printf("%s has the size %zu, not %zu\n", name, size, bytes);
        failures += 1;
    }
    for (size_t at = sizeof size; at < bytes; at++) {
        if (((const unsigned char *)made)[at] != 0) {
            (void)printf("%s has a byte that is not 0, at %zu\n", name, at);
            failures += 1;
            return;
        }
    }
}

/* As programs write it: for a variable, one that outlives its function, and one that is written again. */
#define TRY(type, init)                                                                            \
    do {                                                                                           \
        type made = init;                                                                          \
        static type kept = init;                                                                   \
        expect_init(#init, &made, sizeof made);                                                    \
        expect_init(#init, &kept, sizeof kept);                                                    \
        memset(&made, 0xa5, sizeof made);                                                          \
        made = (type)init;                                                                         \
        expect_init(#init, &made, sizeof made);                                                    \
    } while (0)

int main(void)
{
    TRY(tarn_device_options, TARN_DEVICE_OPTIONS_INIT);
    TRY(tarn_pool_options, TARN_POOL_OPTIONS_INIT);
    TRY(tarn_audit_options, TARN_AUDIT_OPTIONS_INIT);
    TRY(tarn_capture_options, TARN_CAPTURE_OPTIONS_INIT);
    TRY(tarn_device_info, TARN_DEVICE_INFO_INIT);
    TRY(tarn_stats, TARN_STATS_INIT);
    TRY(tarn_graph_memory_info, TARN_GRAPH_MEMORY_INFO_INIT);
    TRY(tarn_segment, TARN_SEGMENT_INIT);
    TRY(tarn_history_settings, TARN_HISTORY_SETTINGS_INIT);
    TRY(tarn_history_info, TARN_HISTORY_INFO_INIT);
    TRY(tarn_out_of_memory, TARN_OUT_OF_MEMORY_INIT);
    TRY(tarn_tracked, TARN_TRACKED_INIT);
    TRY(tarn_listener_options, TARN_LISTENER_OPTIONS_INIT);
    TRY(tarn_connection_info, TARN_CONNECTION_INFO_INIT);
    TRY(tarn_group_options, TARN_GROUP_OPTIONS_INIT);
    TRY(tarn_member_info, TARN_MEMBER_INFO_INIT);
    TRY(tarn_symmetric_info, TARN_SYMMETRIC_INFO_INIT);
    return failures != 0;
}
