// SPDX-License-Identifier: Apache-2.0
#include "base64.h"

#include <stdlib.h>
#include <string.h>

#include "support/registry.h"

SUITE("bytes as text")

GROUP(bytes, NULL)

/* In pieces of one byte, and at once. The texts are those of RFC 4648. */
TEST(bytes, are_text_however_they_come)
{
    static const char *const texts[][2] = {
        {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
        {"foo", "Zm9v"}, {"\xff\xfe", "//4="}, {"foobar", "Zm9vYmFy"}};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t piece = 1; piece <= 6; piece += 5) {
            const size_t count = strlen(texts[i][0]);
            struct base64 base64 = {.count = 0};
            char *text;
            size_t bytes;
            FILE *file = open_memstream(&text, &bytes);

            ck_assert_ptr_nonnull(file);
            for (size_t at = 0; at < count; at += piece)
                base64_put(&base64, texts[i][0] + at, count - at < piece ? count - at : piece,
                           file);
            base64_end(&base64, file);
            ck_assert_int_eq(fclose(file), 0);
            ck_assert_str_eq(text, texts[i][1]);
            free(text);
        }
    }
}
