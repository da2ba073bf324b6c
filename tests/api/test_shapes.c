// SPDX-License-Identifier: Apache-2.0
/* Memory where shapes change: what stays mapped or is refused behind blocks that left holes, and what graphs take that
 * are captured in any order of sizes. Addresses may be wasted, memory not. */
#include <stdlib.h>

#include "support/world.h"

enum { BLOCKS = 24, GRAPHS = 200, ORDERS = 22, MOST_TEMPORARIES = 24 };

/* Every other one of equal blocks has gone. */
static void leave_a_comb(void *blocks[BLOCKS], size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = test_alloc(world.pool, bytes, world.stream);
    for (int i = 0; i < BLOCKS; i += 2)
        OK(tarn_free(blocks[i]));
}

static void free_the_comb(void *const blocks[BLOCKS])
{
    for (int i = 1; i < BLOCKS; i += 2)
        OK(tarn_free(blocks[i]));
}

/* Memory that nobody touches costs the simulator nothing. */
static void open_large(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "32768", 1), 0);
    ck_assert_int_eq(setenv("TARN_SIM_POISON", "0", 1), 0);
    test_world_open();
}

GROUP(large, open_large, test_world_close)

TEST(large, a_trim_gives_back_what_lay_between_large_blocks)
{
    void *blocks[BLOCKS];

    leave_a_comb(blocks, 1000 * MIB);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_le(test_device_stats().mapped_bytes, 12030 * MIB);
    free_the_comb(blocks);
}

GROUP(shapes, test_world_open, test_world_close)

TEST(shapes, what_lay_between_blocks_serves_a_larger_block_below_the_limit)
{
    void *blocks[BLOCKS];

    OK(tarn_device_set_limit(world.device, 1000 * MIB));
    leave_a_comb(blocks, 40 * MIB);
    OK(tarn_free(test_alloc(world.pool, 440 * MIB, world.stream)));
    free_the_comb(blocks);
}

/* A section with temporaries of so many bytes in all: count of them live at once, and each then gives way to one that
 * is half as large. */
static tarn_graph *capture_section(size_t bytes, size_t count)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *blocks[MOST_TEMPORARIES];

    for (size_t i = 0; i < count; i++) {
        blocks[i] = test_alloc(world.pool, bytes / count, world.stream);
        test_fill(world.stream, blocks[i], 1, 4);
    }
    for (size_t i = 0; i < count; i++) {
        OK(tarn_free(blocks[i]));
        blocks[i] = test_alloc(world.pool, bytes / count / 2, world.stream);
        test_fill(world.stream, blocks[i], 2, 4);
    }
    for (size_t i = 0; i < count; i++)
        OK(tarn_free(blocks[i]));
    return test_capture_end(capture);
}

/* 0: ascending; 1: descending; others: by the seed. */
static void order_sizes(size_t sizes[GRAPHS], unsigned seed)
{
    for (size_t i = 0; i < GRAPHS; i++)
        sizes[i] = 52 * MIB / GRAPHS * (seed == 1 ? GRAPHS - i : i + 1);
    for (size_t i = GRAPHS - 1; i > 0 && seed > 1; i--) {
        size_t other = (size_t)rand_r(&seed) % (i + 1);
        size_t size = sizes[i];

        sizes[i] = sizes[other];
        sizes[other] = size;
    }
}

TEST_LOOP(shapes, graphs_captured_in_any_order_take_what_the_largest_needs, 0, 4 * ORDERS)
{
    static const size_t counts[] = {1, 3, 7, MOST_TEMPORARIES};
    tarn_graph *graphs[GRAPHS];
    size_t sizes[GRAPHS];

    order_sizes(sizes, (unsigned)_i % ORDERS);
    for (size_t i = 0; i < GRAPHS; i++)
        graphs[i] = capture_section(sizes[i], counts[_i / ORDERS]);
    ck_assert_uint_le(test_device_stats().mapped_bytes, 64 * MIB);
    for (size_t i = 0; i < GRAPHS; i++)
        OK(tarn_graph_destroy(graphs[i]));
}
