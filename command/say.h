// SPDX-License-Identifier: Apache-2.0
/* say.h -- how the command ends, and what it says on standard error. */
#ifndef TARN_COMMAND_SAY_H
#define TARN_COMMAND_SAY_H

enum answer {
    ANSWER_FOUND = 0,
    ANSWER_NOTHING = 1, /* no history, or nothing in it that was asked for */
    ANSWER_WRONG = 2,   /* the usage, a file that is none, or output that cannot be written */
};

/* Says one line on standard error, behind the command's name. Characters that would move the
 * terminal's cursor are shown as question marks. Returns the answer. */
enum answer say(enum answer answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
