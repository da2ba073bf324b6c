// SPDX-License-Identifier: Apache-2.0
/* made.h -- a history made by hand, as a process leaves it, and opened as the command opens it. */
#ifndef TARN_TESTS_COMMAND_MADE_H
#define TARN_TESTS_COMMAND_MADE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/note.h"
#include "base/ring.h"
#include "base/ring_file.h"
#include "heap/history.h"
#include "history.h"
#include "support/registry.h"

enum { MADE_PAGES = 8, MADE_UNIT = 512 };

static struct {
    char folder[32];
    struct tn_ring_file file;
    struct tn_ring ring;
    struct history history;
} made;

static inline void made_begin(void)
{
    static const atomic_uint_fast64_t counter;
    const struct tn_ring_plan plan = {.page_count = MADE_PAGES,
                                      .area_bytes = {TN_RING_PAGE_BYTES, TN_RING_PAGE_BYTES}};

    (void)strcpy(made.folder, "/tmp/tarn-made-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(made.folder));
    ck_assert(tn_ring_file_make(&made.file, made.folder, &plan));
    ck_assert_int_eq(made.file.error, 0);
    ck_assert(tn_ring_init(&made.ring, tn_ring_file_pages(&made.file), MADE_PAGES, &counter));
    ck_assert_ptr_nonnull(tn_ring_file_add_part(&made.file));
}

static inline void made_end(void)
{
    tn_ring_drop(&made.ring);
    tn_ring_file_remove(&made.file);
    ck_assert_int_eq(rmdir(made.folder), 0);
}

static inline struct history *made_open(void)
{
    ck_assert(history_open(&made.history, made.file.path));
    return &made.history;
}

/* Writes an allocation behind a stamp of its own. */
static inline void made_alloc(struct tn_ring_writer *writer, uint64_t number, uint64_t address,
                              uint64_t units)
{
    tn_ring_put_stamp(writer);
    tn_ring_put(writer, TN_HISTORY_NUMBER, number);
    tn_ring_put_two(writer, TN_HISTORY_ALLOC, units << TN_HISTORY_WASTE_BITS, address / MADE_UNIT);
}

static inline void made_free(struct tn_ring_writer *writer, uint64_t number)
{
    tn_ring_put_stamp(writer);
    tn_ring_put(writer, TN_HISTORY_FREE, number);
}

/* An entry of the table, in its first table, which is the pool's. */
static inline void made_live(size_t entry, struct tn_told_block block)
{
    struct tn_history_table *table = made.file.parts[0];

    atomic_store(&table->pool, block.pool);
    atomic_store(&table->entries[entry].address, block.address);
    atomic_store(&table->entries[entry].requested, block.requested);
    atomic_store(&table->entries[entry].units, block.bytes / MADE_UNIT);
    atomic_store(&table->entries[entry].stack, block.stack);
    atomic_store(&table->entries[entry].number, block.sequence);
}

#endif
