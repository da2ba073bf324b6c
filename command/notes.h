// SPDX-License-Identifier: Apache-2.0
/* notes.h -- what notes are called, and their operands. */
#ifndef TARN_COMMAND_NOTES_H
#define TARN_COMMAND_NOTES_H

#include <stdio.h>

#include "base/note.h"
#include "json.h"

/* As "graph replayed". */
const char *note_name(enum tn_note note);

/* What the note's operand is called. */
const char *note_operand(enum tn_note note, size_t which);

/* The operands, each with its name. */
void note_print(const struct tn_note_words *note, FILE *file);
void note_to_json(const struct tn_note_words *note, struct json *json);

/* Whether the note is about memory that has the address. */
bool note_has_address(const struct tn_note_words *note, uint64_t address);

#endif
