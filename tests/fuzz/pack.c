// SPDX-License-Identifier: Apache-2.0
/* Stored inputs as files, and back: libFuzzer wants a folder.
 *     fuzz_pack unpack ARCHIVE FOLDER SUFFIX
 *     fuzz_pack pack ARCHIVE FOLDER|ARCHIVE...     writes the archive anew of all that is in those */
#include <string.h>

#include "fuzz/archive.h"

static struct fuzz_inputs inputs;

static int unpack(char **words)
{
    if (!fuzz_inputs_read(&inputs, words[2]))
        return 1;
    for (size_t i = 0; i < inputs.count; i++) {
        if (!fuzz_input_write(&inputs.items[i], words[3], words[4]))
            return 1;
    }
    (void)printf("%zu inputs\n", inputs.count);
    return 0;
}

static int pack(int count, char **words)
{
    for (int i = 3; i < count; i++) {
        if (!fuzz_inputs_read(&inputs, words[i]))
            return 1;
    }
    fuzz_inputs_sort(&inputs);
    if (!fuzz_inputs_write(&inputs, words[2]))
        return 1;
    (void)printf("%zu inputs\n", inputs.count);
    return 0;
}

int main(int count, char **words)
{
    int failed = 2;

    if (count == 5 && strcmp(words[1], "unpack") == 0)
        failed = unpack(words);
    else if (count >= 4 && strcmp(words[1], "pack") == 0)
        failed = pack(count, words);
    if (failed == 1)
        perror("fuzz_pack");
    else if (failed == 2)
        (void)fprintf(stderr, "usage: fuzz_pack unpack ARCHIVE FOLDER SUFFIX\n"
                              "       fuzz_pack pack ARCHIVE FOLDER|ARCHIVE...\n");
    return failed;
}
