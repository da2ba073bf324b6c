// SPDX-License-Identifier: Apache-2.0
/* text.h -- how texts, sizes and moments are written for people. */
#ifndef TARN_COMMAND_TEXT_H
#define TARN_COMMAND_TEXT_H

#include <stdio.h>

/* Writes a foreign text, without what would move a terminal's cursor: those characters become
 * question marks. */
void text_put(FILE *file, const char *text);

/* Writes a number of bytes for people: 1536 is "1.5 KiB". */
void text_bytes(FILE *file, double bytes);

/* Writes a moment, in nanoseconds since 1970, as UTC to the microsecond. */
void text_time(FILE *file, unsigned long long nanoseconds);

/* The bytes of the character that begins there, as UTF-8 has it; 0: none does. */
unsigned text_character_bytes(const unsigned char *at);

#endif
