// SPDX-License-Identifier: Apache-2.0
/* correct.h -- graphs without a mistake: how they are made, and what an audit must say of them. */
#ifndef TARN_TESTS_PLANTED_CORRECT_H
#define TARN_TESTS_PLANTED_CORRECT_H

#include "planted/judge.h"
#include "planted/plant.h"
#include "support/bodies.h"
#include "support/nodes.h"

enum { BYTES = 8192, LARGE_BYTES = 18432, SMALL_BYTES = 1024 };

#define COUNTS(...) ((const size_t[TARN_POINTER_CLASSES]){__VA_ARGS__})

/* -- Auditing --------------------------------------------------------------------------------------- */

static inline void judge(tarn_audit *audit, size_t uninspected, const size_t *counts)
{
    size_t all = 0;

    ck_assert_uint_eq(audit->mistake_count, 0);
    ck_assert_ptr_null(audit->mistakes);
    ck_assert_uint_eq(audit->uninspected_count, uninspected);
    for (size_t i = 0; i < TARN_POINTER_CLASSES; i++) {
        ck_assert_msg(audit->counts[i] == counts[i], "%zu are %s, expected %zu", audit->counts[i],
                      tarn_pointer_class_name((tarn_pointer_class)i), counts[i]);
        all += counts[i];
    }
    ck_assert_uint_eq(audit->pointer_count, all);
    planted_note_json(audit);
    tarn_audit_destroy(audit);
}

static inline void expect(tarn_graph *graph, const size_t *counts)
{
    tarn_audit *audit = NULL;

    OK(tarn_graph_audit(graph, NULL, &audit));
    judge(audit, 0, counts);
}

/* As whoever has the graph and knows nothing else of it would look. */
static inline void expect_unknown(tn_cu_graph graph, const size_t *counts)
{
    tarn_audit *audit = NULL;

    OK(tarn_driver_graph_audit(world.device, graph, NULL, &audit));
    judge(audit, 0, counts);
}

/* pool: the own one, or NULL. */
static inline void expect_driver(tn_cu_graph graph, tarn_pool *pool, const size_t *counts)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_audit *audit = NULL;

    options.pool = pool;
    OK(tarn_device_mark(world.device, &options.mark));
    OK(tarn_driver_graph_audit(world.device, graph, &options, &audit));
    judge(audit, 0, counts);
}

/* -- Making ----------------------------------------------------------------------------------------- */

static inline tarn_capture *begin(void)
{
    return test_capture_begin(TARN_CAPTURE_RELAXED);
}

static inline void use_on(tn_cu_stream stream, const void *first, const void *second)
{
    planted_launch(stream,
                   &(struct planted_params){planted_word(first), 7, {1, planted_word(second), 3}});
}

/* A kernel on the world's stream that is given both addresses; NULL: none. */
static inline void use(const void *first, const void *second)
{
    use_on(world.stream, first, second);
}

static inline void set(void *address)
{
    test_set_words(world.stream, address, 1, 4);
}

/* The graph goes, and what it held is free. */
static inline void destroy(tarn_graph *graph)
{
    OK(tarn_graph_destroy(graph));
}

static inline tarn_graph *adopt(tn_cu_graph captured)
{
    tarn_graph *graph = NULL;

    OK(tarn_graph_adopt(world.pool, captured, &graph));
    return graph;
}

#endif
