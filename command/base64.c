// SPDX-License-Identifier: Apache-2.0
#include "base64.h"

#include "base/contract.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes so many of the four digits of three bytes. */
static void put_digits(uint32_t bits, unsigned count, FILE *file)
{
    char four[4];

    TN_ASSERT(count <= sizeof four);
    for (unsigned i = 0; i < sizeof four; i++)
        four[i] = i < count ? digits[bits >> (18 - 6 * i) & 63] : '=';
    (void)fwrite(four, 1, sizeof four, file);
}

void base64_put(struct base64 *base64, const void *bytes, size_t count, FILE *file)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < count; i++) {
        base64->bits = base64->bits << 8 | at[i];
        if (++base64->count < 3)
            continue;
        put_digits(base64->bits & 0xffffff, 4, file);
        base64->count = 0;
    }
}

void base64_end(struct base64 *base64, FILE *file)
{
    if (base64->count > 0)
        put_digits(base64->bits << 8 * (3 - base64->count) & 0xffffff, base64->count + 1, file);
    *base64 = (struct base64){.count = 0};
}
