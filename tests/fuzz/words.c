// SPDX-License-Identifier: Apache-2.0
/* Inputs that are texts: the target's words and single characters are inserted, changed and left out, and
 * parts are taken from another text. */
#include <string.h>

#include "fuzz/fuzz.h"

static const char letters[] = ",:;()[]{}<>*/=.# \t\n0123456789KMGTx-+_e\x80"; /* NUL is one */

size_t fuzz_change(uint8_t *bytes, size_t size, const struct fuzz_input *other)
{
    const char *word = fuzz_words[fuzz_below(fuzz_word_count)];
    const char *letter = &letters[fuzz_below(sizeof letters)];
    size_t at = fuzz_below(size + 1);
    size_t count = fuzz_below(size - at + 1);
    size_t from;

    switch (fuzz_below(6)) {
    case 0:
        return fuzz_replace(bytes, size, at, 0, word, strlen(word));
    case 1:
        return fuzz_replace(bytes, size, at, count, word, strlen(word));
    case 2:
        return fuzz_replace(bytes, size, at, 0, letter, 1);
    case 3:
        return fuzz_replace(bytes, size, at, at < size, letter, 1);
    case 4:
        return fuzz_replace(bytes, size, at, count, "", 0);
    default:
        from = fuzz_below(other->size + 1);
        return fuzz_replace(bytes, size, at, 0, other->bytes + from,
                            fuzz_below(other->size - from + 1));
    }
}
