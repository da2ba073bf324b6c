// SPDX-License-Identifier: Apache-2.0
/* screen.h -- lines on a terminal, each written over the one from before; or in a file, once.
 *
 * No line is longer than the terminal is wide, and there are no more than it is high. */
#ifndef TARN_COMMAND_SCREEN_H
#define TARN_COMMAND_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

struct screen {
    FILE *file;
    bool is_terminal;
    bool is_deaf; /* no key comes any more */
    unsigned width;
    unsigned height;
    unsigned lines; /* of the picture that is being written */
};

/* Standard output, and standard input's keys. */
void screen_begin(struct screen *screen);
void screen_end(struct screen *screen);

/* Asks how large the terminal is now, and goes to its first line. */
void screen_start(struct screen *screen);

/* Characters that would move the cursor are shown as question marks. */
void screen_line(struct screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Clears what is below. False: the output cannot be written. */
bool screen_finish(struct screen *screen);

/* Waits so long, or until a key is pressed. False: it is one that ends the command. */
bool screen_wait(struct screen *screen, int milliseconds);

#endif
