// SPDX-License-Identifier: Apache-2.0
/* What a history tells of memory shared with other processes. Both ends are in this process. */
#include "observe/retell.h"
#include "unit/told.h"

SUITE("what a history tells of shares")

static struct tn_told told;
static size_t at; /* from where the next note is looked for */

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    test_world_open_with(&options);
}

GROUP(shares, open_world, test_world_close)

/* The next note of shares. */
static const struct tn_note_words *next(enum tn_note note)
{
    while (at < told.event_count &&
           (told.events[at].kind != TN_HISTORY_NOTE || told.events[at].note.note < TN_NOTE_SHARED))
        at += 1;
    ck_assert_uint_lt(at, told.event_count);
    ck_assert_int_eq((int)told.events[at].note.note, (int)note);
    return &told.events[at++].note;
}

TEST(shares, a_share_is_told_from_its_lease_to_its_return)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    const struct tn_note_words *note;
    tarn_connection *producer;
    tarn_connection *consumer;
    tarn_listener *listener;
    tarn_pool *pool;
    tarn_block info;
    tarn_share share;
    uint64_t connection;
    void *block;
    void *opened;
    char name[56];

    options.flags = TARN_POOL_SHARED;
    pool = test_pool_with(&options);
    block = test_alloc(pool, 4096, world.stream);
    OK(tarn_block_at(block, &info));
    OK(tarn_listener_create(world.device, NULL, &listener));
    OK(tarn_listener_name(listener, name));
    OK(tarn_connection_open(world.device, name, &consumer));
    OK(tarn_listener_progress(listener));
    OK(tarn_listener_accept(listener, &producer));
    OK(tarn_share_block(producer, block, &share));
    OK(tarn_share_open(consumer, &share, 0, &opened));
    OK(tarn_share_open(consumer, &share, 0, &opened)); /* not told again */
    OK(tarn_share_close(consumer, opened));
    OK(tarn_share_close(consumer, opened));
    OK(tarn_share_collect(world.device, NULL));
    OK(tarn_connection_destroy(consumer));
    OK(tarn_connection_destroy(producer));
    OK(tarn_listener_destroy(listener));
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    told = unit_retell(NULL);
    note = next(TN_NOTE_SHARED);
    ck_assert_uint_eq(note->operands[0], info.sequence);
    connection = note->operands[1];
    ck_assert_uint_ne(connection, 0);
    ck_assert_uint_eq(note->operands[2], (uint64_t)getpid());
    note = next(TN_NOTE_IMPORT_MAPPED);
    ck_assert_uint_le(note->operands[0], (uintptr_t)opened);
    ck_assert_uint_gt(note->operands[0] + note->operands[1], (uintptr_t)opened);
    ck_assert_uint_eq(note->operands[2], 1);
    note = next(TN_NOTE_SHARE_OPENED);
    ck_assert_uint_eq(note->operands[0], (uintptr_t)opened);
    ck_assert_uint_eq(note->operands[1], 4096);
    ck_assert_uint_eq(note->operands[2], connection);
    note = next(TN_NOTE_SHARE_RETURNED);
    ck_assert_uint_eq(note->operands[0], (uintptr_t)opened);
    ck_assert_uint_eq(note->operands[1], 4096);
    note = next(TN_NOTE_LEASES_ENDED);
    ck_assert_uint_eq(note->operands[0], connection);
    ck_assert_uint_eq(note->operands[2], 1);
    note = next(TN_NOTE_IMPORT_UNMAPPED);
    ck_assert_uint_le(note->operands[0], (uintptr_t)opened);
    tn_told_free(&told);
}
