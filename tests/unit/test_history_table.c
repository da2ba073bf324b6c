// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include "heap/history_table.h"
#include "unit/unit.h"

SUITE("tables of live blocks")

static struct tn_ring_file file;
static struct tn_history_tables tables;
static struct tn_block_slab slab;

static struct tn_history_table *take(uint64_t pool)
{
    return tn_history_table_take(&tables, &(struct tn_history_table_owner){pool, "a pool", &slab});
}

static void open_tables(void)
{
    ck_assert(tn_ring_file_make(&file, NULL, &(struct tn_ring_plan){.page_count = 1}));
    tables = (struct tn_history_tables){.file = &file};
}

static void close_tables(void)
{
    tn_ring_file_remove(&file);
}

GROUP(tables, open_tables, .end = close_tables)

TEST(tables, each_table_is_its_own_and_empty)
{
    enum { TABLES = 100 }; /* of several parts */
    struct tn_history_table *taken[TABLES];

    for (size_t i = 0; i < TABLES; i++) {
        taken[i] = take(i + 1);
        ck_assert_ptr_nonnull(taken[i]);
        for (size_t j = 0; j < TN_HISTORY_ENTRIES; j++) {
            ck_assert(atomic_load(&taken[i]->entries[j].number) == 0);
            atomic_store(&taken[i]->entries[j].number, i + 1);
        }
    }
    for (size_t i = 0; i < TABLES; i++) {
        ck_assert_uint_eq(atomic_load(&taken[i]->pool), i + 1);
        for (size_t j = 0; j < TN_HISTORY_ENTRIES; j++)
            ck_assert(atomic_load(&taken[i]->entries[j].number) == i + 1);
    }
    ck_assert_uint_eq(file.head->part_count, 3); /* of 16, 32 and 64 tables */
    ck_assert_uint_eq(tables.count, 112);
}

TEST(tables, a_table_that_is_given_back_is_taken_again_empty)
{
    struct tn_history_table *table = take(7);

    atomic_store(&table->entries[3].number, 99);
    tn_history_table_give(&tables, table);
    ck_assert_uint_eq(atomic_load(&table->pool), 0);
    ck_assert_uint_eq(atomic_load(&table->entries[3].number), 0);
    ck_assert_ptr_eq(take(8), table);
    ck_assert_uint_eq(atomic_load(&table->pool), 8);
}

TEST(tables, without_another_part_there_is_no_table)
{
    file.part_count = TN_RING_PARTS;
    ck_assert_ptr_null(take(1));
    file.part_count = 0;
    ck_assert_ptr_nonnull(take(1));
}

/* What a reader finds as the pool's name. */
static const char *name_of(const struct tn_history_table *table)
{
    static char name[sizeof table->name];

    for (size_t i = 0; i < TN_HISTORY_NAME_WORDS; i++) {
        uint64_t word = atomic_load(&table->name[i]);

        memcpy(name + i * sizeof word, &word, sizeof word);
    }
    ck_assert_int_eq(name[sizeof name - 1], '\0');
    return name;
}

TEST(tables, a_table_has_the_name_of_its_pool)
{
    struct tn_history_table_owner owner = {1, "0123456789012345678901234567890123456789", &slab};
    struct tn_history_table *table = tn_history_table_take(&tables, &owner);

    ck_assert_str_eq(name_of(table), "0123456789012345678901234567890");
    ck_assert_ptr_eq(table->slab, &slab);
    tn_history_table_give(&tables, table);
    ck_assert_ptr_eq(take(2), table);
    ck_assert_str_eq(name_of(table), "a pool");
}
