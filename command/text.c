// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

void text_put(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;

        (void)fputc(c < ' ' || c == 0x7f ? '?' : c, file);
    }
}

void text_bytes(FILE *file, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;

    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit += 1;
    }
    (void)fprintf(file, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

void text_time(FILE *file, unsigned long long nanoseconds)
{
    const time_t seconds = (time_t)(nanoseconds / 1000000000);
    struct tm parts;
    char text[64];

    if (gmtime_r(&seconds, &parts) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        (void)snprintf(text, sizeof text, "%llu s", nanoseconds / 1000000000);
    (void)fprintf(file, "%s.%06lluZ", text, nanoseconds / 1000 % 1000000);
}

unsigned text_character_bytes(const unsigned char *at)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned bytes = at[0] < 0x80             ? 1
                     : (at[0] & 0xe0) == 0xc0 ? 2
                     : (at[0] & 0xf0) == 0xe0 ? 3
                     : (at[0] & 0xf8) == 0xf0 ? 4
                                              : 0;
    uint32_t code = bytes > 1 ? at[0] & (0x7fU >> bytes) : 0;

    for (unsigned i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if (bytes > 1 && (code < lowest[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)))
        return 0;
    return bytes;
}
