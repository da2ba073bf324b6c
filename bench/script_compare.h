// SPDX-License-Identifier: Apache-2.0
/* script_compare.h -- the row "trace": 10,000 live blocks of random sizes up to 4 MiB, and each step
 * frees a random one and allocates one. All players play the very same traces.
 *
 * First a long run, after which everybody is asked for its peaks; several traces of that kind, as a
 * single one may be a lucky one. The last goes on, timed, by turns. Like the players this needs
 * neither Tarn nor the driver. */
#ifndef TARN_BENCH_SCRIPT_COMPARE_H
#define TARN_BENCH_SCRIPT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "script_player.h"

enum { SCRIPT_COMPARE_BLOCKS = 10000 };
#define SCRIPT_COMPARE_BYTES_MAX ((size_t)4 << 20) /* of a block */

/* What is compared. Variants of sizes other than SCRIPT_COMPARE_BYTES_MAX say so in their names. */
struct script_comparison {
    size_t bytes_max;
    bool by_octave; /* each doubling of the size as likely as the next; false: all sizes are */
    bool quick;
};

/* Plays and reports; of the players allocator and context are set. */
void script_players_compare(const struct script_comparison *comparison,
                            struct script_player *players, size_t count);

/* Says that a rival is not there. */
void script_report_absent(const struct script_comparison *comparison, const char *rival);

#endif
