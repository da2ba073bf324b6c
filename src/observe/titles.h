// SPDX-License-Identifier: Apache-2.0
/* titles.h -- the texts of a history, copied for a reader.
 *
 * Each text is read when the reader first asks for it, and stays as long as the copies do.
 *
 * Locking: none; they are their reader's. */
#ifndef TARN_OBSERVE_TITLES_H
#define TARN_OBSERVE_TITLES_H

#include "base/title.h"

struct tn_title_copy;

struct tn_titles {
    struct tn_scroll_reader reader; /* where stacks and titles are */
    struct tn_title_copy **places;  /* by ids; their number is a power of two, or 0 */
    size_t place_count;
    size_t count;
    bool short_of_memory; /* a text could not be copied, and is told as an empty one */
};

/* None is copied yet. */
struct tn_titles tn_titles_new(const struct tn_scroll_reader *reader);
void tn_titles_free(struct tn_titles *titles);

/* The text of a title; empty: it had no room, or cannot be read. 0 is no title. */
const char *tn_titles_text(struct tn_titles *titles, uint64_t id);

/* The text of the label of an allocation with this stack; empty: it has none. */
const char *tn_titles_label(struct tn_titles *titles, uint64_t stack);

#endif
