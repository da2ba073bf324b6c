// SPDX-License-Identifier: Apache-2.0
/* diary.h -- the calls that the ranks of a group must make alike, with a hash of all of them.
 *
 * Each rank writes its calls down as they are made. Two ranks with the same count and the same hash
 * have made the same calls. The last calls are kept: ranks with other hashes find the first
 * different call.
 *
 * Locking: the pool's. */
#ifndef TARN_SHARE_DIARY_H
#define TARN_SHARE_DIARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN_DIARY_KEPT = 1024 };

enum tn_diary_kind { TN_DIARY_ALLOCATION = 1, TN_DIARY_FREE, TN_DIARY_GROWTH };

/* A call: plain bytes, as one rank tells it to the others. */
struct tn_diary_entry {
    uint64_t hash; /* of all calls up to this one */
    uint64_t bytes;
    uint64_t offset;
    uint64_t id; /* of a persistent block */
    uint64_t kind;
};

struct tn_diary {
    uint64_t count;
    uint64_t hash;
    struct tn_diary_entry kept[TN_DIARY_KEPT]; /* the call with index i is at i % TN_DIARY_KEPT */
};

void tn_diary_init(struct tn_diary *diary);

/* Writes a call down; its hash is found here. */
void tn_diary_add(struct tn_diary *diary, struct tn_diary_entry entry);

/* The hash of the first `count` calls, if it is still known. */
bool tn_diary_hash_of(const struct tn_diary *diary, uint64_t count, uint64_t *hash);

/* The call with this index, which is kept. */
const struct tn_diary_entry *tn_diary_at(const struct tn_diary *diary, uint64_t index);

/* The least count of calls whose hash is known. */
uint64_t tn_diary_oldest(const struct tn_diary *diary);

/* A call in words: "allocates 512 bytes at offset 0". */
void tn_diary_say(const struct tn_diary_entry *entry, char *text, size_t bytes);

#endif
