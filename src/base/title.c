// SPDX-License-Identifier: Apache-2.0
/* A text ends at its first zero byte, or with its record: so no word has its length. */
#include "base/title.h"

#include <string.h>

#include "base/checked.h"

#define TITLE_BITS (UINT64_C(3) << 62)

/* How many bytes the first character of a text has, in UTF-8; 0: they are no character. Reads no
 * byte behind one that is none of the character's. */
static size_t character_bytes(const unsigned char *text)
{
    static const struct {
        unsigned char first, last;   /* of the first byte */
        unsigned char second, until; /* of the second; others: 0x80 to 0xbf */
        unsigned char bytes;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (text[0] < forms[i].first || text[0] > forms[i].last)
            continue;
        if (forms[i].bytes > 1 && (text[1] < forms[i].second || text[1] > forms[i].until))
            return 0;
        for (size_t at = 2; at < forms[i].bytes; at++) {
            if (text[at] < 0x80 || text[at] > 0xbf)
                return 0;
        }
        return forms[i].bytes;
    }
    return 0;
}

static void begin(struct tn_title *title, enum tn_title_kind kind)
{
    memset(title->words, 0, sizeof title->words);
    title->words[0] = TITLE_BITS | (uint64_t)kind;
    title->count = 1;
}

enum tn_title_fault tn_title_make(struct tn_title *title, const char *text)
{
    const size_t bytes = strnlen(text, TN_TITLE_BYTES_MAX + 1);

    if (bytes > TN_TITLE_BYTES_MAX)
        return TN_TITLE_LONG;
    for (size_t at = 0; at < bytes;) {
        const size_t more = character_bytes((const unsigned char *)text + at);

        if (more == 0)
            return TN_TITLE_BYTES;
        at += more;
    }
    begin(title, TN_TITLE_TEXT);
    memcpy(&title->words[1], text, bytes);
    title->count += (bytes + 7) / 8;
    TN_ASSERT(title->count <= TN_TITLE_WORDS_MAX);
    return TN_TITLE_GOOD;
}

/* Copies whole characters, as many as have room; a byte of none becomes '?'. Returns their bytes. */
static size_t copy_characters(char *to, size_t room, const char *from)
{
    size_t done = 0;

    while (*from != '\0') {
        const size_t whole = character_bytes((const unsigned char *)from);
        const size_t bytes = whole > 0 ? whole : 1;

        if (bytes > room - done)
            break;
        memcpy(to + done, whole > 0 ? from : "?", bytes);
        from += bytes;
        done += bytes;
    }
    TN_ASSERT(done <= room);
    return done;
}

void tn_title_make_frame(struct tn_title *title, uint64_t token, const char *text)
{
    size_t bytes;

    begin(title, TN_TITLE_FRAME);
    title->words[1] = token;
    bytes = copy_characters((char *)&title->words[2], TN_TITLE_BYTES_MAX, text);
    title->count = 2 + tn_max((bytes + 7) / 8, 1); /* never the key alone */
    TN_ASSERT(title->count <= TN_TITLE_WORDS_MAX);
}

static enum tn_title_kind kind_of(uint64_t word)
{
    return (enum tn_title_kind)(word & 0xff);
}

uint32_t tn_title_enter(struct tn_stacks *stacks, const struct tn_title *title)
{
    TN_ASSERT(title->count > 0 && title->words[0] >= TITLE_BITS);
    return tn_stacks_enter_title(stacks, title->words, title->count,
                                 kind_of(title->words[0]) == TN_TITLE_FRAME ? 2 : title->count);
}

uint32_t tn_title_find_frame(const struct tn_stacks *stacks, uint64_t token)
{
    const uint64_t key[] = {TITLE_BITS | TN_TITLE_FRAME, token};

    return tn_stacks_find_title(stacks, key, 2);
}

enum tn_scroll_answer tn_title_read(const struct tn_scroll_reader *reader, uint32_t id,
                                    struct tn_title_text *text)
{
    uint64_t words[TN_SCROLL_WORDS_MAX + 1];
    enum tn_scroll_answer answer;
    size_t count = 0;
    size_t first;

    *text = (struct tn_title_text){.kind = TN_TITLE_TEXT};
    if (id == TN_STACKS_FULL)
        return TN_SCROLL_READ;
    answer = tn_scroll_read(reader, id, words, &count);
    if (answer != TN_SCROLL_READ)
        return answer;
    if (count == 0 || words[0] < TITLE_BITS || count > TN_TITLE_WORDS_MAX)
        return TN_SCROLL_BROKEN;
    text->kind = kind_of(words[0]);
    first = text->kind == TN_TITLE_FRAME ? 2 : 1;
    if ((text->kind != TN_TITLE_TEXT && text->kind != TN_TITLE_FRAME) || count < first)
        return TN_SCROLL_BROKEN;
    text->token = first == 2 ? words[1] : 0;
    words[count] = 0;
    text->text[copy_characters(text->text, TN_TITLE_BYTES_MAX, (const char *)&words[first])] = '\0';
    return TN_SCROLL_READ;
}
