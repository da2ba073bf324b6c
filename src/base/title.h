// SPDX-License-Identifier: Apache-2.0
/* title.h -- short texts that a history keeps once: labels, names of ranges, names of an
 * interpreter's frames.
 *
 * A title is a record of the scroll that has the stacks (base/stacks.h), and has an id. Equal titles
 * have one id, and id 1 is a title that found no room. A title's first word has the two top bits,
 * which a stack's first word never has:
 *
 *     word 0         bits 62 and 63: 1; bits 0 to 7: which kind
 *     word 1         of a frame's name alone: the interpreter's token
 *     the others     the text, in UTF-8, with zeros up to a whole word
 *
 * Locking: those of base/stacks.h. */
#ifndef TARN_BASE_TITLE_H
#define TARN_BASE_TITLE_H

#include "base/stacks.h"

enum {
    TN_TITLE_BYTES_MAX = 1000,
    TN_TITLE_WORDS_MAX = 2 + TN_TITLE_BYTES_MAX / 8,
    TN_TITLE_ROOM = TN_TITLE_WORDS_MAX + 1, /* with a zero behind the text */
};

enum tn_title_kind {
    TN_TITLE_TEXT = 1,  /* equal: the same text */
    TN_TITLE_FRAME = 2, /* equal: the same token, whatever the text */
};

struct tn_title {
    size_t count; /* of words */
    uint64_t words[TN_TITLE_ROOM];
};

/* Its text, which ends with 0. */
static inline const char *tn_title_text(const struct tn_title *title)
{
    return (const char *)&title->words[1];
}

enum tn_title_fault { TN_TITLE_GOOD, TN_TITLE_LONG, TN_TITLE_BYTES };

/* Makes a title of a text, which tn_title_text gives back. LONG: it has more than TN_TITLE_BYTES_MAX bytes; BYTES: it is no UTF-8. */
enum tn_title_fault tn_title_make(struct tn_title *title, const char *text);

/* The title of a token whose frame has this name; bytes that make it no title are left out or
 * replaced. */
void tn_title_make_frame(struct tn_title *title, uint64_t token, const char *text);

/* The title's id, never 0. */
uint32_t tn_title_enter(struct tn_stacks *stacks, const struct tn_title *title);

/* The id of the token's title; 0: it has none. */
uint32_t tn_title_find_frame(const struct tn_stacks *stacks, uint64_t token);

/* What a reader believes of a title. */
struct tn_title_text {
    enum tn_title_kind kind;
    uint64_t token;
    char text[TN_TITLE_BYTES_MAX + 1]; /* ends with 0; UTF-8 */
};

/* Reads a title of any process. One that found no room is read as an empty text. */
enum tn_scroll_answer tn_title_read(const struct tn_scroll_reader *reader, uint32_t id,
                                    struct tn_title_text *text);

#endif
